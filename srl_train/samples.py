"""Training samples, and the buffer in which they wait for an update.

A sample is one agent's episode, with tokens and log-probabilities exactly as sampled.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from srl_agents.episode import Decision, End, Episode, Tokens
from srl_train.trajectory import Game, Trajectory, discounted_return

T = TypeVar("T")


@dataclass(frozen=True)
class TokenSample:
    """Training sample: one agent's episode as a prompt and a completion, as sampled."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Tokens after the first prompt: the agent's answers and the observations between them."""
    mask: tuple[int, ...]
    """Per completion token: 1 for tokens that the model chose, 0 for tokens of the environment and
    for tokens with no legal alternative. The latter count in no loss, normalizer, divergence or
    entropy."""
    logprobs: tuple[float, ...]
    """Per completion token: log-probability under the sampling distribution; 0 where mask is 0."""
    allowed: tuple[tuple[int, ...] | None, ...] | None
    """Per completion token: ids that a constrained choice allowed; None if unconstrained."""
    turns: tuple[tuple[int, int], ...]
    """Completion tokens (start, stop) of each answer."""
    elapsed: tuple[int, ...]
    """Per answer: environment steps until the agent's next answer or the end of the episode."""
    rewards: tuple[float, ...]
    """Per answer: shaped rewards until the next answer, discounted to the answer."""
    episode_return: float
    """Discounted sum of all shaped rewards, including rewards before the first answer."""
    group: tuple[int, int, str]
    """(round, environment seed, agent); the samples of a group are compared with each other."""
    version: int
    """Update count of the model when it sampled the oldest answer."""
    advantages: tuple[float, ...] | None = None
    """Advantage of each answer. With None, the learner compares the episode returns of a group."""
    states: tuple[tuple[float, ...], ...] | None = None
    """Joint state before each answer, if recorded."""
    closing_ids: tuple[int, ...] | None = None
    """Last observation of a truncated episode whose observations do not contain the time; not part
    of the completion. None for all other episodes."""
    closing_state: tuple[float, ...] | None = None
    """Joint state at the truncation, if recorded."""
    contexts: tuple[tuple[int, ...], ...] | None = None
    """Per answer: all token ids before it, if models.context selects messages. The completion then
    contains the answers only. None if every prompt continues the earlier tokens."""


@dataclass(frozen=True)
class JointState:
    """Agents and length of the environment's joint state vector."""

    agents: tuple[str, ...]
    size: int


def tokens_of(agent: str, turn: int, decision: Decision) -> Tokens:
    """Return `decision.tokens`, or raise ValueError, which names agent and step `turn`, if None."""
    if decision.tokens is None:
        raise ValueError(f"{agent} answered turn {turn} without tokens, which training requires")
    return decision.tokens


def chosen(tokens: Tokens) -> tuple[int, ...]:
    """Return, per token of an answer, 0 if it was the only allowed token there, else 1."""
    if tokens.allowed is None:
        return (1,) * len(tokens.completion_ids)
    return tuple(int(len(ids) > 1) for ids in tokens.allowed)


def sample_of(trajectory: Trajectory, *, discount: float, round_number: int) -> TokenSample | None:
    """Return the sample of an agent's episode, or None if its policy was never queried.

    `discount` is per environment step; `round_number` is recorded in `group`. Raises ValueError for
    an answer without tokens.
    """
    agent, steps, rewards = trajectory.agent, trajectory.steps, trajectory.shaped
    asked = [number for number, step in enumerate(steps) if step.decision.asked]
    if not asked:
        return None
    spans = list(pairwise((*asked, len(steps))))
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    allowed: list[tuple[int, ...] | None] = []
    turns: list[tuple[int, int]] = []
    versions: list[int] = []
    contexts: list[tuple[int, ...]] = []
    prompt: tuple[int, ...] = ()
    for number in asked:
        tokens = tokens_of(agent, number, steps[number].decision)
        versions.append(int(tokens.model.version))
        if number == asked[0]:
            prompt = tokens.prompt_ids
        if tokens.whole_context:
            contexts.append(tokens.prompt_ids)
        elif number != asked[0]:
            observed = len(tokens.prompt_ids)
            completion += tokens.prompt_ids
            mask += [0] * observed
            logprobs += [0.0] * observed
            allowed += [None] * observed
        turns.append((len(completion), len(completion) + len(tokens.completion_ids)))
        completion += tokens.completion_ids
        logprobs += tokens.logprobs
        mask += chosen(tokens)
        allowed += tokens.allowed or [None] * len(tokens.completion_ids)
    advantages, states = trajectory.advantages, trajectory.states
    end = trajectory.end or End(truncated=False)
    return TokenSample(
        prompt,
        tuple(completion),
        tuple(mask),
        tuple(logprobs),
        tuple(allowed) if any(ids is not None for ids in allowed) else None,
        tuple(turns),
        tuple(after - number for number, after in spans),
        tuple(discounted_return(rewards[number:after], discount) for number, after in spans),
        discounted_return(rewards, discount),
        (round_number, trajectory.seed, agent),
        min(versions),
        None if advantages is None else tuple(advantages[number] for number in asked),
        None if states is None else tuple(tuple(states[number].tolist()) for number in asked),
        end.prompt_ids,
        None if end.state is None else tuple(end.state.tolist()),
        tuple(contexts) or None,
    )


