"""Local HTTP servers that imitate the APIs of OpenAI, Anthropic and vLLM, with their faults."""
