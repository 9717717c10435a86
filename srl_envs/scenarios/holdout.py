"""Holdout of levels: those kept for evaluation are refused to whoever trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_envs.errors import EnvConfigError
from srl_envs.scenarios import lookup
from srl_envs.tasks.multitask.env import Multitask


def refuse_levels(where: str, name: str, options: Mapping[str, Any], env: Any) -> None:
    """Raise EnvConfigError where `env`, made as `name` with these options, would play levels that
    are held out; `where` begins the names of its settings in errors."""
    game = env.unwrapped
    if isinstance(game, Multitask):
        for label, member in game.environments.items():
            told = game.named[label]
            own = told.get("options") or {}
            refuse_levels(f"{where}.options.environments.{label}", told["name"], own, member)
        return
    split = getattr(game, "split", None)
    # Whoever trains on a file of problems has chosen them: there "any" is the default.
    chosen = getattr(getattr(game, "task", None), "split", None) == split
    if split == "test" or (split == "any" and not chosen):
        raise EnvConfigError(
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
        raise EnvConfigError(
            f"{where}.options {kept} together are the levels of scenario {found.name}, kept "
            "for evaluation: change one of them to train"
        )
