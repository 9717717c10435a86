"""Hugging Face models in this process: sampling, KV cache, quantization."""
