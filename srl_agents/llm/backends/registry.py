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
"""Sampling backends by name. Each module has one or both of these:

- `open_model(name) -> ChatModel`, for models that never train and are called BACKEND:MODEL
  wherever a player is named, such as openai:gpt-5-mini;
- `SECTION`, a subclass of srl_train.config.backend.BackendSection: the section `backend` of a run
  in which the backend samples for the models that train.
"""


def is_api_name(name: str) -> bool:
    """Return whether `name` has the form BACKEND:MODEL of a backend that opens models by name."""
    backend, colon, _ = name.partition(":")
    return bool(colon) and backend in BACKENDS and hasattr(BACKENDS.load(backend), "open_model")


def api_model(name: str) -> Any:
    """Open the ChatModel `name`, such as 'openai:gpt-5-mini'. Keys are read from the environment.

    Raises:
        BackendError: If the name has no model, or an SDK or a key is missing.
    """
    backend, _, model = name.partition(":")
    if not model:
        raise BackendError(f"{name!r} names no model: give {backend}:MODEL")
    return BACKENDS.load(backend).open_model(model)
