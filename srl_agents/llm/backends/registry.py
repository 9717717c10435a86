"""Registry of chat backends by prefix: 'openai:gpt-5-mini', 'anthropic:claude-haiku-4-5'."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from srl_agents.errors import BackendError
from srl_agents.llm.backends.anthropic import AnthropicModel
from srl_agents.llm.backends.chat_backend import ChatModel
from srl_agents.llm.backends.openai import OpenAIModel

APIS: Mapping[str, Callable[[str], ChatModel]] = MappingProxyType(
    {"openai": OpenAIModel, "anthropic": AnthropicModel}
)
"""What stands before the colon -> who is asked."""


def is_api_name(name: str) -> bool:
    """Whether a name stands for a model behind an API."""
    api, colon, _ = name.partition(":")
    return bool(colon) and api in APIS


def api_model(name: str) -> ChatModel:
    """The model of that name, its key read from the environment.

    Raises BackendError where the name has no model, or the SDK or the key is missing.
    """
    api, _, model = name.partition(":")
    if not model:
        raise BackendError(f"{name!r} names no model: give {api}:MODEL")
    return APIS[api](model)
