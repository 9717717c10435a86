"""SimplePG and OurMethodPolicy as policies for any environment with the actions 0 and 1.

An agent plays a frozen copy of its learner; `learn` updates the learner with a recorded episode.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from srl_agents.baselines.learners import SimplePG
from srl_agents.baselines.our_method import OurMethodPolicy
from srl_agents.episode import Decision, Episode
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_agents.scripted.memory_one import START, SituationReader, coin


class SimplePGAgent(PerAgentPolicy):
    """Policy of a SimplePG."""

    name = "simple_pg"

    def __init__(self, learner: SimplePG) -> None:
        self.learner = learner

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        return coin(self.learner.chance, state)

    def learn(self, episode: Episode, agent: str) -> None:
        """Update the learner with an episode."""
        steps = episode.steps_of(agent)
        self.learner.update(
            [(step.decision.action, step.decision.logprob or 0.0, step.reward) for step in steps]
        )


class OurMethodAgent(PerAgentPolicy):
    """Policy of an OurMethodPolicy; several opponents count as their majority."""

    name = "our_method"

    def __init__(self, learner: OurMethodPolicy, reader: SituationReader | None = None) -> None:
        self.learner = learner
        self._reader = reader or SituationReader()

    def start(self, seed: int) -> OurMethodPolicy:
        return deepcopy(self.learner)

    def decide(self, seen: AgentObservation, state: OurMethodPolicy) -> Decision:
        situation = self._reader(seen.observation)
        if situation != START:
            state.observe_opponent((situation - 1) % 2)
        action, logprob = state.act()
        return Decision(action, logprob=logprob)

    def learn(self, episode: Episode, agent: str) -> None:
        """Update the learner with an episode, in the order played.

        Raises ValueError if the learner would have played otherwise.
        """
        trajectories: list[tuple[int, float, float]] = []
        learner = deepcopy(self.learner)
        for turn in episode.turns:
            [mine] = [step for step in turn if step.agent == agent]
            others = [step.decision.action for step in turn if step.agent != agent]
            own, logprob = learner.act()
            if own != mine.decision.action:
                raise ValueError(
                    f"{agent} played {mine.decision.action} in round {len(trajectories)}, this "
                    f"learner plays {own}: learn from each episode before playing the next"
                )
            share = sum(others) / len(others) if others else 0.5
            learner.observe_opponent(own if share == 0.5 else int(share > 0.5))
            trajectories.append((own, logprob, mine.reward))
        learner.update(trajectories)
        self.learner = learner
