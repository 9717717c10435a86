"""What a model has played and not yet trained on, and when that is enough for an update."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_train.samples import TokenSample


@dataclass(frozen=True)
class Taken:
    """The samples of one update, and how old they are."""

    samples: tuple[TokenSample, ...]
    staleness: tuple[int, ...]
    """Per sample: the model's own updates since it sampled (0 = on-policy)."""
    age: tuple[int, ...]
    """Per sample: rounds since it was played, while the other players may have learned."""


class SampleBuffer:
    """First in, first out, by whole groups."""

    def __init__(self, group_size: int, budget: int | None, max_staleness: int) -> None:
        """`budget` samples make an update; None takes whatever one round brought."""
        self._group_size = group_size
        self._budget = budget
        self._max_staleness = max_staleness
        self._samples: list[TokenSample] = []
        self.dropped = 0
        """Samples thrown away as too stale, so far."""

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, samples: Sequence[TokenSample]) -> None:
        """Append whole groups."""
        if len(samples) % self._group_size:
            raise ValueError(f"{len(samples)} samples are not groups of {self._group_size}")
        self._samples.extend(samples)

    def take(self, version: int, round_number: int) -> Taken | None:
        """The next update's samples for a model at `version`, or None while there are too few.

        Groups with a sample staler than max_staleness are dropped and counted first.
        """
        self._drop_stale(version)
        wanted = len(self._samples) if self._budget is None else self._budget
        if not wanted or len(self._samples) < wanted:
            return None
        taken, self._samples = self._samples[:wanted], self._samples[wanted:]
        return Taken(
            tuple(taken),
            tuple(version - sample.version for sample in taken),
            tuple(round_number - sample.group[0] for sample in taken),
        )

    def _drop_stale(self, version: int) -> None:
        size = self._group_size
        groups = [self._samples[i : i + size] for i in range(0, len(self._samples), size)]
        fresh = [
            group
            for group in groups
            if max(version - sample.version for sample in group) <= self._max_staleness
        ]
        self.dropped += size * (len(groups) - len(fresh))
        self._samples = [sample for group in fresh for sample in group]

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {
            "dropped": self.dropped,
            "samples": [dataclasses.asdict(sample) for sample in self._samples],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` gave, JSON's lists in place of tuples included."""
        self.dropped = state["dropped"]
        self._samples = [_sample(record) for record in state["samples"]]


def _sample(record: Mapping[str, Any]) -> TokenSample:
    allowed = record["allowed"]
    if allowed is not None:
        allowed = tuple(None if ids is None else tuple(ids) for ids in allowed)
    round_number, start, seat = record["group"]
    return TokenSample(
        prompt_ids=tuple(record["prompt_ids"]),
        completion_ids=tuple(record["completion_ids"]),
        mask=tuple(record["mask"]),
        logprobs=tuple(record["logprobs"]),
        allowed=allowed,
        turns=tuple((start, stop) for start, stop in record["turns"]),
        rewards=tuple(record["rewards"]),
        episode_return=record["episode_return"],
        group=(round_number, start, seat),
        version=record["version"],
        advantages=None if record["advantages"] is None else tuple(record["advantages"]),
        states=None if record["states"] is None else tuple(map(tuple, record["states"])),
    )
