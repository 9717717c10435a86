"""Entries of the scripted policies: playable environments and constructors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from gymnasium.spaces import Discrete

from srl_agents.policy import Policy, SyncPolicy
from srl_agents.scripted.basic import ThompsonSampling, Uniform, WinStayLoseShift
from srl_agents.scripted.maze import Explorer, GreedyWalker, RandomWalker, WallFollower
from srl_agents.scripted.memory_one import SITUATIONS, STRATEGIES, MemoryOne, SituationReader
from srl_agents.scripted.negotiation import Negotiator, Reciprocator
from srl_agents.scripted.trading import Trader
from srl_envs.games import staged as staged_v0
from srl_envs.games import team_battle as team_battle_v0

BINARY = ("coop_compete_v0", "team_battle_v0", "staged_v0")
BANDIT, MAZE = ("bandit_v0",), ("maze_v0",)
TRADING, NEGOTIATION = ("social_trading_v0",), ("social_negotiation_v0",)
GAMES = (*BINARY, *BANDIT, *MAZE, *TRADING, *NEGOTIATION)

READERS: Mapping[str, Callable[[Any], SituationReader]] = {
    "coop_compete_v0": lambda game: SituationReader(),
    "team_battle_v0": lambda game: SituationReader(
        team_battle_v0.OBSERVATION_FIELDS, others="rivals_cooperated"
    ),
    "staged_v0": lambda game: SituationReader(
        staged_v0.OBSERVATION_FIELDS, others="all_cooperated", seats=len(game.possible_agents)
    ),
}
"""Metadata name -> reader of situations."""


@dataclass(frozen=True)
class PolicyEntry:
    """Scripted policy."""

    name: str
    games: tuple[str, ...]
    """Metadata names of playable environments; empty for any game of discrete actions."""
    make: Callable[[Any], Policy]
    holdout: bool = False
    """Kept for evaluation."""
    blind: bool = False
    """Ignores observations, so that it plays any game with two actions."""

    def can_play(self, env: Any) -> bool:
        """Return True if the policy can play the environment."""
        game = env.metadata["name"]
        if game in self.games:
            return True
        sizes = set(_actions(env).values())
        if not self.games:
            return 0 not in sizes
        return self.blind and game not in GAMES and sizes == {2}


def _actions(env: Any) -> dict[str, int]:
    spaces = {agent: env.action_space(agent) for agent in env.possible_agents}
    return {a: int(s.n) if isinstance(s, Discrete) else 0 for a, s in spaces.items()}


def _memory_one(name: str, chances: Sequence[float] = (), *, holdout: bool = False) -> PolicyEntry:
    chances = chances or STRATEGIES[name]
    blind = len(set(chances)) == 1

    def make(env: Any) -> SyncPolicy:
        reader = None if blind else READERS[env.metadata["name"]](env.unwrapped)
        return MemoryOne(name, chances, reader)

    return PolicyEntry(name, BINARY, make, holdout, blind)


def _walker(kind: Callable[[int, int, int], SyncPolicy], env: Any) -> SyncPolicy:
    game = env.unwrapped
    return kind(game.width, game.height, game.view_radius)


def _explorer(env: Any) -> SyncPolicy:
    return _walker(partial(Explorer, meets=env.unwrapped.task == "meet"), env)


def _trader(name: str, env: Any, **manner: Any) -> SyncPolicy:
    return Trader(env.unwrapped.rules, name=name, **manner)


def _negotiator(name: str, beta: float, env: Any) -> SyncPolicy:
    return Negotiator(env.unwrapped.rules, env.unwrapped.max_cycles, beta=beta, name=name)


_OWN = (
    PolicyEntry("uniform", (), lambda env: Uniform(_actions(env))),
    _memory_one("always_cooperate", [1.0] * SITUATIONS),
    _memory_one("always_compete", [0.0] * SITUATIONS),
    _memory_one("tit_for_tat"),
    _memory_one("suspicious_tit_for_tat"),
    _memory_one("mostly_compete"),
    _memory_one(
        "mostly_cooperate", holdout=True
    ),
    _memory_one(
        "grim_trigger",
        holdout=True,
    ),
    _memory_one(
        "pavlov", holdout=True
    ),
    _memory_one(
        "generous_tit_for_tat", holdout=True
    ),
    _memory_one("alternator", holdout=True),
    PolicyEntry(
        "win_stay_lose_shift", BANDIT, lambda env: WinStayLoseShift(),
    ),
    PolicyEntry(
        "thompson_sampling", BANDIT, lambda env: ThompsonSampling(),
    ),
    PolicyEntry("random_walker", MAZE, partial(_walker, RandomWalker)),
    PolicyEntry(
        "greedy_walker", MAZE, partial(_walker, GreedyWalker),
    ),
    PolicyEntry(
        "explorer", MAZE, _explorer,
    ),
    PolicyEntry(
        "wall_follower", MAZE, partial(_walker, WallFollower),
        holdout=True,
    ),
    PolicyEntry(
        "truthful_trader", TRADING, partial(_trader, "truthful_trader"),
    ),
    PolicyEntry(
        "defaulting_trader", TRADING, partial(_trader, "defaulting_trader", honest_until=0.0),
    ),
    PolicyEntry(
        "hard_bargainer", TRADING,
        partial(_trader, "hard_bargainer", bargains_hard=True, least_gain=4), holdout=True,
    ),
    PolicyEntry(
        "late_defaulter", TRADING, partial(_trader, "late_defaulter", honest_until=0.6),
        holdout=True,
    ),
    PolicyEntry(
        "conceder", NEGOTIATION, partial(_negotiator, "conceder", 2.0),
    ),
    PolicyEntry(
        "reciprocator", NEGOTIATION,
        lambda env: Reciprocator(env.unwrapped.rules, env.unwrapped.max_cycles),
    ),
    PolicyEntry(
        "boulware", NEGOTIATION, partial(_negotiator, "boulware", 0.2), holdout=True,
    ),
    PolicyEntry(
        "stubborn", NEGOTIATION, partial(_negotiator, "stubborn", 0.0), holdout=True,
    ),
)  # fmt: skip
ENTRIES = SimpleNamespace(**{entry.name: entry for entry in _OWN})
"""Entry of each scripted policy, by name."""
