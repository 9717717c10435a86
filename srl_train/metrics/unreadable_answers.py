"""Warning about a high rate of parse failures in training."""

from __future__ import annotations

from collections.abc import Sequence

from srl_agents.episode import Decision, Episode
from srl_train.run import Run

UNREAD_SHARE = 0.5
"""Of a model's answers; from here on it is warned of."""


def warn(run: Run, episodes: Sequence[Episode]) -> list[str]:
    """Warn of each model whose answers in `episodes` mostly could not be read, once a run and
    cause; returns the new warnings, which `run.warnings` holds then."""
    found: list[str] = []
    for who in dict.fromkeys(who for episode in episodes for who in episode.seats.values()):
        written = [
            (agent, step.decision)
            for episode in episodes
            for agent in episode.agents_of(who)
            for step in episode.steps_of(agent)
            if step.decision.text is not None
        ]
        unread = [(agent, said) for agent, said in written if said.parse_failure is not None]
        if not written or len(unread) < UNREAD_SHARE * len(written):
            continue
        cut = sum(_cut(run, who, agent, said) for agent, said in unread) / len(unread)
        kind = "cut off" if cut >= UNREAD_SHARE else "unreadable"
        share = len(unread) / len(written)
        told = f"{share:.0%} of {who}'s {len(written)} answers could not be read"
        if cut >= UNREAD_SHARE:
            limit = max(_limit(run, agent) for agent in run.agents_of(who))
            told += f", {cut:.0%} of these cut off at {limit} tokens"
            told += ": raise max_new_tokens (in models.sampling)"
        else:
            told += f", such as {unread[0][1].text!r:.80}: look at the sample episodes"
        if run.view.answers(unread[0][0]):
            told += (
                ", or set constrained (in models) to true, to choose among the legal answers only"
            )
        found += run.warn_once(f"{who}: {kind}", told)
    return found


def _limit(run: Run, agent: str) -> int:
    return run.config.models.sampling_of(agent).max_new_tokens


def _cut(run: Run, who: str, agent: str, said: Decision) -> bool:
    """Whether the answer ended where no more tokens were allowed."""
    if said.tokens is None:
        return False
    end = run.players.texts[who].chat.end_of_turn
    ids = said.tokens.completion_ids
    return len(ids) >= _limit(run, agent) and ids[-1] != end