def complete_groups(
    episodes: Sequence[Episode], group_size: int
) -> tuple[list[Episode], list[Episode]]:
    """Return (episodes of groups without a failed episode, episodes of all other groups).

    `episodes` are listed group after group, and both results keep this order.
    """
    kept: list[Episode] = []
    left_out: list[Episode] = []
    for group in in_groups(episodes, group_size):
        (left_out if any(e.failure is not None for e in group) else kept).extend(group)
    return kept, left_out


def in_groups(items: Sequence[T], group_size: int) -> list[Sequence[T]]:
    """Return contiguous groups of `group_size` items; the last group may have fewer."""
    return [items[start : start + group_size] for start in range(0, len(items), group_size)]


def samples_for(
    played: Mapping[str, Sequence[Game]],
    *,
    group_size: int,
    discount: float,
    round_number: int,
) -> tuple[list[TokenSample], dict[str, int]]:
    """Return (samples of one model, agent to the number of episodes left out).

    `played` is agent to the episodes in which the model played it, group after group. If the model
    was never queried for an agent in one of a group's episodes, the agent's samples of the whole
    group are left out. Samples are in the order of `played`. Raises ValueError as `sample_of`.
    """
    kept: list[TokenSample] = []
    left_out = dict.fromkeys(played, 0)
    for agent, games in played.items():
        samples = [
            sample_of(game[agent], discount=discount, round_number=round_number) for game in games
        ]
        for group in in_groups(samples, group_size):
            whole = [sample for sample in group if sample is not None]
            if len(whole) == len(group):
                kept += whole
            else:
                left_out[agent] += len(group)
    return kept, left_out


@dataclass(frozen=True)
class UpdateBatch:
    """Samples of one update, with their ages."""

    samples: tuple[TokenSample, ...]
    staleness: tuple[int, ...]
    """Per sample: updates of the model since it sampled; 0 is on-policy."""
    age: tuple[int, ...]
    """Per sample: rounds since the episode, in which other models may have changed."""


class SampleBuffer:
    """First-in, first-out buffer of one model's samples, in whole groups.

    With a budget, all agents of the model are trained equally often, as far as possible.

    Args:
        group_size: Number of samples per group.
        budget: Samples per update, a multiple of `group_size`; None takes those of one round.
        max_staleness: Maximum number of updates of the model since a sample was drawn.
    """

    def __init__(self, group_size: int, budget: int | None, max_staleness: int) -> None:
        self._group_size = group_size
        self._budget = budget
        self._max_staleness = max_staleness
        self._groups: list[Sequence[TokenSample]] = []
        self._taken: Counter[str] = Counter()
        """Agent to the number of its groups used in updates."""
        self.dropped: Counter[str] = Counter()
        """Agent to the number of its samples dropped as too stale."""

    def __len__(self) -> int:
        return sum(map(len, self._groups))

    def add(self, samples: Sequence[TokenSample]) -> None:
        """Append samples of whole groups, group after group."""
        self._groups += in_groups(samples, self._group_size)

    def take(self, version: int, round_number: int) -> UpdateBatch | None:
        """Remove and return the samples of the next update, or None if there are too few.

        Groups with a sample more than `max_staleness` updates older than `version`, the model's
        update count, are first dropped. `round_number` is the current round.
        """
        groups: list[Sequence[TokenSample]] = []
        for group in self._groups:
            if max(version - sample.version for sample in group) <= self._max_staleness:
                groups.append(group)
            else:
                self.dropped[_agent(group)] += len(group)
        self._groups = groups
        if len(self) < (self._budget or 1):
            return None
        if self._budget is None:
            oldest = min(group[0].group[0] for group in groups)
            chosen = [n for n, group in enumerate(groups) if group[0].group[0] == oldest]
            self._taken.update(_agent(groups[number]) for number in chosen)
        else:
            chosen = self._in_turn(groups, self._budget // self._group_size)
        taken = [sample for number in chosen for sample in groups[number]]
        self._groups = [group for number, group in enumerate(groups) if number not in set(chosen)]
        return UpdateBatch(
            tuple(taken),
            tuple(version - sample.version for sample in taken),
            tuple(round_number - sample.group[0] for sample in taken),
        )

    def _in_turn(self, groups: Sequence[Sequence[TokenSample]], count: int) -> list[int]:
        waiting: dict[str, list[int]] = {}
        for number, group in enumerate(groups):
            waiting.setdefault(_agent(group), []).append(number)
        chosen = []
        for _ in range(count):
            agents = [agent for agent, numbers in waiting.items() if numbers]
            next_up = min(agents, key=lambda agent: self._taken[agent])
            chosen.append(waiting[next_up].pop(0))
            self._taken[next_up] += 1
        return sorted(chosen)

    def state(self) -> dict[str, Any]:
        """Return the content for checkpoints; the entry "samples" has a dictionary per sample."""
        return {
            "dropped": dict(self.dropped),
            "taken": dict(self._taken),
            "samples": [dataclasses.asdict(one) for group in self._groups for one in group],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of the method `state`, in which samples are TokenSample objects."""
        self.dropped, self._taken = Counter(state["dropped"]), Counter(state["taken"])
        self._groups = in_groups(state["samples"], self._group_size)


def _agent(group: Sequence[TokenSample]) -> str:
    return group[0].group[2]
