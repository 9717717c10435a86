"""Training samples: one per agent and episode, with tokens and log-probabilities as sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from srl_agents.episode import Decision, End, Episode, Tokens
from srl_train.returns import discounted_return
from srl_train.trajectory import Game, Trajectory

T = TypeVar("T")


@dataclass(frozen=True)
class TokenSample:
    """One agent's whole episode as a prompt and an append-only completion."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Everything after the first prompt: the agent's answers and, between them, what it was
    told."""
    mask: tuple[int, ...]
    """Per completion token: 1 where the model chose it, 0 where the environment wrote it or a
    constrained answer had to go on with it: there is nothing to learn there, so such tokens are in
    no loss, normaliser, divergence or entropy."""
    logprobs: tuple[float, ...]
    """Per completion token, under the distribution it was drawn from; 0 where mask is 0."""
    allowed: tuple[tuple[int, ...] | None, ...] | None
    """Per completion token, the ids a constrained choice was made from; None where free."""
    turns: tuple[tuple[int, int], ...]
    """Where the answer of each turn in which the agent was asked stands in the completion: (start,
    stop)."""
    elapsed: tuple[int, ...]
    """Of each turn, how many turns of the game it is to the next one, or to the end: 1 where the
    agent is asked in all of them."""
    rewards: tuple[float, ...]
    """Shaped, of each turn, with what came before the next one, discounted to the turn."""
    episode_return: float
    """The discounted sum of all it was paid, before its first turn too."""
    group: tuple[int, int, str]
    """(round, start, agent): samples of one group are compared with each other."""
    version: int
    """The model's update count when it sampled; of its turns, the oldest."""
    advantages: tuple[float, ...] | None = None
    """Of each turn, where credit was assigned turn by turn; None leaves it to the learner, which
    compares the episode returns of a group."""
    states: tuple[tuple[float, ...], ...] | None = None
    """The joint state before each turn, where the episode recorded it."""
    closing_ids: tuple[int, ...] | None = None
    """What the agent was shown last, after its last answer, in a game that was cut off without
    telling its time: not part of the completion, nothing is learned on it. None elsewhere."""
    closing_state: tuple[float, ...] | None = None
    """The joint state then, beside `closing_ids`, where the episode recorded states."""


def per_token(sample: TokenSample, values: Sequence[float]) -> list[float]:
    """One value per turn -> one per completion token: its turn's on answers, 0 elsewhere."""
    spread = [0.0] * len(sample.completion_ids)
    for (start, stop), value in zip(sample.turns, values, strict=True):
        spread[start:stop] = [value] * (stop - start)
    return spread


def tokens_of(agent: str, turn: int, decision: Decision) -> Tokens:
    """The tokens of an agent's answer; raises ValueError where it carries none."""
    if decision.tokens is None:
        raise ValueError(f"{agent} answered turn {turn} without tokens: it cannot be trained")
    return decision.tokens


def chosen(tokens: Tokens) -> tuple[int, ...]:
    """The mask of an answer: 1 where the model chose the token, see TokenSample."""
    if tokens.allowed is None:
        return (1,) * len(tokens.completion_ids)
    return tuple(int(len(ids) > 1) for ids in tokens.allowed)


def sample_of(trajectory: Trajectory, *, discount: float, round_number: int) -> TokenSample | None:
    """What a learner trains on of the trajectory; None where the agent was never asked.

    Raises ValueError where a turn that was asked carries no tokens.
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
    prompt: tuple[int, ...] = ()
    for number in asked:
        tokens = tokens_of(agent, number, steps[number].decision)
        versions.append(int(tokens.model.version))
        if number == asked[0]:
            prompt = tokens.prompt_ids
        else:
            told = len(tokens.prompt_ids)
            completion += tokens.prompt_ids
            mask += [0] * told
            logprobs += [0.0] * told
            allowed += [None] * told
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
    )


def complete_groups(
    episodes: Sequence[Episode], group_size: int
) -> tuple[list[Episode], list[Episode]]:
    """(kept, left out): whole groups without a failed episode, and all the others.

    `episodes` lists group after group, `group_size` each. A group with a failed member is left
    out whole, because the members' advantages are relative to one another.
    """
    kept: list[Episode] = []
    left_out: list[Episode] = []
    for group in in_groups(episodes, group_size):
        (left_out if any(e.failure is not None for e in group) else kept).extend(group)
    return kept, left_out


def in_groups(items: Sequence[T], group_size: int) -> list[Sequence[T]]:
    """`items`, listed group after group, as groups."""
    return [items[start : start + group_size] for start in range(0, len(items), group_size)]


def samples_for(
    played: Mapping[str, Sequence[Game]],
    *,
    group_size: int,
    discount: float,
    round_number: int,
) -> tuple[list[TokenSample], dict[str, int]]:
    """(one model's samples, agent by agent, groups contiguous; agent -> games left out).

    `played`: agent -> the games in which the model played it, group after group.

    Where an agent was never asked in some game of a group, its part of the whole group is left
    out: what remains would be a group of another size.
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
