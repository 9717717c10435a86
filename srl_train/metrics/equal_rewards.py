"""Warning about rounds in which nothing tells good answers from bad ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from srl_train.data.samples import TokenSample
from srl_train.engine.state import Run
from srl_train.engine.update import UpdateStats

log = logging.getLogger(__name__)


def warn(
    run: Run,
    number: int,
    samples: Mapping[str, Sequence[TokenSample]],
    updates: Mapping[str, UpdateStats],
) -> list[str]:
    """Warn of the models that round `number` left as they were because all games that are compared
    earned them the same, once a run; returns the new warning, which `run.warnings` holds then.

    Models that were warned of for their unread answers are left out: that is the reason.
    """
    unread = {cause.partition(":")[0] for cause in run.warnings}
    alike = [
        model
        for model, update in updates.items()
        if update.samples and not update.updates and model not in unread
        if _all_equal(samples[model])
    ]
    if not alike or "equal rewards" in run.warnings:
        return []
    told = (
        f"round {number + 1} taught {', '.join(alike)} nothing: all games that are compared earned "
        "the same. What helps: rewards that tell answers apart, longer or harder games, more games "
        "to compare (rollout.group_size, or MultiModelConfig's update_frequency); or more rounds, "
        "where a game pays all alike at first"
    )
    run.warnings["equal rewards"] = told
    log.warning("%s", told)
    return [told]


def _all_equal(samples: Iterable[TokenSample]) -> bool:
    """Whether no sample differs from those that it is compared with."""
    returns: dict[tuple[int, int, str], set[float]] = {}
    for sample in samples:
        if any(sample.advantages or ()):
            return False
        returns.setdefault(sample.group, set()).add(sample.episode_return)
    return all(len(found) == 1 for found in returns.values())
