"""Registry of scripted policies: playable games and held-out policies."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from gymnasium.spaces import Discrete

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.registry import is_api_name
from srl_agents.policy import Policy, missing_methods
from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import likely

ANY = "any game of discrete actions"
BINARY = ("coop_compete_v0", "team_battle_v0", "staged_v0")
BANDIT, MAZE = ("bandit_v0",), ("maze_v0",)
TRADING, NEGOTIATION = ("social_trading_v0",), ("social_negotiation_v0",)
GAMES = (*BINARY, *BANDIT, *MAZE, *TRADING, *NEGOTIATION)


@dataclass(frozen=True)
class PolicyEntry:
    """Scripted policy."""

    name: str
    games: tuple[str, ...] = ()
    """Metadata names of playable environments; empty for any game of discrete actions."""
    holdout: bool = False
    """Kept for evaluation."""
    blind: bool = False
    """Ignores observations, so that it plays any game with two actions."""
    constructor: Callable[[Any], Policy] | None = None
    """Constructor from an environment; by default the one of that name in MAKERS."""

    def can_play(self, env: Any) -> bool:
        """Return True if the policy can play the environment."""
        game = env.metadata["name"]
        if game in self.games:
            return True
        sizes = set(action_counts(env).values())
        if not self.games:
            return 0 not in sizes
        return self.blind and game not in GAMES and sizes == {2}

    def make(self, env: Any) -> Policy:
        """Return the policy for agents of `env`."""
        makers: Mapping[str, Callable[[Any], Policy]]
        # The games' modules are imported when a policy is made.
        makers = resolve_name("srl_agents.scripted.entries:MAKERS")
        return (self.constructor or makers[self.name])(env)


_OWN = (
    PolicyEntry("uniform"),
    PolicyEntry("always_cooperate", BINARY, blind=True),
    PolicyEntry("always_compete", BINARY, blind=True),
    PolicyEntry("tit_for_tat", BINARY),
    PolicyEntry("suspicious_tit_for_tat", BINARY),
    PolicyEntry("mostly_compete", BINARY, blind=True),
    PolicyEntry("mostly_cooperate", BINARY, holdout=True, blind=True),
    PolicyEntry("grim_trigger", BINARY, holdout=True),
    PolicyEntry("pavlov", BINARY, holdout=True),
    PolicyEntry("generous_tit_for_tat", BINARY, holdout=True),
    PolicyEntry("alternator", BINARY, holdout=True),
    PolicyEntry("win_stay_lose_shift", BANDIT),
    PolicyEntry("thompson_sampling", BANDIT),
    PolicyEntry("random_walker", MAZE),
    PolicyEntry("greedy_walker", MAZE),
    PolicyEntry("explorer", MAZE),
    PolicyEntry("wall_follower", MAZE, holdout=True),
    PolicyEntry("truthful_trader", TRADING),
    PolicyEntry("defaulting_trader", TRADING),
    PolicyEntry("hard_bargainer", TRADING, holdout=True),
    PolicyEntry("late_defaulter", TRADING, holdout=True),
    PolicyEntry("conceder", NEGOTIATION),
    PolicyEntry("reciprocator", NEGOTIATION),
    PolicyEntry("boulware", NEGOTIATION, holdout=True),
    PolicyEntry("stubborn", NEGOTIATION, holdout=True),
)
POLICIES = PluginTable("core_srl.policies", {e.name: Plugin(e) for e in _OWN}, PolicyError)
"""Scripted policies by name, for configurations, scenarios and `srl eval`.

Each part is a PolicyEntry, or a class as in 'module:Class', which plays any game of discrete
actions.
"""


def action_counts(env: Any) -> dict[str, int]:
    """Return agent -> number of discrete actions; 0 for another kind of action."""
    spaces = {agent: env.action_space(agent) for agent in env.possible_agents}
    return {a: int(s.n) if isinstance(s, Discrete) else 0 for a, s in spaces.items()}


def entry_of(name: str) -> PolicyEntry:
    """Return the entry of a name in POLICIES."""
    part = POLICIES.load(name)
    if isinstance(part, PolicyEntry):
        return part
    return PolicyEntry(name, constructor=partial(_constructed, name, part))


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
        try:
            return _constructed(name, loading.code(name), env)
        except EnvConfigError as error:
            raise PolicyError(str(error)) from error
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
