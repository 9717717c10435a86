"""From episodes to what a learner trains on: one sample per seat and episode, tokens as sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from srl_agents.episode import Episode


@dataclass(frozen=True)
class TokenSample:
    """One seat's whole episode as a prompt and an append-only completion."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Everything after the first prompt: the seat's answers and, between them, what it was told."""
    mask: tuple[int, ...]
    """Per completion token: 1 where the model wrote it, 0 where the environment did."""
    logprobs: tuple[float, ...]
    """Per completion token, under the distribution it was drawn from; 0 where mask is 0."""
    allowed: tuple[tuple[int, ...] | None, ...] | None
    """Per completion token, the ids a constrained choice was made from; None where free."""
    reward: float
    """The episode's shaped, discounted return."""
    group: tuple[int, int, str]
    """(round, start, seat): samples of one group are compared with each other."""
    version: int
    """The model's update count when it sampled."""


def sample_of(
    episode: Episode, agent: str, reward: float, group: tuple[int, int, str], version: int
) -> TokenSample:
    """The seat's part of the episode; raises ValueError where a turn carries no tokens."""
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    allowed: list[tuple[int, ...] | None] = []
    prompt: tuple[int, ...] = ()
    for number, step in enumerate(episode.steps_of(agent)):
        tokens = step.decision.tokens
        if tokens is None:
            raise ValueError(f"{agent} answered turn {number} without tokens: it cannot be trained")
        if number == 0:
            prompt = tokens.prompt_ids
        else:
            told = len(tokens.prompt_ids)
            completion += tokens.prompt_ids
            mask += [0] * told
            logprobs += [0.0] * told
            allowed += [None] * told
        completion += tokens.completion_ids
        mask += [1] * len(tokens.completion_ids)
        logprobs += tokens.logprobs
        allowed += tokens.allowed or [None] * len(tokens.completion_ids)
    return TokenSample(
        prompt,
        tuple(completion),
        tuple(mask),
        tuple(logprobs),
        tuple(allowed) if any(ids is not None for ids in allowed) else None,
        reward,
        group,
        version,
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
    for start in range(0, len(episodes), group_size):
        group = episodes[start : start + group_size]
        (left_out if any(e.failure is not None for e in group) else kept).extend(group)
    return kept, left_out


def samples_for(
    seats: Iterable[str],
    episodes: Sequence[Episode],
    shaped: Sequence[Mapping[str, float]],
    *,
    round_number: int,
    version: int,
) -> list[TokenSample]:
    """The samples of one model's seats, seat by seat, groups contiguous.

    `shaped[e]` maps each seat of the e-th episode to its shaped return.
    """
    return [
        sample_of(episode, seat, returns[seat], (round_number, episode.seed, seat), version)
        for seat in seats
        for episode, returns in zip(episodes, shaped, strict=True)
    ]
