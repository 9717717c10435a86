"""Servers on this machine that speak as APIs and vLLM do, and fail as they do."""
