"""Environments behind servers: gRPC and OpenEnv."""
