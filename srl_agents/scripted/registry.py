"""Registry of scripted policies: playable games and held-out policies."""

from __future__ import annotations

import inspect
import re
from functools import partial
from pkgutil import resolve_name
from typing import Any

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.registry import is_api_name
from srl_agents.policy import Policy, missing_methods
from srl_envs import loading
from srl_envs.errors import EnvConfigError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.validation import likely

ANY = "any game of discrete actions"
_OWN = {
    "uniform": "any legal action",
    "always_cooperate": "cooperates in every round",
    "always_compete": "competes in every round",
    "tit_for_tat": "cooperates, then does what the others' majority did",
    "suspicious_tit_for_tat": "the same, but competes first",
    "mostly_compete": "competes four times in five, at random",
    "mostly_cooperate": "cooperates four times in five, at random",
    "grim_trigger": "cooperates until the others once compete, and never again",
    "pavlov": "cooperates after a round in which both did the same",
    "generous_tit_for_tat": "tit for tat that forgives one time in three",
    "alternator": "cooperates and competes in turn",
    "win_stay_lose_shift": "stays with an arm that won, leaves one that lost",
    "thompson_sampling": "pulls an arm as often as it is likely the better one",
    "random_walker": "takes any open way",
    "greedy_walker": "takes an open way towards its goal, and remembers nothing",
    "explorer": "remembers the walls and takes the shortest way that may be there",
    "wall_follower": "keeps its right hand on the wall",
    "truthful_trader": "offers and accepts what both gain from, and always delivers",
    "defaulting_trader": "the same, but never delivers",
    "hard_bargainer": "asks for the most, accepts no small gains, delivers",
    "late_defaulter": "keeps its word, but not in the last two fifths of the episode",
    "conceder": "gives way early on",
    "reciprocator": "gives way as far as the others did",
    "boulware": "gives way only shortly before the deadline",
    "stubborn": "asks for its favourite deal to the end",
}
"""Name to description of each scripted policy. Their entries are imported when one is used."""
POLICIES = PluginTable(
    "core_srl.policies",
    {
        name: Plugin(f"srl_agents.scripted.entries:ENTRIES.{name}", description)
        for name, description in _OWN.items()
    },
    PolicyError,
)
"""Scripted policies by name, for configurations, scenarios and `srl eval`.

Each part is an Entry, or a class as in 'module:Class', which plays any game of discrete actions.
"""


def entry_of(name: str) -> Any:
    """Return the entry of a name in POLICIES."""
    part = POLICIES.load(name)
    if name in _OWN:
        return part
    kind = resolve_name("srl_agents.scripted.entries:Entry")
    return part if isinstance(part, kind) else kind(name, (), partial(_constructed, name, part))


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
    made: Policy = entry.make(env)
    return made


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
