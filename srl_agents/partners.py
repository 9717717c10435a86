"""Policies as partners: agents of an environment played by policies, and mixtures of policies.

game = WithPartners(make("coop_compete_v0", num_agents=2), {"agent_1": TitForTat(...)})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pettingzoo.utils import BaseParallelWrapper

from srl_agents import seeding
from srl_agents.episode import Decision
from srl_agents.errors import PolicyError
from srl_agents.event_loop import finished, run, together
from srl_agents.policy import AgentObservation, AsyncPolicy, Closing, Policy, waits
from srl_agents.rollout import asked, played_action, started
from srl_agents.seeding import of_agents
from srl_envs.validation import Step


class WithPartners(BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Environment whose agents in `partners` are played by policies.

    The partners' randomness comes from the seed of the reset. Partners may be language models.
    Raises PolicyError for an unknown agent, and if no agent is left.
    """

    def __init__(self, env: Any, partners: Mapping[str, Policy]) -> None:
        super().__init__(env)
        agents = list(env.possible_agents)
        unknown = sorted(set(partners) - set(agents))
        if unknown:
            raise PolicyError(f"no agent {unknown[0]!r}: the agents are {', '.join(agents)}")
        self.possible_agents = [agent for agent in agents if agent not in partners]
        if not self.possible_agents:
            raise PolicyError(f"partners play all of {', '.join(agents)}: leave one out")
        self._partners = dict(partners)
        self._draws: np.random.Generator | None = None
        self._memories: dict[str, Any] = {}
        self._seen: dict[str, AgentObservation] = {}

    @property
    def agents(self) -> list[str]:
        """Agents in play without a partner."""
        return [agent for agent in self.env.agents if agent not in self._partners]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        self._leave()
        observations, infos = self.env.reset(seed=seed, options=options)
        if seed is not None or self._draws is None:
            self._draws = np.random.default_rng(seed)
        start = int(self._draws.integers(2**32)) if seed is None else seed
        agents = self.env.possible_agents
        seeds = dict(zip(agents, of_agents(start, len(agents)), strict=True))
        partners = {agent: self._partners[agent] for agent in agents if agent in self._partners}
        self._memories = started(partners, seeds)
        self._keep(observations, infos)
        return self._left(observations), self._left(infos)

    def step(self, actions: Mapping[str, Any]) -> Step:
        if not self.agents:
            return self.env.step(actions) if not self.env.agents else ({}, {}, {}, {}, {})
        # Where none of them waits no event loop is needed.
        waiting = any(waits(self._partners[agent]) for agent in self._seen)
        played = (run if waiting else finished)(self._asked())
        outcome = self.env.step({**actions, **played})
        self._keep(outcome[0], outcome[4])
        observations, rewards, terminations, truncations, infos = map(self._left, outcome)
        return observations, rewards, terminations, truncations, infos

    def close(self) -> None:
        self._leave()
        self.env.close()

    async def _asked(self) -> dict[str, Any]:
        answers = await asked(self._partners, self._seen, self._memories)
        self._memories |= {agent: memory for agent, (_, memory) in answers.items()}
        return {agent: played_action(decision) for agent, (decision, _) in answers.items()}

    def _keep(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        self._seen = {
            agent: AgentObservation(
                agent, observations[agent], infos.get(agent, {}).get("action_mask")
            )
            for agent in self.env.agents
            if agent in self._partners
        }

    def _left(self, of_all: Mapping[str, Any]) -> dict[str, Any]:
        return {agent: one for agent, one in of_all.items() if agent not in self._partners}

    def _leave(self) -> None:
        for agent, memory in self._memories.items():
            policy = self._partners[agent]
            if waits(policy):
                policy.leave(memory)
        self._memories = {}


@dataclass(frozen=True)
class Drawn:
    """Memory of an agent: the policy drawn for this episode, and its memory."""

    name: str
    own: Any


class Mixture:
    """Mixed strategy: in each episode one of several policies plays all agents."""

    def __init__(self, name: str, policies: Mapping[str, AsyncPolicy], chances: Sequence[float]):
        if len(policies) != len(chances) or not policies:
            raise ValueError(f"{len(policies)} policies and {len(chances)} chances: give as many")
        self.name = name
        self.chances = dict(zip(policies, chances, strict=True))
        self._policies = dict(policies)

    def start(self, seed: int) -> Drawn:
        return self.start_together([seed])[0]

    def start_together(self, seeds: Sequence[int]) -> list[Drawn]:
        rng = seeding.of_mixture(seeds[0])
        name = str(rng.choice(list(self.chances), p=list(self.chances.values())))
        return [Drawn(name, self._policies[name].start(seed)) for seed in seeds]

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Drawn]
    ) -> tuple[list[Decision], list[Drawn]]:
        asked: dict[str, list[int]] = {}
        for place, state in enumerate(states):
            asked.setdefault(state.name, []).append(place)
        calls = [
            self._policies[name].act([seen[n] for n in places], [states[n].own for n in places])
            for name, places in asked.items()
        ]
        answers: list[Any] = [None] * len(states)
        for (name, places), answer in zip(asked.items(), await together(*calls), strict=True):
            for place, decision, own in zip(places, *answer, strict=True):
                answers[place] = decision, Drawn(name, own)
        return [decision for decision, _ in answers], [memory for _, memory in answers]

    def leave(self, state: Drawn) -> None:
        self._policies[state.name].leave(state.own)

    def closing(self, seen: AgentObservation, state: Drawn) -> tuple[int, ...] | None:
        drawn = self._policies[state.name]
        return drawn.closing(seen, state.own) if isinstance(drawn, Closing) else None
