"""Branching rollouts: at every turn several answers to one situation, each tried on a copy."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, runtime_checkable

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
from srl_train.returns import discounted_return
from srl_train.samples import TokenSample, chosen, tokens_of
from srl_train.trajectory import Game

Answer = tuple[Decision, Any]
"""What was decided, and the memory after it."""


@runtime_checkable
class Branches(Protocol):
    """A policy whose memories can be gone on with more than once."""

    def branch(self, state: Any, seed: int) -> Any:
        """A memory of the same past; all randomness from here on is from `seed`."""
        ...


@dataclass(frozen=True)
class Branching:
    """How a game branches (tree-structured sampling of AT-GRPO: Zhao et al. 2025, sec. 4)."""

    agents: Collection[str]
    """Whose answers are drawn several times; their policies are waited for, and can branch."""
    count: int
    """Answers to every situation, 2 or more."""
    worth: Callable[[Episode, str, int], float]
    """(a branch's record from the game's start, agent, number of the turn) -> what the agent's
    answer in that turn came to."""
    best: bool = True
    """Whether the game goes on with each agent's best answer; else with the one drawn first."""
    to_the_end: bool = False
    """Whether branches are played to their ends; else for the one turn."""


@dataclass(frozen=True)
class Siblings:
    """The answers that were drawn to one situation."""

    agent: str
    turn: int
    """Its number, from 0."""
    decisions: tuple[Decision, ...]
    worth: tuple[float, ...]
    """Of each: in its branch the others' answers were those drawn first."""


@dataclass(frozen=True)
class BranchedEpisode(Episode):
    """An episode with what was tried on its way; records of episodes leave that out."""

    siblings: tuple[Siblings, ...] = ()
    branch_steps: int = 0
    """Environment steps in branches."""


@dataclass
class BranchingGame(EpisodeGame):
    """One episode under way, with branches at every turn.

    Every branch is a copy of the environment as it stands, chance included: siblings meet the same
    chance, and what goes on in them is drawn from the same seeds.
    """

    branching: Branching = field(kw_only=True)
    siblings: list[Siblings] = field(default_factory=list)
    branch_steps: int = 0

    async def ask(self, decisions: dict[str, Decision], *, leaders: bool) -> None:
        """Add the decisions that the game goes on with."""
        if self.speaks_first:
            raise ValueError("a game in which somebody speaks first cannot branch")
        places = list(self.env.possible_agents)
        seeds = dict(zip(places, self.seeds(len(places)), strict=True))
        asked = [
            agent
            for agent in self.env.agents
            if agent in self.branching.agents and self.without_say(agent) is None
        ]
        before = dict(self.memories)
        made = {a: [self.branched(a, before[a], seed) for seed in seeds[a][1:]] for a in asked}
        chosen: dict[str, int] = {}
        try:
            calls = [
                self.waiting[agent].act([self.see(agent, ())] * len(own), own)
                for agent, own in made.items()
            ]
            drawn: list[Any] = await together(*calls, super().ask(decisions, leaders=leaders))
            answers: dict[str, list[Answer]] = {
                agent: [(decisions[agent], self.memories[agent]), *zip(*other, strict=True)]
                for agent, other in zip(asked, drawn[:-1], strict=True)
            }
            if answers:
                chosen = await self.tried(decisions, answers, {a: s[0] for a, s in seeds.items()})
            for agent, number in chosen.items():
                decisions[agent], self.memories[agent] = answers[agent][number]
        finally:
            for agent, own in made.items():
                for number, memory in enumerate([before[agent], *own]):
                    if number != chosen.get(agent, 0):
                        self.waiting[agent].leave(memory)

    def seeds(self, agents: int) -> list[list[int]]:
        """Of each agent in this turn: what goes on in branches is drawn from, then its siblings."""
        flat = of_branches(self.policy_seed, len(self.turns), agents * self.branching.count)
        return [flat[place::agents] for place in range(agents)]

    def branched(self, agent: str, memory: Any, seed: int) -> Any:
        """A memory of the same past, apart. Raises PolicyError where answers of an agent that
        branches are not drawn anew from `seed`."""
        policy = self.seats[agent]
        if isinstance(policy, Branches):
            return policy.branch(memory, seed)
        if agent in self.branching.agents:
            raise PolicyError(f"{agent} is played by {policy_name(policy)}, which cannot branch")
        return copy.deepcopy(memory)

    async def tried(
        self,
        first: Mapping[str, Decision],
        answers: Mapping[str, list[Answer]],
        seeds: Mapping[str, int],
    ) -> dict[str, int]:
        """Try every answer, the others giving their first; returns whose which is gone on with."""
        tries = [(agent, n) for agent, own in answers.items() for n in range(1, len(own))]
        branches = [self.branch(first, self.memories, seeds)]
        for agent, number in tries:
            decision, memory = answers[agent][number]
            branches.append(
                self.branch({**first, agent: decision}, {**self.memories, agent: memory}, seeds)
            )
        as_drawn, *records = await together(*branches)
        turn, chosen = len(self.turns), {}
        for agent, own in answers.items():
            tried = [r for (who, _), r in zip(tries, records, strict=True) if who == agent]
            worth = [self.branching.worth(record, agent, turn) for record in (as_drawn, *tried)]
            self.siblings.append(Siblings(agent, turn, tuple(d for d, _ in own), tuple(worth)))
            chosen[agent] = worth.index(max(worth)) if self.branching.best else 0
        return chosen

    async def branch(
        self,
        decisions: Mapping[str, Decision],
        memories: Mapping[str, Any],
        seeds: Mapping[str, int],
    ) -> Episode:
        """The record of a copy of the game that goes on with these decisions and memories."""
        on = self.branching.to_the_end
        game = EpisodeGame(
            copied(self.env),
            self.seats,
            self.seed,
            self.policy_seed,
            self.speaks_first,
            self.reset_options,
            self.given_names,
            observations=self.observations,
            infos=self.infos,
            memories={a: self.branched(a, m, seeds[a]) for a, m in memories.items()}
            if on
            else dict(memories),
            turns=list(self.turns),
            ends=dict(self.ends),
        )
        try:
            game.advance(decisions)
            if on:
                await game.go_on()
        finally:
            if on:
                game.leave()
        self.branch_steps += len(game.turns) - len(self.turns)
        return game.episode()

    def episode(self) -> BranchedEpisode:
        """The record of what was played, and of what was tried."""
        played = super().episode()
        own = {each.name: getattr(played, each.name) for each in dataclasses.fields(played)}
        return BranchedEpisode(**own, siblings=tuple(self.siblings), branch_steps=self.branch_steps)


