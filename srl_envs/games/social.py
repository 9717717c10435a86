"""Social games under one name: trading or negotiation, chosen by `scenario`.

    env = parallel_env(scenario="negotiation", offers="simultaneous")

What each plays and takes is in srl_envs.games.trading and srl_envs.games.negotiation.
"""

from __future__ import annotations

from typing import Any

from srl_envs import registry
from srl_envs.validation import check_choice, parallel_form

SCENARIOS = {"trading": "social_trading_v0", "negotiation": "social_negotiation_v0"}
"""Scenario -> the game's own name in the registry."""


@parallel_form
def parallel_env(*, scenario: str = "trading", **parameters: Any) -> Any:
    """The scenario's game as a PettingZoo ParallelEnv; `parameters` are the game's own.

    Raises EnvConfigError for an unknown scenario, or a parameter that its game does not know.
    """
    return registry.make(SCENARIOS[check_choice("scenario", scenario, SCENARIOS)], **parameters)
