"""Arenas: environments whose agents are divided between two players, in every place in turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from srl_envs.errors import EnvConfigError
from srl_envs.scenarios import Scenario


@dataclass(frozen=True)
class Arena:
    """One environment of a cross-play."""

    name: str
    make: Callable[[], Any]
    """The environment, a PettingZoo ParallelEnv."""
    agents: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    """What one player may hold, its partner all other agents: teams, or single agents."""

    @property
    def two_sided(self) -> bool:
        """Whether the agents that one player leaves to the other are a place too."""
        return len(self.places) == 2 and sorted(self.agents) == sorted(sum(self.places, ()))


def arena(name: str, make: Callable[[], Any]) -> Arena:
    """The environment with each of its teams as a place, or each agent where it has no `teams`.

    Raises EnvConfigError for an environment of one agent, or of one team.
    """
    with closing(make()) as env:
        agents = tuple(env.possible_agents)
        teams = getattr(env.unwrapped, "teams", None) or {agent: agent for agent in agents}
    places: dict[str, list[str]] = {}
    for agent in agents:
        places.setdefault(teams[agent], []).append(agent)
    if len(places) < 2:
        raise EnvConfigError(
            f"{name} has {'one team' if len(agents) > 1 else 'one agent'}, so nobody to meet: "
            "give an environment of two agents or more, or score each player with srl eval"
        )
    return Arena(name, make, agents, tuple(map(tuple, places.values())))


def scenario_arena(scenario: Scenario) -> Arena:
    """The scenario's environment with its focal agents as the only place; who is met holds the
    agents of its background.

    Raises EnvConfigError where every agent is focal.
    """
    if not scenario.background:
        raise EnvConfigError(
            f"every agent of {scenario.name} is focal, so that nobody is met: give an environment, "
            f"{scenario.environment}, or a scenario with a background"
        )
    agents = (*scenario.focal, *scenario.background)
    return Arena(scenario.name, scenario.make, agents, (scenario.focal,))
