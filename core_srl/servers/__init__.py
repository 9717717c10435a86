"""Documented names of model servers: adapters served by vLLM, and schedulers over servers."""
