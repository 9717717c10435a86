"""Policies by their models' names: the embedded model, folders and hub names."""

from __future__ import annotations

from collections.abc import Sequence

from mrlm.algorithms import games
from mrlm.core.environment import EnvironmentMode, SimulatedEnvironment
from mrlm.core.language_model import LLMEnvironment
from mrlm.core.types import GenerationConfig
from srl_train.players.load import load_backend
from srl_train.players.trained_models import Loading

TURNS = 512
"""Of an episode, at most, that the embedded model is shown."""


def load_policy(
    name: str,
    environments: Sequence[SimulatedEnvironment],
    generation_config: GenerationConfig | None = None,
) -> LLMEnvironment:
    """A policy in SERVER mode, on an accelerator where there is one, in the precision it was saved.

    `name` is a folder, a hub name, or 'tiny': the embedded model, made to write in `environments`.
    Raises BackendError for what cannot be loaded, and EnvConfigError without environments.
    """
    backend = load_backend(name, games.make_env(environments, TURNS), Loading())
    return LLMEnvironment(
        backend.model,
        backend.tokenizer,
        mode=EnvironmentMode.SERVER,
        generation_config=generation_config,
    )
