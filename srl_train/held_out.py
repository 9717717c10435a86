"""What is kept for evaluation: training refuses the partners and the levels that scenarios hold
out (srl_envs/scenarios.py), so that `srl eval` meets models with what they have never met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_agents.classic.table import POLICIES, names
from srl_envs import scenarios
from srl_train.config import EnvironmentConfig
from srl_train.errors import ConfigError

HELD_OUT_SPLITS = ("test", "any")  # of levels; "any" has those of "test" too


def refuse_levels(section: EnvironmentConfig, env: Any) -> None:
    """Raise ConfigError where the environment would play levels that are held out."""
    split = getattr(env.unwrapped, "split", None)
    if split in HELD_OUT_SPLITS:
        raise ConfigError(
            f"environment.options.split is {split!r}: the levels of the test split are "
            "kept for evaluation (srl eval --held-out only); leave split out to train"
        )
    found = scenarios.kept_for_evaluation(section.name, section.options)
    if found is not None:
        kept = ", ".join(f"{name}={found.options[name]}" for name in found.held_out_options)
        raise ConfigError(
            f"environment.options {kept} together are the levels of scenario {found.name}, kept "
            "for evaluation: change one of them to train"
        )


def refuse_partners(seats: Mapping[str, str], models: tuple[str, ...], env: Any) -> None:
    """Raise ConfigError for a seat of nobody's, or of a classic policy that is held out."""
    offered = ", ".join(sorted({*models, *names(env, held_out=False)}))
    for seat, who in seats.items():
        if who in models:
            continue
        if who not in POLICIES:
            raise ConfigError(f"seats.{seat} is {who!r}: give one of {offered}")
        if POLICIES[who].held_out:
            raise ConfigError(
                f"seats.{seat} is {who!r}, which is kept for evaluation (srl eval): to train, "
                f"give one of {offered}"
            )
