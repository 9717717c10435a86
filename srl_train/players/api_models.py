"""Restrictions on models behind an API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from srl_agents.llm.backends.registry import is_api_name
from srl_train.errors import ConfigError


def refuse_for_apis(bases: Iterable[str], frozen: Mapping[str, str], *, constrained: bool) -> None:
    """Raise ConfigError, of the section `models`, where a model behind an API is to train, or to
    write legal answers only."""
    for base in bases:
        if is_api_name(base):
            raise ConfigError(
                f"base: got {base!r}, and a model behind an API cannot be trained: use it as a "
                f"frozen one, models.frozen_models: {{coach: {base!r}}} and seats: {{SEAT: coach}}"
            )
    for name in frozen.values():
        if constrained and is_api_name(name):
            refuse_constrained(name, "constrained: it")


def refuse_constrained(name: str, asked_by: str) -> None:
    """Raise ConfigError: an API's tokens cannot be chosen among."""
    raise ConfigError(
        f"{asked_by} lets models write legal answers only, and {name} cannot be held to that "
        "over its API: leave it off"
    )
