"""The embedded tiny model: configuration, tokenizer, warm start."""

from srl_agents.llm.cache_folder import cache_folder
from srl_agents.llm.tiny.model import TinySize, folder

__all__ = ["TinySize", "cache_folder", "folder"]
