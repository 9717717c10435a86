"""Warnings about the episodes and updates of a round, each logged once per run and cause.

All functions return the new warnings, and add them to `run.warnings`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from srl_agents.episode import Episode
from srl_envs.untrusted import printable
from srl_train.samples import TokenSample, in_groups

if TYPE_CHECKING:
    from srl_train.run import Run, UpdateStats

UNREAD_SHARE = 0.5
"""Share of a model's answers with parse failures that causes a warning."""


def warn_of_failed_games(
    run: Run, episodes: Sequence[Episode], left_out: int | None = None
) -> list[str]:
    """Log and return a warning for each type of error in failed episodes that is new in the run.

    `left_out` is the number of episodes not used for training, including the rest of groups with
    failed episodes. None omits it from the text.
    """
    kinds: dict[str, list[str]] = {}
    for one in episodes:
        if one.failure is not None:
            kinds.setdefault(one.failure.partition(":")[0], []).append(one.failure)
    found: list[str] = []
    for kind, failures in kinds.items():
        first = " ".join(printable(failures[0], multiline=False).split())
        text = f"{len(failures)} of {len(episodes)} episodes failed"
        if left_out is not None:
            text += f" ({left_out} are not used for training, including the rest of their groups)"
        text += f"; first error: {first:.300}"
        found += run.warn_once(f"failed: {kind}", text)
    return found


def warn_of_unreadable_answers(run: Run, episodes: Sequence[Episode]) -> list[str]:
    """Log and return new warnings, one per player with half or more text answers unparsable."""
    found: list[str] = []
    for name in dict.fromkeys(name for episode in episodes for name in episode.seats.values()):
        answers = [
            step.decision
            for episode in episodes
            for agent in episode.agents_of(name)
            for step in episode.steps_of(agent)
            if step.decision.text is not None
        ]
        unread = [answer.text for answer in answers if answer.parse_failure is not None]
        if not answers or len(unread) < UNREAD_SHARE * len(answers):
            continue
        text = (
            f"{len(unread) / len(answers):.0%} of {len(answers)} answers of {name} could not be "
            f"parsed, such as {unread[0]!r:.80}; if they are cut off, increase "
            "models.sampling.max_new_tokens; if the environment lists its legal answers, set "
            "models.constrained to true"
        )
        found += run.warn_once(f"{name}: unreadable", text)
    return found


def warn_of_equal_rewards(
    run: Run,
    number: int,
    samples: Mapping[str, Sequence[TokenSample]],
    updates: Mapping[str, UpdateStats],
) -> list[str]:
    """Log a warning, once per run, if equal returns in each group left models unchanged.

    `samples` and `updates` are those of round `number` (from 0), by model. Models with a warning
    about parse failures are omitted. Returns [warning], or [] if there is no new one.
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
        f"round {number + 1} did not change {', '.join(alike)}: all compared episodes have equal "
        "returns; use rewards that distinguish answers, longer episodes, or larger groups "
        "(rollout.group_size)",
    )


def _all_equal(samples: Sequence[TokenSample], group_size: int) -> bool:
    groups = in_groups(samples, group_size)
    return not any(any(sample.advantages or ()) for sample in samples) and all(
        len({sample.episode_return for sample in group}) == 1 for group in groups
    )
