"""Registry of scripted policies: playable games and held-out policies."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gymnasium.spaces import Discrete

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.registry import is_api_name
from srl_agents.policy import Policy, SyncPolicy, missing_methods
from srl_agents.scripted.basic import ThompsonSampling, Uniform, WinStayLoseShift
from srl_agents.scripted.maze import Explorer, GreedyWalker, RandomWalker, WallFollower
from srl_agents.scripted.memory_one import SITUATIONS, STRATEGIES, MemoryOne, SituationReader
from srl_agents.scripted.negotiation import Negotiator, Reciprocator
from srl_agents.scripted.trading import Trader
from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.games import staged as staged_v0
from srl_envs.games import team_battle as team_battle_v0
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import likely

BINARY = ("coop_compete_v0", "team_battle_v0", "staged_v0")
BANDIT, MAZE = ("bandit_v0",), ("maze_v0",)
TRADING, NEGOTIATION = ("social_trading_v0",), ("social_negotiation_v0",)
GAMES = (*BINARY, *BANDIT, *MAZE, *TRADING, *NEGOTIATION)
ANY = "any game of discrete actions"

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
class Entry:
    """Scripted policy."""

    name: str
    games: tuple[str, ...]
    """Metadata names of playable environments; empty for any game of discrete actions."""
    make: Callable[[Any], Policy]
    description: str
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


def _memory_one(
    name: str, description: str, chances: Sequence[float] = (), *, holdout: bool = False
) -> Entry:
    chances = chances or STRATEGIES[name]
    blind = len(set(chances)) == 1

    def make(env: Any) -> SyncPolicy:
        reader = None if blind else READERS[env.metadata["name"]](env.unwrapped)
        return MemoryOne(name, chances, reader)

    return Entry(name, BINARY, make, description, holdout, blind)


def _walker(kind: Callable[[int, int, int], SyncPolicy], env: Any) -> SyncPolicy:
    game = env.unwrapped
    return kind(game.width, game.height, game.view_radius)


def _explorer(env: Any) -> SyncPolicy:
    return _walker(partial(Explorer, meets=env.unwrapped.task == "meet"), env)


def _trader(name: str, env: Any, **manner: Any) -> SyncPolicy:
    return Trader(env.unwrapped.rules, network=env.unwrapped.network, name=name, **manner)


def _negotiator(name: str, beta: float, env: Any) -> SyncPolicy:
    return Negotiator(env.unwrapped.rules, env.unwrapped.max_cycles, beta=beta, name=name)


_OWN = (
    Entry("uniform", (), lambda env: Uniform(_actions(env)), "any legal action"),
    _memory_one("always_cooperate", "cooperates in every round", [1.0] * SITUATIONS),
    _memory_one("always_compete", "competes in every round", [0.0] * SITUATIONS),
    _memory_one("tit_for_tat", "cooperates, then does what the others' majority did"),
    _memory_one("suspicious_tit_for_tat", "the same, but competes first"),
    _memory_one("mostly_compete", "competes four times in five, at random"),
    _memory_one(
        "mostly_cooperate", "cooperates four times in five, at random", holdout=True
    ),
    _memory_one(
        "grim_trigger", "cooperates until the others once compete, and never again",
        holdout=True,
    ),
    _memory_one(
        "pavlov", "cooperates after a round in which both did the same", holdout=True
    ),
    _memory_one(
        "generous_tit_for_tat", "tit for tat that forgives one time in three", holdout=True
    ),
    _memory_one("alternator", "cooperates and competes in turn", holdout=True),
    Entry(
        "win_stay_lose_shift", BANDIT, lambda env: WinStayLoseShift(),
        "stays with an arm that won, leaves one that lost",
    ),
    Entry(
        "thompson_sampling", BANDIT, lambda env: ThompsonSampling(),
        "pulls an arm as often as it is likely the better one",
    ),
    Entry("random_walker", MAZE, partial(_walker, RandomWalker), "takes any open way"),
    Entry(
        "greedy_walker", MAZE, partial(_walker, GreedyWalker),
        "takes an open way towards its goal, and remembers nothing",
    ),
    Entry(
        "explorer", MAZE, _explorer,
        "remembers the walls and takes the shortest way that may be there",
    ),
    Entry(
        "wall_follower", MAZE, partial(_walker, WallFollower), "keeps its right hand on the wall",
        holdout=True,
    ),
    Entry(
        "truthful_trader", TRADING, partial(_trader, "truthful_trader"),
        "offers and accepts what both gain from, and always delivers",
    ),
    Entry(
        "defaulting_trader", TRADING, partial(_trader, "defaulting_trader", honest_until=0.0),
        "the same, but never delivers",
    ),
    Entry(
        "hard_bargainer", TRADING,
        partial(_trader, "hard_bargainer", bargains_hard=True, least_gain=4),
        "asks for the most, accepts no small gains, delivers", holdout=True,
    ),
    Entry(
        "late_defaulter", TRADING, partial(_trader, "late_defaulter", honest_until=0.6),
        "keeps its word, but not in the last two fifths of the episode", holdout=True,
    ),
    Entry(
        "conceder", NEGOTIATION, partial(_negotiator, "conceder", 2.0),
        "gives way early on",
    ),
    Entry(
        "reciprocator", NEGOTIATION,
        lambda env: Reciprocator(env.unwrapped.rules, env.unwrapped.max_cycles),
        "gives way as far as the others did",
    ),
    Entry(
        "boulware", NEGOTIATION, partial(_negotiator, "boulware", 0.2),
        "gives way only shortly before the deadline", holdout=True,
    ),
    Entry(
        "stubborn", NEGOTIATION, partial(_negotiator, "stubborn", 0.0),
        "asks for its favourite deal to the end", holdout=True,
    ),
)  # fmt: skip
POLICIES = PluginTable(
    "core_srl.policies",
    {entry.name: Plugin(entry, entry.description) for entry in _OWN},
    PolicyError,
)
"""Scripted policies by name, for configurations, scenarios and `srl eval`.

