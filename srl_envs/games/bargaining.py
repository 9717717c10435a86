"""Rules of negotiation, without agents' names, text or spaces.

Agents settle several issues at once. Each has private points for every option, 100 for the options
it likes best, and a reservation: what it keeps without a deal. Utility is points / 100.

"alternating": one agent moves at a time, in turn from a first one that is drawn. It proposes, which
puts its proposal in the place of the one that stands, or accepts the one that stands, walks away
or passes. Once all others have accepted, there is a deal. "simultaneous", for two: both move every
round; a deal is made by accepting the other's latest proposal, or by proposing the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.validation import (
    check_choice,
    entries_of,
    number_between,
    set_fields,
    shown,
    whole_number,
)

ISSUES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "price": ("low", "middle", "high"),
        "delivery": ("early", "midway", "late"),
        "warranty": ("none", "short", "long"),
    }
)
"""Settled where no issues are given: name -> options."""
OFFERS = ("alternating", "simultaneous")
PASS, ACCEPT, WALK_AWAY, FIRST_PROPOSAL = 0, 1, 2, 3
"""Actions. From FIRST_PROPOSAL come the proposals: all combinations, the last issue the fastest."""

POINTS = 100  # of an agent's favourite deal
RESERVATIONS = (10, 40)  # points, drawn; from, to
MOST_AGENTS, MOST_PROPOSALS, MOST_WORDS = 6, 1000, 200  # MOST_WORDS: letters of all names together

_NAME = re.compile("[a-z][a-z0-9]*")
Points = tuple[tuple[int, ...], ...]
"""One agent's points: (issue, option)."""


