"""Rules of negotiation: proposals, acceptance and the quality of agreements.

Agents settle several issues at once. Each agent has private points for every option of every issue
(its favorite deal has 100 points) and a reservation: its points without a deal. Utility is points /
100.

- "alternating": one agent moves per round, in turn; the first is drawn. It proposes (which replaces
  the open proposal), accepts the open proposal, walks away, or passes. There is a deal once all
  other agents have accepted.
- "simultaneous", for two agents: both move in every round. There is a deal if an agent accepts the
  other's latest proposal, or if both proposals are equal.
"""

from __future__ import annotations

import math
import operator
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
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
"""Default issues: name -> options."""
OFFERS = ("alternating", "simultaneous")
PASS, ACCEPT, WALK_AWAY, FIRST_PROPOSAL = 0, 1, 2, 3
"""Actions. FIRST_PROPOSAL + i proposes `deals[i]` of NegotiationRules."""

POINTS = 100  # points of an agent's favorite deal
RESERVATIONS = (10, 40)  # smallest and greatest reservation that is drawn, in points
MOST_AGENTS, MOST_PROPOSALS = 6, 1000
MOST_LETTERS = 200  # letters of all issues and options

_NAME = re.compile("[a-z][a-z0-9]*")
Points = tuple[tuple[int, ...], ...]
"""Points of one agent, indexed [issue][option]."""


