"""Sample buffer: samples awaiting an update, and the batch size that triggers one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_train.data.samples import TokenSample, in_groups


@dataclass(frozen=True)
class UpdateBatch:
    """The samples of one update, and how old they are."""

    samples: tuple[TokenSample, ...]
    staleness: tuple[int, ...]
    """Per sample: the model's own updates since it sampled (0 = on-policy)."""
    age: tuple[int, ...]
    """Per sample: rounds since it was played, while the other players may have learned."""


class SampleBuffer:
    """Whole groups that wait for an update, each agent's first in, first out.

    Where a budget does not take everything, the agents take turns: the next group is of the one
    that had the fewest so far. So all are trained alike, however much becomes too stale.
    """

    def __init__(self, group_size: int, budget: int | None, max_staleness: int) -> None:
        """`budget` samples make an update; None takes whatever one round brought, the oldest
        first."""
        self._group_size = group_size
        self._budget = budget
        self._max_staleness = max_staleness
        self._samples: list[TokenSample] = []
        self._taken: Counter[str] = Counter()
        """Agent -> groups that became part of updates, so far."""
        self.dropped: Counter[str] = Counter()
        """Agent -> samples thrown away as too stale, so far."""

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, samples: Sequence[TokenSample]) -> None:
        """Append whole groups."""
        self._samples.extend(samples)

    def take(self, version: int, round_number: int) -> UpdateBatch | None:
        """The next update's samples for a model at `version`, or None while there are too few.

        Groups with a sample staler than max_staleness are dropped and counted first.
        """
        self._drop_stale(version)
        if len(self._samples) < (self._budget or 1):
            return None
        groups = in_groups(self._samples, self._group_size)
        if self._budget is None:
            chosen = self._of_oldest_round(groups)
        else:
            chosen = self._in_turn(groups, self._budget // self._group_size)
        taken = [sample for number in chosen for sample in groups[number]]
        kept = [group for number, group in enumerate(groups) if number not in set(chosen)]
        self._samples = [sample for group in kept for sample in group]
        return UpdateBatch(
            tuple(taken),
            tuple(version - sample.version for sample in taken),
            tuple(round_number - sample.group[0] for sample in taken),
        )

    def _of_oldest_round(self, groups: Sequence[Sequence[TokenSample]]) -> list[int]:
        """The numbers of that round's groups."""
        oldest = min(group[0].group[0] for group in groups)
        chosen = [number for number, group in enumerate(groups) if group[0].group[0] == oldest]
        self._taken.update(_agent(groups[number]) for number in chosen)
        return chosen

    def _in_turn(self, groups: Sequence[Sequence[TokenSample]], count: int) -> list[int]:
        """The numbers of the next `count` groups, in the order in which they wait."""
        waiting: dict[str, list[int]] = {}
        for number, group in enumerate(groups):
            waiting.setdefault(_agent(group), []).append(number)
        chosen = []
        for _ in range(count):
            agents = [agent for agent, own in waiting.items() if own]
            next_up = min(agents, key=lambda agent: self._taken[agent])
            chosen.append(waiting[next_up].pop(0))
            self._taken[next_up] += 1
        return sorted(chosen)

    def _drop_stale(self, version: int) -> None:
        fresh: list[TokenSample] = []
        for group in in_groups(self._samples, self._group_size):
            if max(version - sample.version for sample in group) <= self._max_staleness:
                fresh += group
            else:
                self.dropped[_agent(group)] += len(group)
        self._samples = fresh

    def state(self) -> dict[str, Any]:
        """Plain data for a checkpoint."""
        return {
            "dropped": dict(self.dropped),
            "taken": dict(self._taken),
            "samples": [dataclasses.asdict(sample) for sample in self._samples],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` gave, JSON's lists in place of tuples included."""
        self.dropped, self._taken = Counter(state["dropped"]), Counter(state["taken"])
        self._samples = [
            TokenSample(**{name: _tuples(value) for name, value in record.items()})
            for record in state["samples"]
        ]


def _agent(group: Sequence[TokenSample]) -> str:
    return group[0].group[2]


def _tuples(value: Any) -> Any:
    """The same with tuples in place of JSON's lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
