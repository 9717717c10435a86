"""Trading and negotiation under one name.

    env = parallel_env(scenario="negotiation", offers="simultaneous")

The games are defined in srl_envs.games.trading and srl_envs.games.negotiation.
"""

from __future__ import annotations

from typing import Any

from srl_envs import registry
from srl_envs.validation import check_choice

SCENARIOS = {"trading": "social_trading_v0", "negotiation": "social_negotiation_v0"}
"""Name in the registry of each scenario's game."""


def parallel_env(*, scenario: str = "trading", **parameters: Any) -> Any:
    """Make a scenario's game, a PettingZoo ParallelEnv; EnvConfigError for invalid arguments.

    Args:
        scenario: "trading" or "negotiation".
        **parameters: Arguments of SocialTrading or SocialNegotiation.
    """
    return registry.make(SCENARIOS[check_choice("scenario", scenario, SCENARIOS)], **parameters)
