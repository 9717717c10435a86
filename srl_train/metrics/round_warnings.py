"""Warnings about the episodes and updates of a round. Each is logged once per run and cause.

All functions return the new warnings, which `run.warnings` also contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from srl_agents.episode import Decision, Episode
from srl_envs.untrusted import printable
from srl_train.samples import TokenSample, in_groups

if TYPE_CHECKING:
    from srl_train.run import Run, UpdateStats

SHOWN = 300
"""Number of characters of an error in a warning."""
UNREAD_SHARE = 0.5
"""Share of a model's answers with parse failures that causes a warning."""


def warn_of_failed_games(
    run: Run, episodes: Sequence[Episode], left_out: int | None = None
) -> list[str]:
    """Warn of failed episodes, once per kind of error.

    `left_out` is the number of failed episodes and members of their groups, which the update does
    not use. None if there is no update.
    """
    kinds: dict[str, list[str]] = {}
    for one in episodes:
        if one.failure is not None:
            kinds.setdefault(one.failure.partition(":")[0], []).append(one.failure)
    found: list[str] = []
    for kind, alike in kinds.items():
        first = " ".join(printable(alike[0], multiline=False).split())
        text = f"{len(alike)} of {len(episodes)} games failed"
        if left_out is not None:
            text += f" ({left_out} are not learned from: these, and those compared with them)"
        text += f"; the first: {first if len(first) <= SHOWN else first[:SHOWN] + ' ...'}"
        found += run.warn_once(f"failed: {kind}", text)
    return found


def warn_of_unreadable_answers(run: Run, episodes: Sequence[Episode]) -> list[str]:
    """Warn of models with parse failures in most of their answers."""
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
        cut = sum(_is_cut_off(run, who, agent, said) for agent, said in unread) / len(unread)
        share = len(unread) / len(written)
        text = f"{share:.0%} of {who}'s {len(written)} answers could not be read"
        if cut >= UNREAD_SHARE:
            limit = max(_limit(run, agent) for agent in run.agents_of(who))
            text += f", {cut:.0%} of these cut off at {limit} tokens"
            text += ": raise max_new_tokens (in models.sampling)"
        else:
            text += f", such as {unread[0][1].text!r:.80}: look at the sample episodes"
        if run.view.answers(unread[0][0]):
            text += ", or set constrained (in models) to true, which allows legal answers only"
        found += run.warn_once(f"{who}: {'cut off' if cut >= UNREAD_SHARE else 'unreadable'}", text)
    return found


def warn_of_equal_rewards(
    run: Run,
    number: int,
    samples: Mapping[str, Sequence[TokenSample]],
    updates: Mapping[str, UpdateStats],
) -> list[str]:
    """Warn of models that round `number` did not change, because all returns or no answers counted.

    Models with a warning about parse failures are left out.
    """
    unread = {cause.partition(":")[0] for cause in run.warnings}
    unchanged = [
        model
        for model, update in updates.items()
        if update.samples and not update.updates and model not in unread
    ]
    size = run.config.rollout.group_size
    alike = [model for model in unchanged if _all_equal(samples[model], size)]
    if not alike:
        return []
    return run.warn_once(
        "equal rewards",
        f"round {number + 1} taught {', '.join(alike)} nothing: all games that are compared have "
        "the same return. Use rewards that distinguish answers, longer games, larger groups "
        "(rollout.group_size, or MultiModelConfig's update_frequency), or more rounds",
    )


def _all_equal(samples: Sequence[TokenSample], group_size: int) -> bool:
    """Return True if no sample differs from the others in its group."""
    groups = in_groups(samples, group_size)
    return not any(any(sample.advantages or ()) for sample in samples) and all(
        len({sample.episode_return for sample in group}) == 1 for group in groups
    )


def _limit(run: Run, agent: str) -> int:
    return run.config.models.sampling_of(agent).max_new_tokens


def _is_cut_off(run: Run, who: str, agent: str, said: Decision) -> bool:
    if said.tokens is None:
        return False
    end = run.players.texts[who].chat.end_of_turn
    ids = said.tokens.completion_ids
    return len(ids) >= _limit(run, agent) and ids[-1] != end
