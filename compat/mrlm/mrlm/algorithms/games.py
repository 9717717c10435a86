"""What a run plays: several environments of messages as one environment of Core SRL."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.written_game import WrittenGame
from mrlm.environments.task import TaskEnvironment
from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.loading.tagged_json import is_plain
from srl_envs.tasks.multitask.env import Multitask
from srl_envs.validation import check_choice

Named = tuple[str, dict[str, Any]]
"""An environment's name in the registry of srl_envs, and its options."""


def named(environments: Sequence[SimulatedEnvironment], longest: int) -> Named | None:
    """The environment that stands for them, of at most `longest` turns, where a name can; else
    None."""
    kinds = [one for one, _ in _kinds(environments)]
    kind = kinds[0] if len(kinds) == 1 else None
    if not isinstance(kind, TaskEnvironment):
        return None
    options = {**kind.options, "max_cycles": min(kind.max_turns, longest)}
    return (kind.name, options) if is_plain(options) else None


def make_env(environments: Sequence[SimulatedEnvironment], longest: int) -> Callable[[], Any]:
    """Makes the environment of which each episode is one of theirs, of at most `longest` turns.

    Raises EnvConfigError without any, and for such as cannot be played side by side.
    """
    kinds = _kinds(environments)
    if not kinds:
        raise EnvConfigError("eval_envs: there are none: give one or more environments to train in")
    if len(kinds) == 1:
        return partial(_bounded, kinds[0][0].parallel_env, longest)
    labels = _labels([kind for kind, _ in kinds])
    members = {label: _member(kind) for label, (kind, _) in zip(labels, kinds, strict=True)}
    weights = {label: float(count) for label, (_, count) in zip(labels, kinds, strict=True)}
    return partial(_bounded, partial(Multitask, members, weights=weights), longest)


def written(
    environment: SimulatedEnvironment, obs_mode: str = "llm", render_mode: str | None = None
) -> WrittenGame:
    """A game of its own by an environment's settings, for multitask_v0."""
    check_choice("obs_mode", obs_mode, ("llm",))
    check_choice("render_mode", render_mode, (None,))
    return WrittenGame(environment.copy())


def _bounded(make: Callable[[], Any], longest: int) -> Any:
    game = make()
    if game.unwrapped.max_cycles > longest:
        game.unwrapped.max_cycles = longest
    return game


def _kinds(
    environments: Sequence[SimulatedEnvironment],
) -> list[tuple[SimulatedEnvironment, int]]:
    """Environments that differ, each with how many are like it."""
    found: list[tuple[SimulatedEnvironment, int]] = []
    for environment in environments:
        if not isinstance(environment, SimulatedEnvironment):
            raise EnvConfigError(
                f"eval_envs: got {environment!r:.80}: give environments (SimulatedEnvironment)"
            )
        for place, (known, count) in enumerate(found):
            if _alike(known, environment):
                found[place] = known, count + 1
                break
        else:
            found.append((environment, 1))
    return found


def _alike(one: SimulatedEnvironment, other: SimulatedEnvironment) -> bool:
    if not (isinstance(one, TaskEnvironment) and isinstance(other, TaskEnvironment)):
        return one is other
    return (one.name, one.options) == (other.name, other.options)


def _member(environment: SimulatedEnvironment) -> dict[str, Any]:
    if isinstance(environment, TaskEnvironment):
        return {"name": environment.name, "options": environment.options}
    return {"name": f"{__name__}:{written.__name__}", "options": {"environment": environment}}


def _labels(environments: Sequence[SimulatedEnvironment]) -> list[str]:
    """A name for each: its kind, with a number where there are several of it."""
    kinds = [
        registry.served_name(one.name).removesuffix("_v0")
        if isinstance(one, TaskEnvironment)
        else type(one).__name__
        for one in environments
    ]
    counts = {kind: itertools.count() for kind in kinds}
    return [f"{k}_{next(counts[k])}" if kinds.count(k) > 1 else k for k in kinds]
