"""The embedded tiny model: configuration, tokenizer, warm start."""

from srl_agents.llm.cache_folder import cache_folder
from srl_agents.llm.tiny.model import SERVABLE, TinySize, folder

__all__ = ["SERVABLE", "TinySize", "cache_folder", "folder"]
