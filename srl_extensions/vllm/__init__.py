"""vLLM servers: processes, requests, sampling backend, publication of trained weights."""
