"""Which environments there are: a name, how it is made, and one line about it.

Importing this module makes them known to PettingZoo's registry too, where it has one (1.27 on):
`pettingzoo.make("parallel", "srl/coop_compete-v0")`. No game is imported before it is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from types import MappingProxyType
from typing import Any

import pettingzoo

from srl_envs.errors import EnvConfigError


@dataclass(frozen=True)
class Entry:
    """One environment of the catalogue."""

    name: str
    module: str
    """Holds `parallel_env` and `env`."""
    description: str
    tags: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Arguments that make this entry of the module's games."""


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "coop_compete_v0",
            "srl_envs.coop_compete_v0",
            "n players choose at once to cooperate or compete; each pays when others do it too",
            ("coordination", "n-player", "discrete"),
        ),
        Entry(
            "coop_compete_pair_v0",
            "srl_envs.coop_compete_v0",
            "the two-player benchmark game: agreeing pays, disagreeing costs both 0.1",
            ("coordination", "two-player", "discrete", "benchmark"),
            MappingProxyType({"variant": "pair", "num_agents": 2}),
        ),
        Entry(
            "team_battle_v0",
            "srl_envs.team_battle_v0",
            "two teams: cooperation pays one's own team, competing pays more when rivals cooperate",
            ("social dilemma", "teams", "n-player", "discrete"),
        ),
    )
}


def names() -> tuple[str, ...]:
    """All names, in the catalogue's order."""
    return tuple(ENTRIES)


def entry(name: str) -> Entry:
    """What is known of `name`; raises EnvConfigError with the nearest for an unknown one."""
    if name not in ENTRIES:
        raise EnvConfigError(f"there is no environment {name!r}{_nearest(name, ENTRIES)}")
    return ENTRIES[name]


def make(name: str, **parameters: Any) -> Any:
    """The environment `name` as a PettingZoo ParallelEnv.

    `parameters` go over the entry's defaults. Raises EnvConfigError for an unknown name, an unknown
    parameter or a value that is not allowed.
    """
    found = entry(name)
    constructor = import_module(found.module).parallel_env
    known = inspect.signature(constructor).parameters
    for parameter in parameters:
        if parameter not in known:
            raise EnvConfigError(
                f"{name} has no parameter {parameter!r}{_nearest(parameter, known)}"
            )
    return constructor(**{**found.defaults, **parameters})


def _nearest(asked: str, known: Iterable[str]) -> str:
    close = get_close_matches(str(asked), known, n=1, cutoff=0.5)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{guess}; there are: {', '.join(known)}"


def _register_with_pettingzoo() -> None:
    if not hasattr(pettingzoo, "register"):  # releases before 1.27 keep no registry
        return
    for found in ENTRIES.values():
        identity = f"srl/{found.name}".replace("_v", "-v")
        for kind, attribute in (("parallel", "parallel_env"), ("aec", "env")):
            registry = getattr(pettingzoo, f"{kind}_registry")
            if identity not in registry:
                pettingzoo.register(
                    kind,
                    identity,
                    entry_point=f"{found.module}:{attribute}",
                    kwargs=dict(found.defaults),
                )


_register_with_pettingzoo()
