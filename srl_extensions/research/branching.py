"""Branching rollouts: several answers per observation, each played on a copy of the environment.

Tree-structured sampling of AT-GRPO (Zhao et al. 2025, sec. 4).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from srl_agents.episode import Decision, Episode
from srl_agents.errors import PolicyError
from srl_agents.evaluation.replay import copied
from srl_agents.event_loop import together
from srl_agents.rollout import Game as EpisodeGame
from srl_agents.rollout import MakeGame, policy_name
from srl_agents.seeding import of_branches
from srl_extensions.research.replays import check_copies
from srl_train.config.run import RunConfig
from srl_train.credit import Credit, CreditScheme
from srl_train.samples import TokenSample, chosen, tokens_of
from srl_train.trajectory import Game, discounted_return


@dataclass(frozen=True)
class Siblings:
    """All sampled answers of an agent to one observation."""

    agent: str
    turn: int
    """Step number, from 0."""
    decisions: tuple[Decision, ...]
    values: tuple[float, ...]
    """Value of each answer, played with the first answers of all other agents."""


@dataclass(frozen=True)
class BranchedEpisode(Episode):
    """Episode with the answers of its branches, which episode files do not contain."""

    siblings: tuple[Siblings, ...] = ()
    branch_steps: int = 0
    """Number of environment steps in branches."""


@dataclass
class BranchingGame(EpisodeGame):
    """Running episode that tries several answers per step and continues with the best one.

    Each branch is one step on a copy of the environment, including its random state. All answers
    to an observation are therefore compared under the same random outcomes.
    """

    branching: Collection[str] = field(kw_only=True)
    """Agents with several answers per observation. Their policies have a method `branch`: (memory,
    seed) -> copy of the memory, whose further samples use the seed."""
    count: int = field(kw_only=True)
    """Number of answers per observation, 2 or more."""
    value: Callable[[Episode, str, int], float] = field(kw_only=True)
    """Function from (record of a branch, agent, step) to the value of the agent's answer."""
    siblings: list[Siblings] = field(default_factory=list)
    branch_steps: int = 0

    async def ask(self, decisions: dict[str, Decision], *, leaders: bool) -> None:
        """Add a decision per agent to `decisions`: for agents in `branching`, the best of several.

        An agent with a forced decision is not branched. `leaders` selects the leaders or all other
        agents. Memories, `siblings` and `branch_steps` are updated. Raises PolicyError if the
        policy of an agent in `branching` has no method `branch`.
        """
        places = list(self.env.possible_agents)
        seeds = of_branches(self.policy_seed, len(self.turns), len(places) * self.count)
        asked = [
            agent
            for agent in self.env.agents
            if agent in self.branching and self.forced_decision(agent) is None
        ]
        before = dict(self.memories)
        made = {
            agent: [self._branched(agent, seed) for seed in seeds[place :: len(places)][1:]]
            for place, agent in enumerate(places)
            if agent in asked
        }
        best: dict[str, int] = {}
        try:
            calls = [
                self.waiting[agent].act([self.see(agent, ())] * len(made[agent]), made[agent])
                for agent in asked
            ]
            drawn: list[Any] = await together(*calls, super().ask(decisions, leaders=leaders))
            answers = {
                agent: [(decisions[agent], self.memories[agent]), *zip(*other, strict=True)]
                for agent, other in zip(asked, drawn[:-1], strict=True)
            }
            if answers:
                tried = {agent: [answer for answer, _ in own] for agent, own in answers.items()}
                best = self._best(decisions, tried)
            for agent, number in best.items():
                decisions[agent], self.memories[agent] = answers[agent][number]
        finally:
            for agent, own in made.items():
                for number, memory in enumerate([before[agent], *own]):
                    if number != best.get(agent, 0):
                        self.waiting[agent].leave(memory)

    def _branched(self, agent: str, seed: int) -> Any:
        policy: Any = self.seats[agent]
        if not hasattr(policy, "branch"):
            raise PolicyError(f"{agent} is played by {policy_name(policy)}, which cannot branch")
        return policy.branch(self.memories[agent], seed)

    def _best(
        self, first: Mapping[str, Decision], answers: Mapping[str, list[Decision]]
    ) -> dict[str, int]:
        """Try the answers of each agent, and return agent to the index of its best answer.

        An answer is tried with the first answers of all other agents, `first`. Appends the answers
        and their values to `siblings`.
        """
        as_drawn = self._branch(first)
        turn, best = len(self.turns), {}
        for agent, own in answers.items():
            tried = [self._branch({**first, agent: decision}) for decision in own[1:]]
            values = [self.value(record, agent, turn) for record in (as_drawn, *tried)]
            self.siblings.append(Siblings(agent, turn, tuple(own), tuple(values)))
            best[agent] = values.index(max(values))
        return best

    def _branch(self, decisions: Mapping[str, Decision]) -> Episode:
        """Play a step in a copy of the episode, count it, and return the record of the copy."""
        game = copy.copy(self)
        game.env, game.states = copied(self.env), None
        game.turns, game.ends = list(self.turns), dict(self.ends)
        game.advance(decisions)
        self.branch_steps += 1
        return EpisodeGame.episode(game)

    def episode(self) -> BranchedEpisode:
        """Return the record of the episode with all branches."""
        return BranchedEpisode(
            **vars(super().episode()),
            siblings=tuple(self.siblings),
            branch_steps=self.branch_steps,
        )


