"""Registry of scripted policies, with the games that each can play."""

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
from srl_agents.scripted.one_of import OneOf
from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import likely

ANY = "any game of discrete actions"
ALTERNATIVES = "|"
"""Separator of names of which each episode draws one."""
BINARY = ("coop_compete_v0", "team_battle_v0", "staged_v0")
BANDIT, MAZE = ("bandit_v0",), ("maze_v0",)
TRADING, NEGOTIATION = ("social_trading_v0",), ("social_negotiation_v0",)


@dataclass(frozen=True)
class PolicyEntry:
    """Entry of the registry of scripted policies."""

    name: str
    games: tuple[str, ...] = ()
    """Names of playable games, `_v0` for any version; empty for any with Discrete actions."""
    holdout: bool = False
    """True for a policy that is reserved for evaluation."""
    constructor: Callable[[Any], Policy] | None = None
    """Function from an environment to the policy; by default MAKERS[name]."""

    def can_play(self, env: Any) -> bool:
        """Return True if the policy can play `env`.

        `games` must contain its name with `_v0`, or be empty and all action spaces Discrete.
        """
        if self.games:
            return first_version(env) in self.games
        return 0 not in action_counts(env).values()

    def make(self, env: Any) -> Policy:
        """Return a new policy for agents of `env`, without a check of `can_play`.

        In a game with messages, built-in policies send none, except "uniform".
        """
        # The modules of the policies are imported only here.
        makers: Mapping[str, Any] = resolve_name("srl_agents.scripted.entries:MAKERS")
        policy: Policy = (self.constructor or makers[self.name])(env)
        if getattr(env.unwrapped, "talk", 0) and self.games and self.constructor is None:
            policy = resolve_name("srl_agents.scripted.basic:Silent")(policy, env.unwrapped)
        return policy


_OWN = (
    PolicyEntry("uniform"),
    PolicyEntry("always_cooperate", BINARY),
    PolicyEntry("always_compete", BINARY),
    PolicyEntry("tit_for_tat", BINARY),
    PolicyEntry("suspicious_tit_for_tat", BINARY),
    PolicyEntry("mostly_compete", BINARY),
    PolicyEntry("bully", BINARY),
    PolicyEntry("leader", BINARY),
    PolicyEntry("deserter", BINARY),
    PolicyEntry("mostly_cooperate", BINARY, holdout=True),
    PolicyEntry("grim_trigger", BINARY, holdout=True),
    PolicyEntry("pavlov", BINARY, holdout=True),
    PolicyEntry("generous_tit_for_tat", BINARY, holdout=True),
    PolicyEntry("alternator", BINARY, holdout=True),
    PolicyEntry("explore_then_commit", BINARY),
    PolicyEntry("win_stay_lose_shift", BANDIT),
    PolicyEntry("thompson_sampling", BANDIT),
    PolicyEntry("random_walker", MAZE),
    PolicyEntry("greedy_walker", MAZE),
    PolicyEntry("explorer", MAZE),
    PolicyEntry("wall_follower", MAZE, holdout=True),
    PolicyEntry("truthful_trader", TRADING),
    PolicyEntry("defaulting_trader", TRADING),
    PolicyEntry("sly_trader", TRADING),
    PolicyEntry("sly_bargainer", TRADING),
    PolicyEntry("hard_bargainer", TRADING, holdout=True),
    PolicyEntry("late_defaulter", TRADING, holdout=True),
    PolicyEntry("conceder", NEGOTIATION),
    PolicyEntry("reciprocator", NEGOTIATION),
    PolicyEntry("firm", NEGOTIATION),
    PolicyEntry("boulware", NEGOTIATION, holdout=True),
    PolicyEntry("stubborn", NEGOTIATION, holdout=True),
)
POLICIES = PluginTable("core_srl.policies", {e.name: Plugin(e) for e in _OWN}, PolicyError)
"""Scripted policies by name, for configurations, scenarios and `srl eval`.

An entry point is a PolicyEntry, or a policy class, which plays any game of discrete actions.
"""


