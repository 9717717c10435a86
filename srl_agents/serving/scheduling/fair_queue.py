"""Weighted fair queueing: the waiting requests of several owners, and who is next."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
Shares = Callable[[Collection[str]], Mapping[str, float]]
"""Owners that wait -> the share of each, positive, one in sum."""


def equal_shares(owners: Collection[str]) -> dict[str, float]:
    """The same share for each owner."""
    return dict.fromkeys(owners, 1 / len(owners))


def shares_by_score(
    owners: Collection[str], scores: Mapping[str, float], temperature: float, floor: float
) -> dict[str, float]:
    """floor / n + (1 - floor) * softmax(scores / temperature), for n owners.

    The part `floor` of all capacity is shared evenly, so that nobody starves. An owner without a
    score has the mean of the others'.
    """
    known = [scores[owner] for owner in owners if owner in scores]
    unknown = sum(known) / len(known) if known else 0.0
    logits = {owner: scores.get(owner, unknown) / temperature for owner in owners}
    highest = max(logits.values())
    odds = {owner: math.exp(logit - highest) for owner, logit in logits.items()}
    total = sum(odds.values())
    return {owner: floor / len(odds) + (1 - floor) * odd / total for owner, odd in odds.items()}


@dataclass
class _Flow(Generic[T]):
    """One owner's queue."""

    waiting: deque[T] = field(default_factory=deque)
    served: float = 0.0
    """Virtual time: cost / share, summed over what was taken; the next one's start tag."""


class FairQueue(Generic[T]):
    """Queues of several owners, of which the one furthest behind its share is next.

    Start-time fair queueing (Goyal, Vin and Cheng 1996) where several are served at once, SFQ(D)
    (Jin, Chase and Kaur 2004): of the owners that wait, the one with the smallest start tag is
    next, and an owner that comes back after a pause starts at the tag of the item taken last: it
    saves nothing up. With tokens as costs this is the counter of Sheng et al. 2024, "Fairness in
    Serving Large Language Models", alg. 2. Two owners that both wait differ in cost / share by no
    more than their two largest items.
    """

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._flows: dict[str, _Flow[T]] = {}
        self._now = 0.0  # virtual: the start tag of the item taken last

    def __len__(self) -> int:
        return sum(len(flow.waiting) for flow in self._flows.values())

    def items(self) -> list[T]:
        """All that waits."""
        return [item for flow in self._flows.values() for item in flow.waiting]

    def waiting(self, owner: str) -> Sequence[T]:
        """What waits of an owner, the oldest first."""
        flow = self._flows.get(owner)
        return flow.waiting if flow else ()

    def push(self, owner: str, item: T) -> None:
        """Put an item behind its owner's others."""
        self._active(owner).waiting.append(item)

    def put_back(self, owner: str, item: T, charge: float) -> None:
        """Put an item that was taken and not served before its owner's others.

        `charge` is what `take` returned, which the owner is given back.
        """
        flow = self._active(owner)
        flow.waiting.appendleft(item)
        flow.served -= charge

    def next_owner(self) -> str:
        """Who is next; raises ValueError where nothing waits."""
        return min(self._waiting_flows(), key=lambda owner: self._flows[owner].served)

    def take(self, owner: str, item: T, cost: float) -> float:
        """Take an item out to be served; returns what its owner is charged, in virtual time."""
        share = self._shares(self._waiting_flows())[owner]
        flow = self._flows[owner]
        flow.waiting.remove(item)
        self._now = max(self._now, flow.served)
        flow.served += cost / share
        return cost / share

    def remove(self, owner: str, item: T) -> None:
        """Take an item out that will not be served."""
        self._flows[owner].waiting.remove(item)

    def _waiting_flows(self) -> list[str]:
        return [owner for owner, flow in self._flows.items() if flow.waiting]

    def _active(self, owner: str) -> _Flow[T]:
        flow = self._flows.setdefault(owner, _Flow())
        if not flow.waiting:
            flow.served = max(flow.served, self._now)
        return flow