def checked_issues(issues: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return (issue, options) pairs; raise EnvConfigError if `issues` is empty or invalid.

    Names are lower-case letters and digits, a letter first. An issue has 2 or more different
    options. Together, issues have at most MOST_PROPOSALS combinations and MOST_LETTERS characters.
    """
    if not isinstance(issues, Mapping) or not issues:
        raise EnvConfigError(f"issues must be a mapping issue -> options, got {shown(issues)}")
    checked = tuple((issue, entries_of("options", options)) for issue, options in issues.items())
    for issue, options in checked:
        names = all(isinstance(word, str) and _NAME.fullmatch(word) for word in (issue, *options))
        if not names or len(options) < 2 or len(set(options)) < len(options):
            raise EnvConfigError(
                f"issues[{issue!r}] must be two or more different options of lower-case letters "
                f"and digits, got {shown(options)}"
            )
    combinations = math.prod(len(options) for _, options in checked)
    whole_number("the number of combinations of issues", combinations, 2, MOST_PROPOSALS)
    letters = sum(len(word) for issue, options in checked for word in (issue, *options))
    whole_number("the number of letters of issues", letters, 1, MOST_LETTERS)
    return checked


@dataclass(frozen=True)
class NegotiationRules:
    """Parameters (SocialNegotiation's arguments), and the deals and points that follow from them.

    `issues` must be a result of `checked_issues`. Invalid other fields raise EnvConfigError.
    """

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
                f"num_agents must be 2 with offers='simultaneous', got {self.num_agents}"
            )

    @cached_property
    def deals(self) -> tuple[tuple[int, ...], ...]:
        """All deals in action order: tuples with the number of the option of each issue."""
        return tuple(product(*(range(len(options)) for _, options in self.issues)))

    @cached_property
    def flags(self) -> list[array[float]]:
        """One float32 array per deal: 1 for each of its options, else 0, issue by issue."""
        return [
            array(
                "f",
                [
                    option == chosen
                    for (_, options), chosen in zip(self.issues, deal, strict=True)
                    for option in range(len(options))
                ],
            )
            for deal in self.deals
        ]

    @property
    def num_actions(self) -> int:
        return FIRST_PROPOSAL + len(self.deals)

    def named(self, deal: int) -> dict[str, str]:
        """Return the mapping issue -> option of `deals[deal]`."""
        return {
            issue: options[chosen]
            for (issue, options), chosen in zip(self.issues, self.deals[deal], strict=True)
        }

    def draw(self, generator: np.random.Generator) -> tuple[list[Points], list[int]]:
        """Draw an episode; return points [agent][issue][option] and reservations [agent].

        100 points per agent are split among the issues at random. Points of an issue's options rise
        evenly from 0 to its share, from the first option to the last or in reverse. Per issue,
        an agent has the reverse direction of the agent before it with probability `conflict`.
        Reservations are whole numbers, from the first to the second of RESERVATIONS.
        """
        # Drawing single integers takes less time than drawing a small array.
        sizes = [len(options) for _, options in self.issues]
        count = len(sizes)
        rising = [number < 0.5 for number in generator.random(count).tolist()]
        points = []
        for _ in range(self.num_agents):
            cuts = sorted(int(generator.integers(POINTS + 1)) for _ in range(count - 1))
            shares = map(operator.sub, [*cuts, POINTS], [0, *cuts])
            points.append(tuple(map(_ramp, shares, sizes, rising)))
            reverse = [number < self.conflict for number in generator.random(count).tolist()]
            rising = list(map(operator.ne, rising, reverse))
        low, high = RESERVATIONS
        return points, [int(generator.integers(low, high + 1)) for _ in range(self.num_agents)]


@lru_cache(maxsize=1024)
def _ramp(share: int, options: int, rising: bool) -> tuple[int, ...]:
    steps = tuple(round(share * step / (options - 1)) for step in range(options))
    return steps if rising else steps[::-1]


def _worths(points: Points) -> list[int]:
    worths = [0]
    for options in points:
        worths = [worth + added for worth in worths for added in options]
    return worths


class Bargain:
    """State of one episode, whose constructor draws the first mover of alternating offers.

    Lists are in agent order; utilities are in points. `agreed` and the entries of `proposals` are
    indices of `NegotiationRules.deals`, or None.
    """

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
        self.utilities = list(zip(*map(_worths, points), strict=True))
        """Utilities of all agents, by deal."""
        self.alternating = rules.offers == "alternating"
        self.mover = int(generator.integers(size)) if self.alternating else -1
        """Number of the agent that moves next; -1 if all move at once."""
        self.proposals: list[int | None] = [None] * size  # latest proposal of each agent
        self.stands = [False] * size
        """Marks of the agents whose proposal can be accepted now."""
        self.consents = [False] * size
        """Marks of the agents that made or accepted the open proposal (alternating offers)."""
        self.agreed: int | None = None
        self.walked_away = False

    def may_move(self, agent: int) -> bool:
        return not self.alternating or agent == self.mover

    def may_accept(self, agent: int) -> bool:
        """Return True if the agent may move and can accept another agent's proposal now."""
        if not self.may_move(agent) or self.consents[agent]:
            return False
        return sum(self.stands) > self.stands[agent]

    def play(self, chosen: Sequence[int]) -> list[bool]:
        """Play one round, one action per agent; change proposals, consents, mover and outcome.

        A legal walk-away prevents a deal. With simultaneous offers, equal proposals are a deal,
        and if both agents accept at once, one of the two deals is drawn. Returns a bool per
        agent, True if the action was illegal and counted as a pass.
        """
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
                # If each accepts the other's proposal, one of the two is drawn.
                drawn = int(self._generator.integers(2)) if len(accepted) == 2 else 0
                self.agreed = accepted[drawn]
            elif None not in self.proposals and self.proposals[0] == self.proposals[1]:
                self.agreed = self.proposals[0]
        return illegal


def assessment(
    utilities: Sequence[tuple[int, ...]], reservations: Sequence[int], agreed: int | None
) -> dict[str, Any]:
    """Return measures of an outcome's quality, undiscounted.

    Args:
        utilities: Points by deal, then by agent: `utilities[deal][agent]`.
        reservations: Points of each agent without a deal.
        agreed: Index of the deal in `utilities`, or None without a deal.

    Returns:
        - `utilities`: points / 100 of each agent.
        - `pareto_efficient`: True unless a deal is better for an agent and worse for none.
        - `welfare_share`: sum of utilities / greatest sum of a deal or of the reservations.
        - `nash_product`: product of the gains over the reservations, in points / 100, or 0 if an
          agent has no gain.
        - `nash_share`: `nash_product` / greatest product of a deal.
        - `individually_rational`: a bool per agent, True with at least the reservation.
        - Shares are None if the divisor is 0.
    """
    ends = tuple(reservations) if agreed is None else utilities[agreed]
    products = [1] * (len(utilities) + 1)
    for worths, least in zip(zip(*utilities, ends, strict=True), reservations, strict=True):
        gains = zip(products, worths, strict=True)
        products = [product * (w - least) if w > least else 0 for product, w in gains]
    *products, reached = products
    best = max(products)
    greatest = max(map(sum, (*utilities, reservations)))
    dominated = any(all(map(operator.ge, deal, ends)) for deal in filter(ends.__lt__, utilities))
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
