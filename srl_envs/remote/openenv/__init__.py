"""OpenEnv: our games behind its servers, and its servers' games as ours."""
