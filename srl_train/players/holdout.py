"""Holdout of opponents and levels: refused in training, reserved for evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from srl_agents.scripted.registry import POLICIES, names
from srl_envs.scenarios import lookup
from srl_envs.tasks.multitask.env import Multitask
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import EnvironmentConfig


def refuse_levels(section: EnvironmentConfig, env: Any) -> None:
    """Raise ConfigError where the environment would play levels that are held out."""
    _refuse_levels("environment", section.name, section.options, env)


def _refuse_levels(where: str, name: str, options: Mapping[str, Any], env: Any) -> None:
    game = env.unwrapped
    if isinstance(game, Multitask):
        for label, member in game.environments.items():
            told = game.named[label]
            own = told.get("options") or {}
            _refuse_levels(f"{where}.options.environments.{label}", told["name"], own, member)
        return
    split = getattr(game, "split", None)
    # Whoever trains on a file of problems has chosen them: there "any" is the default.
    chosen = getattr(getattr(game, "task", None), "split", None) == split
    if split == "test" or (split == "any" and not chosen):
        raise ConfigError(
            f"{where}.options.split is {split!r}: the levels of the test split are "
            "kept for evaluation (srl eval --held-out only); leave split out to train"
        )
    # Objects, and functions of one's own that wrap a game of the catalogue, say how it was made.
    made = [getattr(one, how, None) for one in (env, game) for how in ("made_as", "made_within")]
    ways = [(name, options), *((how["name"], how["options"]) for how in made if how)]
    kept_of = (lookup.kept_for_evaluation(*way) for way in ways)
    found = next((scenario for scenario in kept_of if scenario is not None), None)
    if found is not None:
        kept = ", ".join(f"{name}={found.options[name]}" for name in found.held_out_options)
        raise ConfigError(
            f"{where}.options {kept} together are the levels of scenario {found.name}, kept "
            "for evaluation: change one of them to train"
        )


def refuse_partners(seats: Mapping[str, str], models: tuple[str, ...], env: Any) -> None:
    """Raise ConfigError for an agent of nobody's, or of a scripted policy that is held out."""
    offered = ", ".join(sorted({*models, *names(env, holdout=False)}))
    for seat, who in seats.items():
        if who in models:
            continue
        if who not in POLICIES:
            raise ConfigError(f"seats.{seat} is {who!r}: give one of {offered}")
        if POLICIES[who].holdout:
            raise ConfigError(
                f"seats.{seat} is {who!r}, which is kept for evaluation (srl eval): to train, "
                f"give one of {offered}"
            )
