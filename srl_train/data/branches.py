"""Training samples of branching games: one per answer, with what its agent had read until then."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from srl_agents.episode import Decision, Episode, Tokens
from srl_agents.rollout import BranchedEpisode, Siblings
from srl_train.data.samples import TokenSample


def branch_samples(
    agents: Collection[str], episodes: Sequence[Episode], round_number: int
) -> list[TokenSample]:
    """The samples of one model's agents: the answers to one situation follow one another.

    Each has what its answer was worth as its return, for the learner to compare. Raises ValueError
    where an answer carries no tokens.
    """
    return [
        _sample(siblings, decision, worth, context, (round_number, episode.seed, siblings.agent))
        for episode in episodes
        if isinstance(episode, BranchedEpisode)
        for siblings in episode.siblings
        if siblings.agent in agents
        for context in [_read_before(episode, siblings)]
        for decision, worth in zip(siblings.decisions, siblings.worth, strict=True)
    ]


def _read_before(episode: Episode, siblings: Siblings) -> tuple[int, ...]:
    """All that the agent had read and written when it was asked, as the game went."""
    read: tuple[int, ...] = ()
    for step in episode.steps_of(siblings.agent)[: siblings.turn]:
        if step.decision.asked:
            tokens = _tokens(step.decision, siblings)
            read += tokens.prompt_ids + tokens.completion_ids
    return read


def _sample(
    siblings: Siblings,
    decision: Decision,
    worth: float,
    context: tuple[int, ...],
    group: tuple[int, int, str],
) -> TokenSample:
    tokens = _tokens(decision, siblings)
    choices = tokens.allowed or [None] * len(tokens.completion_ids)
    return TokenSample(
        prompt_ids=context + tokens.prompt_ids,
        completion_ids=tokens.completion_ids,
        mask=tuple(int(ids is None or len(ids) > 1) for ids in choices),
        logprobs=tokens.logprobs,
        allowed=tokens.allowed,
        turns=((0, len(tokens.completion_ids)),),
        elapsed=(1,),
        rewards=(worth,),
        episode_return=worth,
        group=group,
        version=int(tokens.model.version),
    )


def _tokens(decision: Decision, siblings: Siblings) -> Tokens:
    if decision.tokens is None:
        raise ValueError(
            f"{siblings.agent} answered turn {siblings.turn} without tokens: it cannot be trained"
        )
    return decision.tokens
