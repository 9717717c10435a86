"""Plugins loaded in vLLM's own environment; they import torch, vLLM and the standard library."""
