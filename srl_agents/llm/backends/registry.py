"""Table of sampling backends, and models by the name BACKEND:MODEL."""

from __future__ import annotations

from typing import Any

from srl_agents.errors import BackendError
from srl_envs.tables import Plugin, PluginTable

BACKENDS = PluginTable(
    "core_srl.backends",
    {
        "transformers": Plugin("srl_train.config.backend", "models in the trainer's process"),
        "vllm": Plugin("srl_extensions.vllm.config", "models in vLLM servers"),
        "openai": Plugin("srl_agents.llm.backends.openai", "OpenAI's API and compatible servers"),
        "anthropic": Plugin("srl_agents.llm.backends.anthropic", "Anthropic's API"),
    },
    BackendError,
)
"""Sampling backends by name. A module defines one or both of:

- `open_model(name) -> ChatModel`, for models that are not trained. Players are named
  BACKEND:MODEL, such as openai:gpt-5-mini.
- `SECTION`, a subclass of srl_train.config.backend.BackendSection: the section `backend` of a run
  whose models in training are sampled by this backend.
"""


def is_api_name(name: str) -> bool:
    """Return True if `name` begins with BACKEND: and this backend defines `open_model`."""
    backend, colon, _ = name.partition(":")
    return bool(colon) and backend in BACKENDS and hasattr(BACKENDS.load(backend), "open_model")


def api_model(name: str) -> Any:
    """Return a ChatModel, whose key is read from the environment.

    Args:
        name: BACKEND:MODEL, such as 'openai:gpt-5-mini', for which `is_api_name` is True.

    Raises:
        BackendError: The name has no MODEL, or the SDK, key or address is missing or not valid.
    """
    backend, _, model = name.partition(":")
    if not model:
        raise BackendError(f"the name of a model must be {backend}:MODEL, got {name!r}")
    return BACKENDS.load(backend).open_model(model)
