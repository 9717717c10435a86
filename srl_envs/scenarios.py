"""Scenarios: evaluated agents, background agents and holdouts. scenarios.yaml lists them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.loading import read_yaml
from srl_envs.tasks.multitask import Multitask
from srl_envs.validation import likely

_NOTHING: Mapping[str, Any] = MappingProxyType({})
OWN_PROBLEMS = ("path", "problems", "topics")
"""Options that replace the problems of this package by the user's."""
EVERYBODY = ".all"
"""End of the name of the scenario of a user's environment."""


@dataclass(frozen=True)
class Scenario:
    """One scenario."""

    name: str
    environment: str
    """A name from the registry."""
    description: str
    focal: tuple[str, ...]
    """The agents that are scored."""
    background: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Agent -> policy, for all agents that are not focal. Scenarios of this package use scripted
    policies; your own may name any policy, such as the folder of a run."""
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    """Keyword arguments of the environment."""
    held_out_partners: tuple[str, ...] = ()
    """Background policies that training excludes."""
    held_out_options: tuple[str, ...] = ()
    """Names of options whose combination of values training excludes."""

    @property
    def holdout(self) -> bool:
        """True if a part of the scenario is kept for evaluation."""
        return bool(self.held_out_partners or self.held_out_options)

    @property
    def role(self) -> str:
        """Role of the focal agents.

        "visitor" in the minority, "resident" in the majority, "even" for half of the agents,
        "alone" without a background.
        """
        focal, background = len(self.focal), len(self.background)
        if not background:
            return "alone"
        if focal == background:
            return "even"
        return "visitor" if focal < background else "resident"

    @property
    def tags(self) -> tuple[str, ...]:
        """Role, "held-out partners" and "held-out levels", as they apply."""
        partners = ("held-out partners",) if self.held_out_partners else ()
        levels = ("held-out levels",) if self.held_out_options else ()
        return (self.role, *partners, *levels)

    def make(self) -> Any:
        """Return the scenario's environment, a PettingZoo ParallelEnv."""
        return registry.make(self.environment, **self.options)


def _listed() -> Iterator[Scenario]:
    games = read_yaml(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    for environment, game in games.items():
        for special, row in game["scenarios"].items():
            partners, hold_out = row.get("background", {}), row.get("hold_out", {})
            yield Scenario(
                f"{environment}.{special}",
                environment,
                row["about"],
                tuple(row.get("focal", game["focal"])),
                {agent: partner for partner, agents in partners.items() for agent in agents},
                {**game.get("options", {}), **row.get("options", {})},
                held_out_partners=tuple(partners) if hold_out.get("partners") else (),
                held_out_options=tuple(hold_out.get("options", ())),
            )


SCENARIOS: Mapping[str, Scenario] = MappingProxyType({found.name: found for found in _listed()})


def names(environment: str | None = None, holdout: bool | None = None) -> tuple[str, ...]:
    """Return the names of all scenarios, or of those of one environment, held out or not.

    A user's environment, 'module:function', has one scenario, in which every agent is focal.

    Raises:
        EnvConfigError: The environment is not in the registry.
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
    """Return the environments that have scenarios, in the registry's order."""
    played = {found.environment for found in SCENARIOS.values()}
    return tuple(name for name in registry.names() if name in played)


def scenario(name: str) -> Scenario:
    """Return the scenario `name`; 'module:function.all' is that of a user's environment.

    Raises:
        EnvConfigError: The name is unknown. The message contains the nearest one.
    """
    if isinstance(name, str) and ":" in name and name.endswith(EVERYBODY):
        own = name.removesuffix(EVERYBODY)
        with closing(registry.make(own)) as env:
            return Scenario(name, own, "an environment of your own", tuple(env.possible_agents))
    if not isinstance(name, str) or name not in SCENARIOS:
        game = str(name).partition(".")[0]
        near = [other for other in SCENARIOS if other.startswith(f"{game}.")]
        there = near or [f"{environment}.*" for environment in environments()]
        raise EnvConfigError(
            f"there is no scenario {name!r}{likely(name, SCENARIOS)}; there are: {', '.join(there)}"
        )
    return SCENARIOS[name]


def kept_for_evaluation(environment: str, options: Mapping[str, Any]) -> Scenario | None:
    """Return the first scenario whose held-out levels the environment would play, or None.

    Args:
        environment: Name as `registry.make` takes it. All names of one module are one game.
        options: Options of the environment; the others have their defaults.
    """
    entry = registry.ENVS.get(environment)
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

    def plays(option: str, kept: Any) -> bool:
        if option != "split" or given[option] != "any":
            return bool(given[option] == kept)
        # "any" includes the test split, unless the problems are the user's own.
        return all(given.get(own) is None for own in OWN_PROBLEMS)

    for found in game:
        if all(plays(name, found.options[name]) for name in found.held_out_options):
            return found
    return None


def refuse_levels(where: str, name: str, options: Mapping[str, Any], env: Any) -> None:
    """Raise EnvConfigError if training on `env` would use held-out levels.

    Args:
        where: Beginning of the names of settings in errors.
        name: Name of the environment.
        options: Options with which the environment was made.
        env: The environment.
    """
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
    kept_of = (kept_for_evaluation(*way) for way in ways)
    found = next((scenario for scenario in kept_of if scenario is not None), None)
    if found is not None:
        kept = ", ".join(f"{name}={found.options[name]}" for name in found.held_out_options)
        raise EnvConfigError(
            f"{where}.options {kept} together are the levels of scenario {found.name}, kept "
            "for evaluation: change one of them to train"
        )
