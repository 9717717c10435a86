"""Serving: vLLM servers of models that play, their processes, and the requests shared over them."""
