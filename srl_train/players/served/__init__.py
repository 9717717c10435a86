"""Models in training that sample in vLLM servers."""
