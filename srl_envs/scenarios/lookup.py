"""Lookup of scenarios by name, and of the levels that they hold out from training."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import closing
from importlib import import_module
from typing import Any

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.scenarios.games import SCENARIOS
from srl_envs.scenarios.scenario import Scenario
from srl_envs.validation import likely

OWN_PROBLEMS = ("path", "problems", "topics")
"""Options that put problems of one's own in the place of ours."""
EVERYBODY = ".all"
"""Ends the name of the scenario of an environment of one's own."""


def names(environment: str | None = None, holdout: bool | None = None) -> tuple[str, ...]:
    """The names of all scenarios, or of those of one environment, held out or not.

    One of your own, 'module:function', has one, in which every agent is focal. Raises
    EnvConfigError for an environment that is not in the registry.
    """
    if environment is not None and ":" in environment:
        return () if holdout else (f"{environment}{EVERYBODY}",)
    if environment is not None:
        registry.entry(environment)
    return tuple(
        name
        for name, found in SCENARIOS.items()
        if environment in (None, found.environment) and holdout in (None, found.holdout)
    )


def environments() -> tuple[str, ...]:
    """The environments that have scenarios, in the registry's order."""
    played = {found.environment for found in SCENARIOS.values()}
    return tuple(name for name in registry.names() if name in played)


def scenario(name: str) -> Scenario:
    """The scenario `name`; raises EnvConfigError with the nearest for an unknown one.

    'module:function.all' is that of an environment of your own, which is made to see its agents.
    """
    if isinstance(name, str) and ":" in name and name.endswith(EVERYBODY):
        own = name.removesuffix(EVERYBODY)
        with closing(registry.make(own)) as env:
            return Scenario(name, own, "an environment of your own", tuple(env.possible_agents))
    found = SCENARIOS
    if not isinstance(name, str) or name not in found:
        game = str(name).partition(".")[0]
        near = [other for other in found if other.startswith(f"{game}.")]
        there = near or [f"{environment}.*" for environment in environments()]
        raise EnvConfigError(
            f"there is no scenario {name!r}{likely(name, found)}; there are: {', '.join(there)}"
        )
    return found[name]


def kept_for_evaluation(environment: str, options: Mapping[str, Any]) -> Scenario | None:
    """The first scenario whose held-out levels the environment would play with these options.

    `environment` is a name as `registry.make` takes it; all that one module makes counts as one
    game. What `options` leave out is at its default. None where training may have them.
    """
    entry = registry.ENTRIES.get(environment)
    module = environment.partition(":")[0] if entry is None else entry.module
    game = [
        found
        for found in SCENARIOS.values()
        if found.held_out_options and registry.entry(found.environment).module == module
    ]
    if not game:  # also one of the user's own
        return None
    takes = inspect.signature(import_module(module).parallel_env).parameters
    given = {name: parameter.default for name, parameter in takes.items()}
    given |= {**({} if entry is None else entry.defaults), **options}
    for found in game:
        if all(_plays(given, name, found.options[name]) for name in found.held_out_options):
            return found
    return None


def _plays(given: Mapping[str, Any], option: str, kept: Any) -> bool:
    """Whether options, defaults among them, hold this one as it is kept."""
    if option != "split" or given[option] != "any":
        return bool(given[option] == kept)
    # "any" has what "test" has, but whoever brings problems of their own has chosen them.
    return all(given.get(own) is None for own in OWN_PROBLEMS)
