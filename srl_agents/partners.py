"""Environments in which policies play some of the agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pettingzoo.utils import BaseParallelWrapper

from srl_agents.errors import PolicyError
from srl_agents.event_loop import finished, run
from srl_agents.policy import AgentObservation, Policy, waits
from srl_agents.rollout import played_action, query_policies, start_policies
from srl_agents.scripted.registry import policies_by_agent
from srl_envs.validation import Step


class WithPartners(BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Wrapper of a parallel environment whose `partners` are played by policies.

    The wrapper's agents are the remaining agents. While none of them is active, but some have not
    joined yet, the partners play on. Their randomness comes from the last seed given to `reset`,
    and their errors are raised. Example::

        env = WithPartners(make("coop_compete_v0", num_agents=2), {"agent_1": TitForTat()})
    """

    def __init__(self, env: Any, partners: Mapping[str, Policy]) -> None:
        """Wrap an environment.

        Args:
            env: PettingZoo parallel environment.
            partners: Agent -> policy, also language models.

        Raises:
            PolicyError: An agent is unknown, or no agent remains.
        """
        super().__init__(env)
        agents = list(env.possible_agents)
        unknown = sorted(set(partners) - set(agents))
        if unknown:
            raise PolicyError(f"partners must be among {', '.join(agents)}, got {unknown[0]!r}")
        self.possible_agents = [agent for agent in agents if agent not in partners]
        if not self.possible_agents:
            raise PolicyError(f"partners must leave out one agent, got all of {', '.join(agents)}")
        self._partners = dict(partners)
        self._draws: np.random.Generator | None = None
        self._memories: dict[str, Any] = {}
        self._seen: dict[str, AgentObservation] = {}
        self._absent: set[str] = set()

    @property
    def agents(self) -> list[str]:
        """Active agents that are not partners."""
        return [agent for agent in self.env.agents if agent not in self._partners]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        self._release()
        observations, infos = self.env.reset(seed=seed, options=options)
        if seed is not None or self._draws is None:
            self._draws = np.random.default_rng(seed)
        start = int(self._draws.integers(2**32)) if seed is None else seed
        self._memories = start_policies(self._partners, self.env.possible_agents, start)
        self._observe(observations, infos)
        self._absent = set(self.possible_agents) - set(observations)
        found = self._until_one_joins((observations, {}, {}, {}, infos))
        return found[0], found[4]

    def step(self, actions: Mapping[str, Any]) -> Step:
        if not self.agents:
            return self.env.step(actions) if not self.env.agents else ({}, {}, {}, {}, {})
        return self._until_one_joins(self._play(actions))

    def _until_one_joins(self, outcome: Step) -> Step:
        found: Any = tuple(map(self._without_partners, outcome))
        self._absent -= set(found[0])
        while self._absent and self.env.agents and not self.agents:
            played: Any = self._play({})
            for values, later in zip(found, played, strict=True):
                values |= self._without_partners(later)
            self._absent -= set(found[0])
        return found  # type: ignore[no-any-return]

    def _play(self, actions: Mapping[str, Any]) -> Step:
        query = query_policies(self._partners, self._seen, self._memories)
        # Synchronous partners need no event loop.
        waiting = any(waits(self._partners[agent]) for agent in self._seen)
        answers = run(query) if waiting else finished(query)
        self._memories |= {agent: memory for agent, (_, memory) in answers.items()}
        played = {agent: played_action(decision) for agent, (decision, _) in answers.items()}
        outcome: Step = self.env.step({**actions, **played})
        self._observe(outcome[0], outcome[4])
        return outcome

    def close(self) -> None:
        self._release()
        self.env.close()

    def _observe(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        self._seen = {
            agent: AgentObservation(
                agent, observations[agent], infos.get(agent, {}).get("action_mask")
            )
            for agent in self.env.agents
            if agent in self._partners
        }

    def _without_partners(self, by_agent: Mapping[str, Any]) -> dict[str, Any]:
        return {agent: one for agent, one in by_agent.items() if agent not in self._partners}

    def _release(self) -> None:
        for agent, memory in self._memories.items():
            policy = self._partners[agent]
            if waits(policy):
                policy.leave(memory)
        self._memories = {}


def with_scripted(env: Any, partners: Mapping[str, str]) -> WithPartners:
    """Return `env` with new scripted policies as `partners` (agent -> name).

    Agents with the same name share one policy object. Raises PolicyError if an agent is unknown or
    no agent remains, and the errors of `classic_policy`.
    """
    return WithPartners(env, policies_by_agent(partners, env))
