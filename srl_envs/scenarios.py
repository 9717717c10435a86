"""Scenarios: environments with scored agents, background agents and held-out parts.

The scenarios are listed in scenarios.yaml.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.loading import read_yaml
from srl_envs.tasks.multitask import Multitask
from srl_envs.validation import likely
from srl_envs.wrappers import SingleAgentEnv

OWN_PROBLEMS = ("path", "problems", "topics")
"""Options that replace the problems of this package by the user's."""
PARTNERS = "srl_agents.partners:with_scripted"
"""Function (environment, agent -> scripted policy) -> environment. Policies are a higher layer."""
ALL_FOCAL = ".all"
"""End of the name of the scenario of a user's environment."""


@dataclass(frozen=True)
class Scenario:
    """Environment whose focal agents are scored; fixed policies play its background agents.

    Raises EnvConfigError if `focal` is empty or contains a background agent.
    """

    name: str
    environment: str
    """Name of the environment, as for `registry.make`."""
    description: str
    focal: tuple[str, ...]
    """Agents that are scored."""
    background: Mapping[str, str] = field(default_factory=dict)
    """Policy of each agent that is not focal: a scripted policy, or any other name of a policy.

    'a|b' draws one of the policies in each episode, the same for all agents with this value.
    """
    options: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the environment."""
    held_out_partners: tuple[str, ...] = ()
    """Background policies that must not be used in training."""
    held_out_options: tuple[str, ...] = ()
    """Names of options whose combination of values must not be used in training."""

    def __post_init__(self) -> None:
        if not self.focal or not self.background.keys().isdisjoint(self.focal):
            raise EnvConfigError(
                f"focal must name agents without a background policy, got {self.focal!r}"
            )

    @property
    def holdout(self) -> bool:
        """True if the scenario has held-out partners or held-out options."""
        return bool(self.held_out_partners or self.held_out_options)

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that apply: "held-out partners", and "held-out levels" for held-out options."""
        partners = ("held-out partners",) if self.held_out_partners else ()
        levels = ("held-out levels",) if self.held_out_options else ()
        return (*partners, *levels)

    def with_options(self, options: Mapping[str, Any]) -> Scenario:
        """Return a copy with `options` added or replaced, and the resulting held-out options."""
        together = {**self.options, **options}
        held_out = () if options.keys() & self.held_out_options else self.held_out_options
        if kept := kept_for_evaluation(self.environment, together):
            held_out = kept.held_out_options
        return replace(self, options=together, held_out_options=held_out)

    def make(self, **options: Any) -> Any:
        """Return a new ParallelEnv of all agents, without the background policies.

        `options` override arguments of the scenario. Raises EnvConfigError unless the focal and
        background agents are the environment's possible agents, and the errors of `registry.make`.
        """
        env = registry.make(self.environment, **{**self.options, **options})
        named, agents = {*self.focal, *self.background}, {*env.possible_agents}
        if named != agents:
            env.close()
            raise EnvConfigError(
                f"{self.name}: focal and background must be all agents; missing: "
                f"{sorted(agents - named)} (srl eval --background NAME adds agents); unknown: "
                f"{sorted(named - agents)}"
            )
        return env

    def parallel_env(self, **options: Any) -> Any:
        """Return a new ParallelEnv of the focal agents, with new scripted background policies.

        Args:
            **options: Arguments of the environment that override those of the scenario, such as
                render_mode.

        Raises:
            EnvConfigError: An option is invalid. Other errors are as of `make`.
            PolicyError: A background policy is not scripted, or does not fit the environment.
        """
        env: Any = resolve_name(PARTNERS)(self.make(**options), self.background)
        return env

    def gym_env(self, **options: Any) -> SingleAgentEnv:
        """Return the Gymnasium environment of `parallel_env`, for scenarios with one focal agent.

        `options` and errors are those of `parallel_env`. Raises EnvConfigError for several focal
        agents.
        """
        return SingleAgentEnv(self.parallel_env(**options))


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
                held_out_partners=tuple(hold_out.get("partners", ())),
                held_out_options=tuple(hold_out.get("options", ())),
            )


SCENARIOS: Mapping[str, Scenario] = MappingProxyType({found.name: found for found in _listed()})