def branch_samples(model: str, episodes: Sequence[Episode], round_number: int) -> list[TokenSample]:
    """Return the training samples of a model, one per answer.

    The answers to an observation are consecutive and form a group: (`round_number`, seed, agent).
    The return of a sample is the value of its answer, and its prompt contains all earlier tokens of
    the agent's episode.
    """
    samples = []
    for episode in episodes:
        assert isinstance(episode, BranchedEpisode)
        for siblings in episode.siblings:
            agent = siblings.agent
            if episode.seats[agent] != model:
                continue
            context: tuple[int, ...] = ()
            for step in episode.steps_of(agent)[: episode.steps_before(agent, siblings.turn)]:
                if step.decision.asked:
                    tokens = tokens_of(agent, siblings.turn, step.decision)
                    context += tokens.prompt_ids + tokens.completion_ids
            for decision, value in zip(siblings.decisions, siblings.values, strict=True):
                tokens = tokens_of(agent, siblings.turn, decision)
                samples.append(
                    TokenSample(
                        prompt_ids=context + tokens.prompt_ids,
                        completion_ids=tokens.completion_ids,
                        mask=chosen(tokens),
                        logprobs=tokens.logprobs,
                        allowed=tokens.allowed,
                        turns=((0, len(tokens.completion_ids)),),
                        elapsed=(1,),
                        rewards=(value,),
                        episode_return=value,
                        group=(round_number, episode.seed, agent),
                        version=int(tokens.model.version),
                    )
                )
    return samples


def credit(config: RunConfig, env: Any, scheme: CreditScheme | None) -> Credit:
    """Return the Credit that plays branching episodes and trains on all their answers.

    Resets `env`. Raises ConfigError if it cannot be copied.
    """
    rollout = config.rollout
    check_copies("rollout.branching: got true", env)

    def make_game(run: Any) -> MakeGame:
        def value(episode: Episode, agent: str, turn: int) -> float:
            shaped = run.game(episode)[agent].shaped
            return discounted_return(shaped[episode.steps_before(agent, turn) :], rollout.discount)

        return partial(
            BranchingGame,
            branching=run.agents_that_learn,
            count=rollout.group_size,
            value=value,
        )

    def count_steps(
        run: Any, number: int, episodes: Sequence[Episode], games: list[Game]
    ) -> tuple[list[Game], int]:
        return games, sum(e.branch_steps for e in episodes if isinstance(e, BranchedEpisode))

    return Credit(scheme, count_steps, make_game, branch_samples)