Each part is an Entry, or a class as in 'module:Class', which plays any game of discrete actions.
"""


def entry_of(name: str) -> Entry:
    """Return the entry of a name in POLICIES."""
    part = POLICIES.load(name)
    if isinstance(part, Entry):
        return part
    return Entry(name, (), partial(_constructed, name, part), POLICIES[name].summary)


def is_held_out(name: str) -> bool:
    """Return whether `name` is a scripted policy that is kept for evaluation."""
    return name in POLICIES and entry_of(name).holdout


def names(env: Any = None, *, holdout: bool | None = None) -> tuple[str, ...]:
    """Return the names of policies for `env` (all without one), by `holdout`."""
    return tuple(
        name
        for name, entry in ((name, entry_of(name)) for name in POLICIES)
        if (env is None or entry.can_play(env)) and holdout in (None, entry.holdout)
    )


def is_scripted(name: str) -> bool:
    """Return whether `name` is a scripted policy's or has the form 'module:Class'.

    Nothing is imported. 'RUN:model_0' and 'openai:MODEL' are models.
    """
    if name in POLICIES:
        return True
    is_model = is_api_name(name) or re.search(r":model_\d+$", name)
    return loading.names_code(name) and not is_model


def classic_policy(name: str, env: Any) -> Policy:
    """Return the policy `name` for agents of `env`.

    Args:
        name: A name in POLICIES, or 'module:Class' for a policy of the user's own
            (docs/agents/own_opponent.md).
        env: Environment whose rules and sizes the policy may read.

    Raises:
        PolicyError: The name is unknown, names no policy, or the policy cannot play `env`.
        UntrustedError: A record names the user's class (`loading.closed`).
    """
    if is_scripted(name) and name not in POLICIES:
        return _own_policy(name, env)
    if name not in POLICIES:
        raise PolicyError(
            f"there is no scripted policy {name!r}{likely(name, POLICIES)}; "
            f"{env.metadata['name']} can be played by {', '.join(names(env)) or 'models only'}"
        )
    entry = entry_of(name)
    if not entry.can_play(env):
        raise PolicyError(
            f"{name} cannot play {env.metadata['name']}, only {', '.join(entry.games) or ANY}; "
            f"{env.metadata['name']} can be played by {', '.join(names(env)) or 'models only'}"
        )
    return entry.make(env)


def _own_policy(name: str, env: Any) -> Policy:
    try:
        make = loading.code(name)
    except EnvConfigError as error:
        raise PolicyError(str(error)) from error
    return _constructed(name, make, env)


def _constructed(name: str, make: Any, env: Any) -> Policy:
    # A class that is no policy is refused before it is constructed.
    made: Any = make
    if not isinstance(make, type) or not missing_methods(make):
        takes_env = "env" in inspect.signature(make).parameters
        made = make(env=env) if takes_env else make()
    if missing := missing_methods(made):
        raise PolicyError(
            f"{name} is no policy, it has no method {' and no '.join(missing)}: a policy has "
            "start(seed) and act(seen, states), as srl_agents.policy.PerAgentPolicy "
            "(docs/agents/own_opponent.md)"
        )
    return made  # type: ignore[no-any-return]  # its methods are there
