"""SimplePG and OurMethodPolicy as policies for any environment with the actions 0 and 1.

An agent plays its learner as it stood when the episode began; `learn` then takes the recorded
episode. Between the two nothing changes, so episodes can be played, recorded and learnt from in
different places. One learner plays one agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from math import log

import numpy as np

from srl_agents.baselines.our_method import OurMethodPolicy
from srl_agents.baselines.simple_pg import SimplePG
from srl_agents.episode import Decision, Episode
from srl_agents.policy import AgentObservation
from srl_agents.scripted.memory_one import START, SituationReader


class SimplePGAgent:
    """Plays a SimplePG; its draws come from the episode's seed."""

    name = "simple_pg"

    def __init__(self, learner: SimplePG) -> None:
        self.learner = learner

    def start(self, seed: int) -> np.random.Generator:
        """The agent's own generator."""
        return np.random.default_rng(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[np.random.Generator]
    ) -> tuple[list[Decision], list[np.random.Generator]]:
        """One decision per agent, with the log-probability of its action."""
        chance = self.learner.chance
        actions = [int(generator.random() < chance) for generator in states]
        decisions = [Decision(a, logprob=log(chance if a else 1.0 - chance)) for a in actions]
        return decisions, list(states)

    def learn(self, episode: Episode, agent: str) -> None:
        """One update of the learner from what `agent` did and earned."""
        steps = episode.steps_of(agent)
        self.learner.update(
            [(step.decision.action, step.decision.logprob or 0.0, step.reward) for step in steps]
        )


class OurMethodAgent:
    """Plays an OurMethodPolicy. With several others, their majority is "the opponent".

    `reader` says where the round before stands in the observation; by default as in
    coop_compete_v0. Nothing else of the observation is read.
    """

    name = "our_method"

    def __init__(self, learner: OurMethodPolicy, reader: SituationReader | None = None) -> None:
        self.learner = learner
        self._reader = reader or SituationReader()

    def start(self, seed: int) -> OurMethodPolicy:
        """A copy of the learner for this episode; it draws nothing, so the seed changes nothing."""
        return deepcopy(self.learner)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[OurMethodPolicy]
    ) -> tuple[list[Decision], list[OurMethodPolicy]]:
        """One decision per agent."""
        decisions = []
        for view, player in zip(seen, states, strict=True):
            situation = self._reader(view.observation)
            if situation != START:
                player.observe_opponent((situation - 1) % 2)
            action, logprob = player.act()
            decisions.append(Decision(action, logprob=logprob))
        return decisions, list(states)

    def learn(self, episode: Episode, agent: str) -> None:
        """Take the learner through the episode and update it with what `agent` earned.

        Episodes are learnt from one at a time, in the order played: raises ValueError for one
        that this learner, as it stands, would have played otherwise.
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
