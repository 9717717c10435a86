"""Warning about rounds in which nothing tells good answers from bad ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srl_train.run import Run, UpdateStats
from srl_train.samples import TokenSample, in_groups

_EQUAL_REWARDS = (
    "all games that are compared earned the same. What helps: rewards that tell answers apart, "
    "longer or harder games, more games to compare (rollout.group_size, or MultiModelConfig's "
    "update_frequency); or more rounds, where a game pays all alike at first"
)
_CUT_OFF = (
    "every answer was cut off, and mask_truncated_completions (algorithm.trl) "
    "leaves such answers out. What helps: a higher models.sampling.max_new_tokens, or "
    "mask_truncated_completions: false"
)


def warn(
    run: Run,
    number: int,
    samples: Mapping[str, Sequence[TokenSample]],
    updates: Mapping[str, UpdateStats],
) -> list[str]:
    """Warn of the models that round `number` left as they were because all games that are compared
    earned them the same, or because all were left out as cut off; of either once a run. Returns the
    new warnings, which `run.warnings` holds then.

    Models that were warned of for their unread answers are left out: that is the reason.
    """
    unread = {cause.partition(":")[0] for cause in run.warnings}
    left = [
        model
        for model, update in updates.items()
        if update.samples and not update.updates and model not in unread
    ]
    size = run.config.rollout.group_size
    alike = [model for model in left if _all_equal(samples[model], size)]
    cut_off = [m for m in left if m not in alike and _all_left_out(run, m, updates[m])]
    told: list[str] = []
    for cause, models, words in (
        ("equal rewards", alike, _EQUAL_REWARDS),
        ("cut off", cut_off, _CUT_OFF),
    ):
        if models:
            lesson = f"round {number + 1} taught {', '.join(models)} nothing: {words}"
            told += run.warn_once(cause, lesson)
    return told


def _all_left_out(run: Run, model: str, update: UpdateStats) -> bool:
    """Return True if no game ends with a complete answer and the model leaves cut answers out."""
    masks = run.config.algorithm_of(model).trl.get("mask_truncated_completions", False)
    return masks and update.metrics["completions/clipped_ratio"] == 1.0


def _all_equal(samples: Sequence[TokenSample], group_size: int) -> bool:
    """Whether no sample differs from those that it is compared with."""
    if any(any(sample.advantages or ()) for sample in samples):
        return False
    groups = in_groups(samples, group_size)
    return all(len({sample.episode_return for sample in group}) == 1 for group in groups)
