"""Training samples of branching games: one per answer, with what its agent had read until then."""

from __future__ import annotations

from collections.abc import Sequence

from srl_agents.episode import Decision, Episode
from srl_agents.rollout import BranchedEpisode, Siblings
from srl_train.data.samples import TokenSample, chosen, tokens_of


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
