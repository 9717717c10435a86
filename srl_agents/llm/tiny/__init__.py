"""The embedded tiny model: configuration, tokenizer, warm start."""

from srl_agents.llm.tiny.model import TinySize, cache_folder, folder

__all__ = ["TinySize", "cache_folder", "folder"]