def first_version(env: Any) -> str:
    """Return the metadata name of an environment with its version replaced by `_v0`."""
    return re.sub(r"_v\d+$", "_v0", env.metadata["name"])


def action_counts(env: Any) -> dict[str, int]:
    """Return agent -> number of discrete actions, or 0 for an action space that is not Discrete."""
    spaces = {agent: env.action_space(agent) for agent in env.possible_agents}
    return {a: int(s.n) if isinstance(s, Discrete) else 0 for a, s in spaces.items()}


def alternatives(name: str) -> list[str]:
    """Return the names in 'a|b', of which each episode draws one; [name] for other names."""
    return name.split(ALTERNATIVES)


def entry_of(name: str) -> PolicyEntry:
    """Return the PolicyEntry of a name in POLICIES; PolicyError for other names.

    For a plugin that is a policy class or function, the entry is new, with empty `games`.
    """
    part = POLICIES.load(name)
    if isinstance(part, PolicyEntry):
        return part
    return PolicyEntry(name, constructor=partial(_constructed, name, part))


def is_held_out(name: str) -> bool:
    """Return True if `name`, or one of "a|b", is in POLICIES and reserved for evaluation."""
    return any(one in POLICIES and entry_of(one).holdout for one in alternatives(name))


def names(env: Any = None, *, holdout: bool | None = None) -> tuple[str, ...]:
    """Return the names of the scripted policies, optionally filtered.

    Args:
        env: Environment that the policies can play; None for any.
        holdout: True for the policies reserved for evaluation, False for the others, None for all.
    """
    return tuple(
        name
        for name, entry in ((name, entry_of(name)) for name in POLICIES)
        if (env is None or entry.can_play(env)) and holdout in (None, entry.holdout)
    )


def is_scripted(name: str) -> bool:
    """Return True if each name in "a|b" is in POLICIES or a 'module:Class', which is not imported.

    Names of models, such as 'RUN:model_0' and 'openai:MODEL', are not scripted.
    """
    return all(one in POLICIES or _names_policy(one) for one in alternatives(name))


def classic_policy(name: str, env: Any) -> Policy:
    """Construct a policy for agents of an environment.

    Args:
        name: A name in POLICIES, 'module:Class' (docs/agents/own_opponent.md), or several
            with "|" between them (OneOf).
        env: Environment. The policy may read its rules and sizes.

    Raises:
        ImportError: A user's module imports a package that is missing.
        PolicyError: The name is unknown or no policy, or the policy cannot play `env`.
        UntrustedError: The name 'module:Class' is from a recorded episode (`loading.closed`).
    """
    if ALTERNATIVES in name:
        return OneOf([classic_policy(one, env) for one in alternatives(name)])
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


def policies_by_agent(partners: Mapping[str, str], env: Any) -> dict[str, Policy]:
    """Return agent -> new policy, shared by agents of one name; raises as `classic_policy`."""
    policies = {name: classic_policy(name, env) for name in dict.fromkeys(partners.values())}
    return {agent: policies[name] for agent, name in partners.items()}


def _names_policy(name: str) -> bool:
    is_model = is_api_name(name) or re.search(r":model_\d+$", name)
    return loading.names_code(name) and not is_model


def _constructed(name: str, constructor: Any, env: Any) -> Policy:
    policy: Any = constructor
    if not isinstance(constructor, type) or not missing_methods(constructor):
        takes_env = "env" in inspect.signature(constructor).parameters
        policy = constructor(env=env) if takes_env else constructor()
    if missing := missing_methods(policy):
        raise PolicyError(
            f"{name} must be a policy with start(seed) and act(seen, states), such as a subclass "
            f"of srl_agents.policy.PerAgentPolicy, but it has no {' and no '.join(missing)} "
            "(docs/agents/own_opponent.md)"
        )
    return policy  # type: ignore[no-any-return]
