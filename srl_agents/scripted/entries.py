"""Constructors of the scripted policies from environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from srl_agents.policy import SyncPolicy
from srl_agents.scripted.basic import (
    ExploreThenCommit,
    ThompsonSampling,
    Uniform,
    WinStayLoseShift,
)
from srl_agents.scripted.maze import Explorer, GreedyWalker, RandomWalker, WallFollower
from srl_agents.scripted.memory_one import STRATEGIES, MemoryOne, SituationReader
from srl_agents.scripted.negotiation import Negotiator, Reciprocator
from srl_agents.scripted.registry import action_counts, first_version
from srl_agents.scripted.trading import Trader
from srl_envs.games import coop_compete as coop_compete_v0
from srl_envs.games import staged as staged_v0
from srl_envs.games import team_battle as team_battle_v0

FIELDS: Mapping[str, Sequence[str]] = {
    "coop_compete_v0": coop_compete_v0.OBSERVATION_FIELDS,
    "team_battle_v0": team_battle_v0.OBSERVATION_FIELDS,
    "staged_v0": staged_v0.OBSERVATION_FIELDS,
}
"""Metadata name of a game -> names of the entries of its observation vectors."""
READERS: Mapping[str, Callable[[Any], SituationReader]] = {
    "coop_compete_v0": lambda game: SituationReader(),
    "team_battle_v0": lambda game: SituationReader(
        FIELDS["team_battle_v0"], others="rivals_cooperated"
    ),
    "staged_v0": lambda game: SituationReader(
        FIELDS["staged_v0"], others="all_cooperated", seats=len(game.possible_agents)
    ),
}
"""Metadata name of a game -> reader of its situations."""


def _memory_one(name: str, env: Any) -> SyncPolicy:
    return MemoryOne(name, STRATEGIES[name], READERS[first_version(env)](env.unwrapped))


def _walker(kind: Callable[[int, int, int], SyncPolicy], env: Any) -> SyncPolicy:
    game = env.unwrapped
    return kind(game.width, game.height, game.view_radius)


def _trader(name: str, env: Any, **manner: Any) -> SyncPolicy:
    return Trader(env.unwrapped.rules, name=name, **manner)


def _negotiator(name: str, beta: float, env: Any, **more: float) -> SyncPolicy:
    return Negotiator(env.unwrapped.rules, env.unwrapped.max_cycles, beta=beta, name=name, **more)


SLY: dict[str, Any] = {"honest_until": 0.8, "honest_at": 0.5}
MAKERS: dict[str, Callable[[Any], SyncPolicy]] = {
    "uniform": lambda env: Uniform(action_counts(env)),
    **{name: partial(_memory_one, name) for name in STRATEGIES},
    "explore_then_commit": lambda env: ExploreThenCommit(FIELDS[first_version(env)]),
    "win_stay_lose_shift": lambda env: WinStayLoseShift(),
    "thompson_sampling": lambda env: ThompsonSampling(),
    **{kind.name: partial(_walker, kind) for kind in (RandomWalker, GreedyWalker, WallFollower)},
    "explorer": lambda env: _walker(partial(Explorer, meets=env.unwrapped.task == "meet"), env),
    "truthful_trader": partial(_trader, "truthful_trader"),
    "defaulting_trader": partial(_trader, "defaulting_trader", honest_until=0.0),
    "hard_bargainer": partial(_trader, "hard_bargainer", bargains_hard=True, least_gain=4),
    "late_defaulter": partial(_trader, "late_defaulter", honest_until=0.6),
    "sly_trader": partial(_trader, "sly_trader", **SLY),
    "sly_bargainer": partial(_trader, "sly_bargainer", bargains_hard=True, least_gain=4, **SLY),
    "conceder": partial(_negotiator, "conceder", 2.0),
    "reciprocator": lambda env: Reciprocator(env.unwrapped.rules, env.unwrapped.max_cycles),
    "firm": partial(_negotiator, "firm", 2.0, least=0.75),
    "boulware": partial(_negotiator, "boulware", 0.2),
    "stubborn": partial(_negotiator, "stubborn", 0.0),
}
"""Name of a scripted policy -> its constructor."""