def checked_issues(issues: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the issues as tuples; raise EnvConfigError for invalid ones."""
    if not isinstance(issues, Mapping) or not issues:
        raise EnvConfigError(f"issues must be a mapping issue -> options, got {shown(issues)}")
    checked = tuple((issue, entries_of("options", options)) for issue, options in issues.items())
    for issue, options in checked:
        names = all(isinstance(word, str) and _NAME.fullmatch(word) for word in (issue, *options))
        if not names or len(options) < 2 or len(set(options)) < len(options):
            raise EnvConfigError(
                f"issue {issue!r} needs two or more different options, all of small letters and "
                f"digits, got {shown(options)}"
            )
    combinations = math.prod(len(options) for _, options in checked)
    whole_number("the number of combinations of all options", combinations, 2, MOST_PROPOSALS)
    letters = sum(len(word) for issue, options in checked for word in (issue, *options))
    whole_number("the number of letters in all issues", letters, 1, MOST_WORDS)
    return checked


@dataclass(frozen=True)
class NegotiationRules:
    """Parameters of a negotiation."""

    num_agents: int = 2
    issues: tuple[tuple[str, tuple[str, ...]], ...] = tuple(ISSUES.items())
    offers: str = "alternating"
    discount: float = 0.95
    conflict: float = 0.75

    def __post_init__(self) -> None:
        set_fields(
            self,
            num_agents=whole_number("num_agents", self.num_agents, low=2, high=MOST_AGENTS),
            offers=check_choice("offers", self.offers, OFFERS),
            discount=number_between("discount", self.discount, 0.0, 1.0),
            conflict=number_between("conflict", self.conflict, 0.0, 1.0),
        )
        if self.offers == "simultaneous" and self.num_agents != 2:
            raise EnvConfigError(
                f"offers='simultaneous' is for two agents, got num_agents={self.num_agents}: "
                "use offers='alternating'"
            )

    @cached_property
    def deals(self) -> tuple[tuple[int, ...], ...]:
        """All combinations, an option number per issue, in the order of the proposals."""
        return tuple(product(*(range(len(options)) for _, options in self.issues)))

    @property
    def num_actions(self) -> int:
        return FIRST_PROPOSAL + len(self.deals)

    def named(self, deal: int) -> dict[str, str]:
        """Return a combination as issue -> option."""
        return {
            issue: options[chosen]
            for (issue, options), chosen in zip(self.issues, self.deals[deal], strict=True)
        }

    def draw(self, generator: np.random.Generator) -> tuple[list[Points], list[int]]:
        """Draw points and reservations, per agent.

        An agent's 100 points are cut among the issues at random places. An issue's options rise
        evenly from 0 to its share, from first to last or from last to first; an agent's direction
        is against that of the agent before it with probability `conflict`.
        """
        count = len(self.issues)
        rising = generator.random(count) < 0.5
        points = []
        for _ in range(self.num_agents):
            cuts = np.sort(generator.integers(0, POINTS + 1, count - 1))
            shares = np.diff(cuts, prepend=0, append=POINTS)
            points.append(
                tuple(
                    _ramp(int(share), len(options), bool(up))
                    for share, (_, options), up in zip(shares, self.issues, rising, strict=True)
                )
            )
            rising = rising ^ (generator.random(count) < self.conflict)
        low, high = RESERVATIONS
        return points, generator.integers(low, high + 1, self.num_agents).tolist()

    def checked_points(self, given: Sequence[Sequence[Sequence[int]]]) -> list[Points]:
        """Return `given` as points per agent, issue and option; raise EnvConfigError."""
        shape = [len(options) for _, options in self.issues]
        try:
            points = [tuple(map(_points, own)) for own in given]
        except TypeError:
            points = []
        if [list(map(len, own)) for own in points] != [shape] * self.num_agents:
            raise EnvConfigError(
                f"points must hold, for each of {self.num_agents} agents and each issue, the "
                f"points of its {tuple(shape)} options, got {shown(given)}"
            )
        for own in points:
            most = sum(map(max, own))
            whole_number("the points of an agent's favourite deal", most, low=0, high=POINTS)
        return points

    def checked_reservations(self, given: Sequence[int]) -> list[int]:
        """Return `given` as points per agent; raise EnvConfigError."""
        points = _points(entries_of("reservations", given))
        if len(points) != self.num_agents:
            raise EnvConfigError(
                f"reservations must be {self.num_agents} numbers, got {shown(given)}"
            )
        return list(points)

    def checked_first(self, given: int) -> int:
        """Return `given` as the agent that moves first; raise EnvConfigError."""
        if self.offers != "alternating":
            raise EnvConfigError(
                f"first is for alternating offers, got {shown(given)}: leave it out"
            )
        return whole_number("first", given, low=0, high=self.num_agents - 1)


def _points(given: Sequence[Any]) -> tuple[int, ...]:
    return tuple(whole_number("points", entry, low=0, high=POINTS) for entry in given)


def _ramp(share: int, options: int, rising: bool) -> tuple[int, ...]:
    steps = tuple(round(share * step / (options - 1)) for step in range(options))
    return steps if rising else steps[::-1]


class Bargain:
    """One episode's state. Lists are in agent order, utilities in points."""

    def __init__(
        self,
        rules: NegotiationRules,
        points: Sequence[Points],
        reservations: list[int],
        generator: np.random.Generator,
    ) -> None:
        size = rules.num_agents
        self.rules, self.points, self.reservations = rules, points, reservations
        self._generator = generator
        self.utilities = [
            tuple(sum(own[issue][option] for issue, option in enumerate(deal)) for own in points)
            for deal in rules.deals
        ]
        """Worth of each deal to each agent."""
        self.alternating = rules.offers == "alternating"
        self.mover = int(generator.integers(size)) if self.alternating else -1
        """The agent that moves now; -1 if all move at once."""
        self.proposals: list[int | None] = [None] * size  # the latest of each agent
        self.stands = [False] * size
        """Per agent: its proposal can be accepted now."""
        self.consents = [False] * size
        """Per agent: it supports the current proposal, as its maker does (alternating)."""
        self.agreed: int | None = None
        self.walked_away = False

    def may_move(self, agent: int) -> bool:
        """Return True if the agent may do more than pass."""
        return not self.alternating or agent == self.mover

    def may_accept(self, agent: int) -> bool:
        """Return True if another agent's proposal is open that the agent has not accepted yet."""
        others = any(stands for maker, stands in enumerate(self.stands) if maker != agent)
        return self.may_move(agent) and others and not self.consents[agent]

    def play(self, chosen: Sequence[int]) -> list[bool]:
        """Play one round; return which actions were illegal, and so counted as a pass."""
        illegal = [
            action != PASS
            and not (self.may_accept(agent) if action == ACCEPT else self.may_move(agent))
            for agent, action in enumerate(chosen)
        ]
        moves = [PASS if wrong else act for act, wrong in zip(chosen, illegal, strict=True)]
        if WALK_AWAY in moves:
            self.walked_away = True
        elif self.alternating:
            agent, move = self.mover, moves[self.mover]
            if move == ACCEPT:
                self.consents[agent] = True
                if all(self.consents):
                    self.agreed = self.proposals[self.stands.index(True)]
            elif move >= FIRST_PROPOSAL:
                self.proposals[agent] = move - FIRST_PROPOSAL
                self.stands = [maker == agent for maker in range(len(moves))]
                self.consents = self.stands.copy()
            self.mover = (agent + 1) % len(moves)
        else:
            accepted = [self.proposals[1 - agent] for agent in (0, 1) if moves[agent] == ACCEPT]
            for agent, move in enumerate(moves):
                if move >= FIRST_PROPOSAL:
                    self.proposals[agent], self.stands[agent] = move - FIRST_PROPOSAL, True
            if accepted:
                # If each has accepted the other's proposal, the lot decides.
                drawn = int(self._generator.integers(2)) if len(accepted) == 2 else 0
                self.agreed = accepted[drawn]
            elif None not in self.proposals and self.proposals[0] == self.proposals[1]:
                self.agreed = self.proposals[0]
        return illegal


def assessment(
    utilities: Sequence[Sequence[int]], reservations: Sequence[int], agreed: int | None
) -> dict[str, Any]:
    """Return the quality of an outcome for all, undiscounted.

    Args:
        utilities: Points of each agent, per deal.
        reservations: Points of each agent without a deal.
        agreed: The deal, None if there is none.

    Returns:
        `utilities` per agent. `pareto_efficient`: no deal is better for one and worse for none.
        `welfare_share`: sum of utilities over the greatest of any deal or none. `nash_product`:
        product of the gains over the reservations, losses counting as 0. `nash_share`: over the
        greatest of any deal, None if that is 0. `individually_rational`, per agent: it has at least
        its reservation.
    """

    def product_of_gains(deal: Sequence[int]) -> int:
        pairs = zip(deal, reservations, strict=True)
        return math.prod(max(0, worth - least) for worth, least in pairs)

    ends = reservations if agreed is None else utilities[agreed]
    reached, best = product_of_gains(ends), max(map(product_of_gains, utilities))
    greatest = max(map(sum, (*utilities, reservations)))
    dominated = any(
        all(new >= old for new, old in zip(deal, ends, strict=True)) and tuple(deal) != tuple(ends)
        for deal in utilities
    )
    return {
        "utilities": [end / POINTS for end in ends],
        "pareto_efficient": not dominated,
        "welfare_share": sum(ends) / greatest if greatest else None,
        "nash_product": reached / POINTS ** len(ends),
        "nash_share": reached / best if best else None,
        "individually_rational": [
            end >= least for end, least in zip(ends, reservations, strict=True)
        ],
    }