def names(environment: str | None = None, holdout: bool | None = None) -> tuple[str, ...]:
    """Return the names of scenarios, in the order of scenarios.yaml.

    Args:
        environment: Name of the environment, or None for all. A user's environment,
            'module:function', is not imported. It has one scenario, without held-out parts.
        holdout: True for scenarios with held-out partners or options, False for those without, None
            for both.

    Raises:
        EnvConfigError: The environment is unknown.
    """
    if environment is not None and ":" in environment:
        return () if holdout else (f"{environment}{ALL_FOCAL}",)
    if environment is not None:
        registry.entry(environment)
    return tuple(
        name
        for name, found in SCENARIOS.items()
        if environment in (None, found.environment) and holdout in (None, found.holdout)
    )


def environments() -> tuple[str, ...]:
    """Return the names of environments with scenarios, in the order of the registry."""
    played = {found.environment for found in SCENARIOS.values()}
    return tuple(name for name in registry.names() if name in played)


def scenario(name: str) -> Scenario:
    """Return the scenario with this name.

    'module:function.all' is the scenario of a user's environment, in which all agents are focal.
    The environment is made once to read its agents.

    Raises EnvConfigError for an unknown name (the message lists names), and errors of
    `registry.make`.
    """
    if isinstance(name, str) and ":" in name and name.endswith(ALL_FOCAL):
        own = name.removesuffix(ALL_FOCAL)
        with closing(registry.make(own)) as env:
            return Scenario(name, own, "an environment of your own", tuple(env.possible_agents))
    if not isinstance(name, str) or name not in SCENARIOS:
        game = str(name).partition(".")[0]
        near = [other for other in SCENARIOS if other.startswith(f"{game}.")]
        there = near or [f"{environment}.*" for environment in environments()]
        raise EnvConfigError(
            f"there is no scenario {name!r}{likely(name, SCENARIOS)}; there are: "
            f"{', '.join(there)}, MODULE:FUNCTION{ALL_FOCAL}"
        )
    return SCENARIOS[name]


def kept_for_evaluation(environment: str, options: Mapping[str, Any]) -> Scenario | None:
    """Return the first scenario with held-out options whose values an environment has, or None.

    `environment` is a name or 'module:function'. Only scenarios of environments in the same module
    are compared. Missing options have their defaults. Split "any" counts as "test", unless an
    option in OWN_PROBLEMS is set.
    """
    entry = registry.ENVS.get(environment)
    module = environment.partition(":")[0] if entry is None else entry.module
    game = [
        found
        for found in SCENARIOS.values()
        if found.held_out_options and registry.entry(found.environment).module == module
    ]
    if not game:
        return None
    signature = inspect.signature(import_module(module).parallel_env).parameters
    given = {name: parameter.default for name, parameter in signature.items()}
    given |= {**({} if entry is None else entry.defaults), **options}
    if given.get("split") == "any" and all(given.get(own) is None for own in OWN_PROBLEMS):
        given["split"] = "test"  # "any" includes the test split, except of a user's own problems.
    for found in game:
        if all(given[name] == found.options[name] for name in found.held_out_options):
            return found
    return None


def refuse_levels(where: str, name: str, options: Mapping[str, Any], env: Any) -> None:
    """Raise EnvConfigError if training on `env` would use held-out levels or a test split.

    Split "any" contains test problems and is refused, except for a file of the user's problems.

    Args:
        where: Name of the section of settings in errors, such as "environment".
        name: Name of the environment.
        options: Options with which the environment was made.
        env: The environment, or a Multitask, of which all members are checked.
    """
    game = env.unwrapped
    if isinstance(game, Multitask):
        for label, member in game.environments.items():
            named = game.named[label]
            own = named.get("options") or {}
            refuse_levels(f"{where}.options.environments.{label}", named["name"], own, member)
        return
    split = getattr(game, "split", None)
    # A file of problems is the user's choice for training: its default split is "any".
    chosen = getattr(getattr(game, "task", None), "split", None) == split
    if split == "test" or (split == "any" and not chosen):
        raise EnvConfigError(
            f"{where}.options.split must be 'train' for training, got {split!r}: the test split is "
            "kept for evaluation (srl eval --held-out only)"
        )
    # A user's object or function may wrap a registered game, which records how it was made.
    made = [getattr(one, "made_as", None) for one in (env, game)]
    ways = [(name, options), *((how["name"], how["options"]) for how in made if how)]
    kept_of = (kept_for_evaluation(*way) for way in ways)
    found = next((scenario for scenario in kept_of if scenario is not None), None)
    if found is not None:
        kept = ", ".join(f"{name}={found.options[name]}" for name in found.held_out_options)
        raise EnvConfigError(
            f"{where}.options must not have {kept} together: they are the levels of scenario "
            f"{found.name}, kept for evaluation"
        )
