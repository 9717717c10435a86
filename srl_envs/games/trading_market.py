"""Rules of trading: offers, answers, deliveries and reputations. All amounts are whole numbers.

A deal takes up to three rounds, and a phase in which no agent can act is skipped:

- offers: each agent may offer one other agent some units of one good for some units of another.
- answers: an agent that received offers accepts one of them, or declines all.
- deliveries: a party to an agreement delivers all that it owes, or passes and breaks its promise.
  With binding agreements, goods are exchanged when an offer is accepted.

An agent can always deliver, because it can only offer units in its stock, and only accept an offer
that it can pay for in addition to its own offer. Goods are neither created nor destroyed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from srl_envs.validation import check_choice, set_fields, whole_number

GOODS = ("coin", "apple", "bread", "cloth", "dish", "egg", "fig", "grape")
"""Names of the goods, of which the first `goods` are traded. All agents value coins equally."""
AGREEMENTS = ("promised", "binding")
OFFERS, ANSWERS, DELIVERIES = 0, 1, 2
PHASES = ("offers", "answers", "deliveries")

PASS, DECLINE, DELIVER, FIRST_ACCEPT = 0, 1, 2, 3
"""Actions. From FIRST_ACCEPT, one action per other agent (in agent order) accepts its offer. The
actions from `TradingRules.first_offer` make the offers of `TradingRules.offers`."""

COIN_VALUE = 3  # value of a coin to every agent
COINS = 8  # coins of every agent at the start
COMMON_VALUES = (1, 3)  # smallest and greatest value that is drawn for a unit of a good
FAVORITE_VALUES = (8, 9)  # the same for an agent's favorite good
MOST_UNITS = 4  # greatest stock of each other good at the start; the smallest is 0

MOST_AGENTS, MOST_QUANTITY = 10, 5
LARGEST_VALUE, LARGEST_STOCK = 9, 20  # bounds of values and of an agent's stock in observations

UNANSWERED, ACCEPTED, DECLINED = 0, 1, -1


class Offer(NamedTuple):
    """Offer of one agent to another; `give` and `want` are indices of GOODS."""

    slot: int
    """Index of the receiver in the list of all agents except the maker of the offer."""
    give: int
    give_units: int
    want: int
    want_units: int


@dataclass(frozen=True)
class TradingRules:
    """Size of a market and meaning of its actions, by the arguments of SocialTrading.

    Invalid arguments raise EnvConfigError.
    """

    num_agents: int = 6
    goods: int = 3
    max_quantity: int = 2
    agreements: str = "promised"

    def __post_init__(self) -> None:
        set_fields(
            self,
            num_agents=whole_number("num_agents", self.num_agents, low=2, high=MOST_AGENTS),
            goods=whole_number("goods", self.goods, low=3, high=len(GOODS)),
            max_quantity=whole_number("max_quantity", self.max_quantity, 1, MOST_QUANTITY),
            agreements=check_choice("agreements", self.agreements, AGREEMENTS),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return GOODS[: self.goods]

    @property
    def binding(self) -> bool:
        return self.agreements == "binding"

    @property
    def first_offer(self) -> int:
        return FIRST_ACCEPT + self.num_agents - 1

    @cached_property
    def offers(self) -> tuple[Offer, ...]:
        """Offers of the actions from `first_offer` on, in action order."""
        units, goods = range(1, self.max_quantity + 1), range(self.goods)
        return tuple(
            Offer(slot, give, given, want, wanted)
            for slot in range(self.num_agents - 1)
            for give in goods
            for want in goods
            if want != give
            for given in units
            for wanted in units
        )

    @property
    def num_actions(self) -> int:
        return self.first_offer + len(self.offers)

    def others(self, agent: int) -> tuple[int, ...]:
        return tuple(other for other in range(self.num_agents) if other != agent)

    def draw(self, generator: np.random.Generator) -> tuple[list[list[int]], list[list[int]]]:
        """Draw a market; return its values per unit and its stocks, two lists [agent][good].

        Every agent has one favorite good, which is not the coin. The numbers of agents with the
        same favorite differ by at most one.
        """
        shape = (self.num_agents, self.goods)
        values = generator.integers(COMMON_VALUES[0], COMMON_VALUES[1] + 1, shape)
        values[:, 0] = COIN_VALUE
        agents = generator.permutation(self.num_agents)
        kinds = self.goods - 1
        favorites = (np.arange(self.num_agents) + generator.integers(kinds)) % kinds + 1
        low, high = FAVORITE_VALUES
        values[agents, favorites] = generator.integers(low, high + 1, self.num_agents)
        stocks = generator.integers(0, MOST_UNITS + 1, shape)
        stocks[:, 0] = COINS
        return values.tolist(), stocks.tolist()


def possible_surplus(values: Sequence[Sequence[int]], stocks: Sequence[Sequence[int]]) -> int:
    """Return the greatest total gain of any reallocation, given values and stocks [agent][good]."""
    best: int = sum(
        max(worth) * sum(units)
        for worth, units in zip(zip(*values, strict=True), zip(*stocks, strict=True), strict=True)
    )
    return best - sum(map(worth_of, values, stocks))


def worth_of(values: Sequence[int], stock: Sequence[int]) -> int:
    """Return the value of a stock, given the value per unit of each good."""
    return sum(value * units for value, units in zip(values, stock, strict=True))


class Market:
    """State of one episode, which changes the given `stocks` in place.

    Lists are in agent order, except `agreed` and `outcome`.
    """

    def __init__(
        self, rules: TradingRules, values: list[list[int]], stocks: list[list[int]]
    ) -> None:
        size = rules.num_agents
        self.rules, self.values, self.stocks = rules, values, stocks
        self.others = [rules.others(agent) for agent in range(size)]
        self.first_stocks = [stock.copy() for stock in stocks]
        self.surplus = possible_surplus(values, stocks)
        self.phase = OFFERS
        self.offers: list[Offer | None] = [None] * size  # latest offer of each agent
        self.answers = [UNANSWERED] * size  # answers to these offers
        self.incoming: list[list[int]] = [[] for _ in range(size)]
        """Agents whose offers an agent can answer now."""
        self.agreed: list[tuple[int, int]] = []
        """Pairs (maker, taker) of the agreements that are due now."""
        self.outcome: list[tuple[int, int, bool]] = []
        """Triples (receiver, giver, kept), one per promise that was due in the last round."""
        self.kept = [0] * size
        self.broken = [0] * size
        self.deals = [[0] * size for _ in range(size)]
        """Number of agreements of each pair of agents that both have kept."""

    def reputation(self, agent: int) -> float:
        """Return the reputation (kept + 1) / (kept + broken + 2), with numbers of promises."""
        kept, broken = self.kept[agent], self.broken[agent]
        return (kept + 1) / (kept + broken + 2)

    def can_accept(self, agent: int, maker: int) -> bool:
        """Return True if the agent can pay for `maker`'s offer plus the agent's own, if any."""
        offer, own = self.offers[maker], self.offers[agent]
        assert offer is not None
        spare = self.stocks[agent][offer.want]
        if own is not None and own.give == offer.want:
            spare -= own.give_units
        return spare >= offer.want_units

    def parties(self) -> set[int]:
        """Return the numbers of the agents that owe a delivery in this round."""
        return {agent for pair in self.agreed for agent in pair}

    def gain_of(self, agent: int, maker: int) -> int:
        """Return the agent's gain in value from accepting `maker`'s offer, if both deliver."""
        offer, values = self.offers[maker], self.values[agent]
        assert offer is not None
        return values[offer.give] * offer.give_units - values[offer.want] * offer.want_units

    def play(self, chosen: Sequence[int]) -> tuple[list[int], list[bool]]:
        """Play one round, one action per agent; change stocks, offers, promises and phase.

        Returns the gain of each agent by its own values, and a bool per agent, True if its action
        was illegal and therefore counted as a pass.
        """
        self.outcome = []
        if self.phase == OFFERS:
            return [0] * len(chosen), self._offer(chosen)
        if self.phase == ANSWERS:
            return self._answer(chosen)
        parties = self.parties()
        illegal = [
            action != PASS and (action != DELIVER or agent not in parties)
            for agent, action in enumerate(chosen)
        ]
        return self._carry_out({agent for agent in parties if chosen[agent] == DELIVER}), illegal

    def _offer(self, chosen: Sequence[int]) -> list[bool]:
        first, offers = self.rules.first_offer, self.rules.offers
        size = len(chosen)
        self.offers, self.answers = [None] * size, [UNANSWERED] * size
        self.incoming = [[] for _ in range(size)]
        illegal = []
        for agent, action in enumerate(chosen):
            if action >= first:
                offer = offers[action - first]
                legal = self.stocks[agent][offer.give] >= offer.give_units
                if legal:
                    self.offers[agent] = offer
                    self.incoming[self.others[agent][offer.slot]].append(agent)
                    self.phase = ANSWERS
            else:
                legal = action == PASS
            illegal.append(not legal)
        return illegal

    def _answer(self, chosen: Sequence[int]) -> tuple[list[int], list[bool]]:
        """Play answers; return each agent's gain (0 unless binding), True per illegal action."""
        illegal = []
        for agent, (action, makers) in enumerate(zip(chosen, self.incoming, strict=True)):
            legal = action == PASS
            if action == DECLINE and makers:
                legal = True
                for maker in makers:
                    self.answers[maker] = DECLINED
            elif FIRST_ACCEPT <= action < self.rules.first_offer:
                accepted = self.others[agent][action - FIRST_ACCEPT]
                legal = accepted in makers and self.can_accept(agent, accepted)
                if legal:
                    for maker in makers:
                        self.answers[maker] = ACCEPTED if maker == accepted else DECLINED
                    self.agreed.append((accepted, agent))
            illegal.append(not legal)
        self.incoming = [[] for _ in chosen]
        self.phase = DELIVERIES if self.agreed else OFFERS
        if self.rules.binding and self.agreed:
            return self._carry_out(self.parties()), illegal
        return [0] * len(chosen), illegal

    def _carry_out(self, delivering: set[int]) -> list[int]:
        """Settle `agreed`, where only `delivering` keep their promises; return gains by agent."""
        gains = [0] * self.rules.num_agents
        for maker, taker in self.agreed:
            offer = self.offers[maker]
            assert offer is not None
            for giver, receiver, good, units in (
                (maker, taker, offer.give, offer.give_units),
                (taker, maker, offer.want, offer.want_units),
            ):
                kept = giver in delivering
                self.outcome.append((receiver, giver, kept))
                if not kept:
                    self.broken[giver] += 1
                    continue
                self.kept[giver] += 1
                self.stocks[giver][good] -= units
                self.stocks[receiver][good] += units
                gains[giver] -= self.values[giver][good] * units
                gains[receiver] += self.values[receiver][good] * units
            if maker in delivering and taker in delivering:
                self.deals[maker][taker] += 1
                self.deals[taker][maker] += 1
        self.agreed = []
        self.phase = OFFERS
        return gains