# Training on branches.


def branch_samples(model: str, episodes: Sequence[Episode], round_number: int) -> list[TokenSample]:
    """The samples of one model: the answers to one situation follow one another.

    Each has what its answer was worth as its return, for the learner to compare. Raises ValueError
    where an answer carries no tokens.
    """
    return [
        _sample(siblings, decision, worth, context, (round_number, episode.seed, siblings.agent))
        for episode in episodes
        if isinstance(episode, BranchedEpisode)
        for siblings in episode.siblings
        if episode.seats[siblings.agent] == model
        for context in [_read_before(episode, siblings)]
        for decision, worth in zip(siblings.decisions, siblings.worth, strict=True)
    ]


def _read_before(episode: Episode, siblings: Siblings) -> tuple[int, ...]:
    """All that the agent had read and written when it was asked, as the game went."""
    read: tuple[int, ...] = ()
    before = episode.steps_before(siblings.agent, siblings.turn)
    for step in episode.steps_of(siblings.agent)[:before]:
        if step.decision.asked:
            tokens = tokens_of(siblings.agent, siblings.turn, step.decision)
            read += tokens.prompt_ids + tokens.completion_ids
    return read


def _sample(
    siblings: Siblings,
    decision: Decision,
    worth: float,
    context: tuple[int, ...],
    group: tuple[int, int, str],
) -> TokenSample:
    tokens = tokens_of(siblings.agent, siblings.turn, decision)
    return TokenSample(
        prompt_ids=context + tokens.prompt_ids,
        completion_ids=tokens.completion_ids,
        mask=chosen(tokens),
        logprobs=tokens.logprobs,
        allowed=tokens.allowed,
        turns=((0, len(tokens.completion_ids)),),
        elapsed=(1,),
        rewards=(worth,),
        episode_return=worth,
        group=group,
        version=int(tokens.model.version),
    )


def credit(config: RunConfig, env: Any, scheme: CreditScheme | None) -> Credit:
    """Return the hooks that play branching games and build samples from their branches.

    Raises:
        ConfigError: If the environment cannot be copied.
    """
    section, rollout = config.rollout.branching, config.rollout
    assert section is not None
    check_copies("rollout.branching: got a section", env)

    def make_game(run: Any) -> MakeGame:
        def worth(episode: Episode, agent: str, turn: int) -> float:
            shaped = run.game(episode)[agent].shaped
            return discounted_return(shaped[episode.steps_before(agent, turn) :], rollout.discount)

        branching = Branching(
            run.agents_that_learn,
            rollout.group_size,
            worth,
            best=section.follow == "best",
            to_the_end=section.value == "game",
        )
        return partial(BranchingGame, branching=branching)

    def count_steps(
        run: Any, number: int, episodes: Sequence[Episode], games: list[Game]
    ) -> tuple[list[Game], int]:
        return games, sum(e.branch_steps for e in episodes if isinstance(e, BranchedEpisode))

    return Credit(scheme, count_steps, make_game, branch_samples)
