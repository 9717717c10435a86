"""Trading: agents with private values exchange goods by offers and promises.

The rules of offers and deliveries are in trading_market.py. The reward of an agent is the change of
the value of its goods in this round, sum over goods of value per unit * change of its stock: a
whole number. Values and stocks are private and drawn at each reset. Reputations are public.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from srl_envs.games import base
from srl_envs.games.base import VectorLayout
from srl_envs.games.cheap_talk import MESSAGE_RULE, TalkingGame, message_lines
from srl_envs.games.trading_market import (
    ACCEPTED,
    ANSWERS,
    COIN_VALUE,
    DECLINE,
    DECLINED,
    DELIVER,
    DELIVERIES,
    FIRST_ACCEPT,
    LARGEST_STOCK,
    LARGEST_VALUE,
    OFFERS,
    PASS,
    PHASES,
    Market,
    TradingRules,
    worth_of,
)
from srl_envs.text import LISTED, ParseFailure, any_of, cost_of_unread, parse_statement, round_of

OBSERVATION_FIELDS = (
    "time",  # rounds played / max_cycles
    "phase",  # three flags: offers, answers or deliveries are due
    "last_reward",  # reward of the last round
    "own_reputation",  # (promises kept + 1) / (promises + 2)
    "own_stock",  # per good: units
    "own_value",  # per good: value per unit
    "own_offer_to",  # per other agent: 1 for the receiver of the latest offer
    "own_offer",  # per good: units that the offer would bring, below 0 for units that it costs
    "own_offer_answer",  # 1 accepted, -1 declined, 0 no answer
    "offer_to_you",  # per other agent and good: units that its offer would bring
    "offer_gain",  # per other agent: value that its offer would bring
    "agreed",  # per other agent: 1 if its offer was accepted and deliveries are due
    "reputation",  # per other agent
    "deals",  # per other agent: number of agreements that both have kept
    "word_kept",  # per other agent: 1 if it delivered to the agent in the last round, -1 if not
)

_OFFER = re.compile(
    "offers? ([0-9]{1,3}) ([a-z]{1,24}) for ([0-9]{1,3}) ([a-z]{1,24}) to ([a-z0-9_]{1,24})"
)
_ACCEPT = re.compile("accepts? ([a-z0-9_]{1,24})")
_COUNTED = 1e6  # upper bound of `deals`, which PettingZoo's tests require


def field_sizes(rules: TradingRules) -> dict[str, int]:
    """Return field -> its number of entries in a vector, in the order of OBSERVATION_FIELDS."""
    others, goods = rules.num_agents - 1, rules.goods
    return dict.fromkeys(OBSERVATION_FIELDS, others) | {
        "time": 1,
        "phase": 3,
        "last_reward": 1,
        "own_reputation": 1,
        "own_stock": goods,
        "own_value": goods,
        "own_offer": goods,
        "own_offer_answer": 1,
        "offer_to_you": others * goods,
    }


def bounds(rules: TradingRules) -> tuple[list[float], list[float]]:
    """Return the lower and the upper bounds of an observation vector, without words of `talk`."""
    units = rules.max_quantity
    # An agent is party to at most two agreements: its own offer and one that it accepted.
    gain = units * LARGEST_VALUE
    limits: dict[str, tuple[float, float]] = {
        "last_reward": (-2 * gain, 2 * gain),
        "own_stock": (0.0, rules.num_agents * LARGEST_STOCK),
        "own_value": (0.0, LARGEST_VALUE),
        "own_offer": (-units, units),
        "own_offer_answer": (-1.0, 1.0),
        "offer_to_you": (-units, units),
        "offer_gain": (-gain, gain),
        "word_kept": (-1.0, 1.0),
        "deals": (0.0, _COUNTED),
    }
    entries = [
        limits.get(name, (0.0, 1.0))
        for name, size in field_sizes(rules).items()
        for _ in range(size)
    ]
    return [low for low, _ in entries], [high for _, high in entries]


@lru_cache(maxsize=256)
def _actions(rules: TradingRules, agents: tuple[str, ...], agent: str) -> dict[str, int]:
    others, goods = [other for other in agents if other != agent], rules.names
    answers = (
        *("pass", "decline", "deliver"),
        *(f"accept {other}" for other in others),
        *(
            f"offer {offer.give_units} {goods[offer.give]} for {offer.want_units} "
            f"{goods[offer.want]} to {others[offer.slot]}"
            for offer in rules.offers
        ),
    )
    return {answer: action for action, answer in enumerate(answers)}


@dataclass(frozen=True)
class TradingView:
    """Text view of SocialTrading."""

    market: TradingRules
    agents: tuple[str, ...]
    rounds: int
    messages: bool = False
    default_action: int = PASS
    parse_penalty: float = 0.1

    @cached_property
    def _layout(self) -> VectorLayout:
        return VectorLayout(field_sizes(self.market))

    def rules(self, agent: str) -> str:
        if self.market.binding:
            procedure = "First all may offer, then answer; what is accepted changes hands at once."
        else:
            procedure = (
                "First all may offer, then answer, then deliver what they agreed. Who passes "
                "instead of delivering keeps the goods but breaks its word, and all see how well "
                "each keeps its word: (kept + 1) / (promised + 2)."
            )
        answers = self.answers(agent)
        if len(answers) > LISTED:
            deliver = () if self.market.binding else ("deliver",)
            accept = f"accept {self._others(agent)[0]}"
            answers = (self._an_offer(agent), accept, "decline", *deliver, "pass")
        cost = cost_of_unread(self.parse_penalty)
        talk = f" {MESSAGE_RULE}" if self.messages else ""
        return (
            f"You are {agent}, one of {len(self.agents)} traders of "
            f"{', '.join(self.market.names)}. Each values goods differently, but a coin is worth "
            f"{COIN_VALUE} to all. You earn what your goods gain in value "
            f"to you. {procedure} "
            f"An offer is for {self._allowed_units()} of each good. Offer only what you hold, and "
            "accept only what you can pay beside your own offer. Write alone on the last line "
            f"{any_of(answers)}.{cost}{talk}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        fields = self._layout.lists(observation)
        seen = dict(zip(OBSERVATION_FIELDS, fields, strict=True))
        phase, others, values = seen["phase"].index(1), self._others(agent), seen["own_value"]
        goods = list(zip(self.market.names, seen["own_stock"], values, strict=True))
        holdings = ", ".join(
            f"{stock:g} {good} (worth {value:g}{' each' if place == 0 else ''})"
            for place, (good, stock, value) in enumerate(goods)
        )
        parts = [
            f"{round_of(seen['time'][0], self.rounds)}.",
            f"Now {PHASES[phase]}.",
            f"You hold {holdings}.",
        ]
        if phase == OFFERS:
            dearest = [good for good, _, value in goods if value == max(values)]
            parts.append(f"You value {' and '.join(dearest)} most.")
        if seen["last_reward"][0]:
            parts.append(f"The last round changed their worth by {seen['last_reward'][0]:+g}.")
        if not self.market.binding:
            words = {1: "kept", -1: "broke"}
            kept = zip(others, seen["word_kept"], strict=True)
            parts += [f"{other} {words[int(word)]} its word." for other, word in kept if word]
        parts += self._offers(seen, others, phase)
        if not self.market.binding:
            known = [
                f"{other} {share:.2f}"
                for other, share in zip(others, seen["reputation"], strict=True)
                if share != 0.5
            ]
            rest = "; others 0.50" if len(known) < len(others) else ""
            parts += [f"Words kept: {', '.join(known)}{rest}."] if known else []
        return " ".join(parts) + message_lines(observation)

    def answers(self, agent: str) -> tuple[str, ...]:
        return tuple(_actions(self.market, self.agents, agent))

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        actions = _actions(self.market, self.agents, agent)

        def action_of(statement: str) -> int | ParseFailure | None:
            plain = " ".join(statement.split())
            if (offer := _OFFER.fullmatch(plain)) is not None:
                return self._offered(agent, *offer.groups())
            if (accepted := _ACCEPT.fullmatch(plain)) is not None:
                action = actions.get(f"accept {accepted[1]}")
                return self._no_partner(agent, accepted[1]) if action is None else action
            if plain.startswith(("offer ", "offers ")):
                return ParseFailure(f"an offer reads '{self._an_offer(agent)}'")
            if plain == "accept":
                return ParseFailure(f"say whose offer, as in 'accept {self._others(agent)[0]}'")
            return actions.get(plain)

        return parse_statement(answer, action_of)

    def _others(self, agent: str) -> list[str]:
        return [other for other in self.agents if other != agent]

    def _an_offer(self, agent: str) -> str:
        return self.answers(agent)[self.market.first_offer]

    def _allowed_units(self) -> str:
        most = self.market.max_quantity
        return "1" if most == 1 else f"1 to {most}"

    def _offered(
        self, agent: str, given: str, give: str, wanted: str, want: str, partner: str
    ) -> int | ParseFailure:
        if partner not in self._others(agent):
            return self._no_partner(agent, partner)
        # A good may be in the singular or the plural.
        goods = {good + end: good for end in ("es", "s", "") for good in self.market.names}
        for good in (give, want):
            if good not in goods:
                return ParseFailure(f"{good} is not traded")
        if goods[give] == goods[want]:
            return ParseFailure(f"an offer of {goods[give]} for {goods[want]} exchanges nothing")
        answer = f"offer {int(given)} {goods[give]} for {int(wanted)} {goods[want]} to {partner}"
        action = _actions(self.market, self.agents, agent).get(answer)
        if action is None:
            return ParseFailure(f"an offer is for {self._allowed_units()} of each good")
        return action

    def _no_partner(self, agent: str, partner: str) -> ParseFailure:
        return ParseFailure(f"{partner} is {'you' if partner == agent else 'not a trader here'}")

    def _exchange(self, net: Sequence[float]) -> tuple[str, str]:
        goods = list(zip(self.market.names, net, strict=True))
        costs = next(f"{-units:g} {good}" for good, units in goods if units < 0)
        return costs, next(f"{units:g} {good}" for good, units in goods if units > 0)

    def _offers(self, seen: dict[str, list[float]], others: Sequence[str], phase: int) -> list[str]:
        goods, sentences, owed = self.market.goods, [], []
        to_you = [
            seen["offer_to_you"][slot * goods : (slot + 1) * goods] for slot in range(len(others))
        ]
        if 1 in seen["own_offer_to"]:
            slot, answer = seen["own_offer_to"].index(1), int(seen["own_offer_answer"][0])
            costs, brings = self._exchange(seen["own_offer"])
            if phase == ANSWERS:
                sentences.append(f"You offered {others[slot]} {costs} for {brings}.")
            elif phase == DELIVERIES and answer == ACCEPTED:
                owed.append((slot, seen["own_offer"]))
            else:
                result = {ACCEPTED: "accepted", DECLINED: "declined"}.get(answer, "did not answer")
                sentences.append(f"{others[slot]} {result} your offer of {costs} for {brings}.")
        if phase == ANSWERS:
            offers = []
            for slot, net in enumerate(to_you):
                if any(net):
                    costs, brings = self._exchange(net)
                    gain = seen["offer_gain"][slot]
                    # Words rather than a sign: small tokenizers join a sign and the good before it.
                    worth = f"worth {abs(gain):g} {'less' if gain < 0 else 'more'} to you"
                    offers.append(f"{others[slot]} gives you {brings} for {costs} ({worth})")
            if not offers:
                return [*sentences, "Nobody made you an offer, so you can only pass."]
            sentences += [f"Offers to you: {'; '.join(offers)}.", "Accept one, decline or pass."]
        if phase == DELIVERIES:
            owed += [(slot, to_you[slot]) for slot, agreed in enumerate(seen["agreed"]) if agreed]
            for slot, net in owed:
                costs, brings = self._exchange(net)
                sentences.append(f"You owe {others[slot]} {costs} for {brings}.")
            last = "Deliver or pass." if owed else "You owe nothing, so you can only pass."
            sentences.append(last)
        return sentences


_PHASE_FLAGS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


class SocialTrading(TalkingGame):
    """PettingZoo ParallelEnv of the market.

    Agents are agent_0, agent_1, ... Actions are 0 pass, 1 decline, 2 deliver, then the acceptances
    and offers of trading_market.py. Observations without `talk` are float32 vectors of shape (sum
    of `field_sizes(rules)`,), laid out as OBSERVATION_FIELDS. An action that is illegal counts as a
    pass, and `infos[agent]["illegal"]` is then True. `phase` in infos of a round is its phase:
    "offers", "answers" or "deliveries". In the last round, infos also contain `possible_surplus`
    (greatest total gain of any reallocation), `realised_surplus` (total gain of all agents),
    `surplus_share` (realised / possible; None if none is possible), `gain` and `reputation` of the
    agent, and `network` (pair such as "agent_0 agent_1" -> number of kept deals, if above 0).
    Invalid arguments raise EnvConfigError.

    Args:
        num_agents: Number of agents, from 2 to 10.
        goods: Number of goods, from 3 to 8, the coin included.
        max_quantity: Greatest number of units of each good in an offer, from 1 to 5.
        agreements: "promised" for agreements that agents may break, or "binding".
        messages: Show the text above the last line of an answer to all others. Needs obs_mode
            "llm".
        talk: Number of words that an action can add, from 0 to 8; see TalkingGame.
        max_cycles: Number of rounds of an episode, at least 1.
        obs_mode: "vector", "dict" or "llm"; see SimultaneousGame.
        render_mode: "human", "ansi", "rgb_array" or None.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("social_trading_v0")

    def __init__(
        self,
        *,
        num_agents: int = 6,
        goods: int = 3,
        max_quantity: int = 2,
        agreements: str = "promised",
        messages: bool = False,
        talk: int = 0,
        max_cycles: int = 30,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.rules = TradingRules(num_agents, goods, max_quantity, agreements)
        actions = np.arange(self.rules.num_actions)
        self._pass_only: np.ndarray = (actions == PASS).astype(np.int8)
        self._may_deliver = self._pass_only.copy()
        self._may_deliver[DELIVER] = 1
        self._given = np.array([offer.give for offer in self.rules.offers])
        self._given_units = np.array([offer.give_units for offer in self.rules.offers])
        low, high = bounds(self.rules)
        super().__init__(
            [f"agent_{index}" for index in range(self.rules.num_agents)],
            range(self.rules.num_actions),
            low,
            high,
            messages=messages,
            talk=talk,
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> TradingView:
        return TradingView(self.rules, tuple(self.possible_agents), self.max_cycles, self.messages)

    def masks(self) -> Sequence[np.ndarray]:
        return self.with_any_word(self._legal_now)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        values, stocks = self.rules.draw(self.np_random)
        self.market = Market(self.rules, values, stocks)
        agents = range(self.rules.num_agents)
        self._own_offers = [self._own_offer(agent) for agent in agents]
        self._public = [self._public_part(agent) for agent in agents]
        return self._look([0.0] * self.rules.num_agents)

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        market, agents = self.market, range(len(chosen))
        played = market.phase
        gains, illegal = market.play(chosen)
        if played != DELIVERIES:
            self._own_offers = [self._own_offer(agent) for agent in agents]
        if market.outcome:
            self._public = [self._public_part(agent) for agent in agents]
        rewards = [float(gain) for gain in gains]
        infos: list[dict[str, Any]] = [
            {"phase": PHASES[played], "illegal": wrong} for wrong in illegal
        ]
        if over:
            self._report(infos)
        return self._look(rewards), rewards, infos

    def _look(self, rewards: Sequence[float]) -> Sequence[base.Row]:
        market, rules = self.market, self.rules
        size, goods, others = rules.num_agents, rules.goods, rules.num_agents - 1
        time, flags = self.played / self.rounds, _PHASE_FLAGS[market.phase]
        word_kept = self._words_kept() if market.outcome else [(0,) * others] * size
        no_offers = (0,) * (others * goods + 2 * others)
        makers = market.incoming
        if market.phase == DELIVERIES:
            makers = [[maker for maker, taker in market.agreed if taker == s] for s in range(size)]
        rows = [
            (
                *(time, *flags, rewards[agent], market.reputation(agent)),
                *(*market.stocks[agent], *market.values[agent], *self._own_offers[agent]),
                *(self._incoming(agent, makers[agent]) if makers[agent] else no_offers),
                *self._public[agent],
                *word_kept[agent],
            )
            for agent in range(size)
        ]
        if market.phase == OFFERS:
            self._legal_now = [self._may_offer(stock) for stock in market.stocks]
        elif market.phase == DELIVERIES:
            parties = market.parties()
            self._legal_now = [
                self._may_deliver if agent in parties else self._pass_only for agent in range(size)
            ]
        else:
            self._legal_now = [self._may_answer(agent, makers[agent]) for agent in range(size)]
        return rows

    def _own_offer(self, agent: int) -> tuple[int, ...]:
        to, net = [0] * (self.rules.num_agents - 1), [0] * self.rules.goods
        offer = self.market.offers[agent]
        if offer is not None:
            to[offer.slot], net[offer.give] = 1, -offer.give_units
            net[offer.want] = offer.want_units
        return (*to, *net, self.market.answers[agent])

    def _incoming(self, agent: int, makers: Sequence[int]) -> list[int]:
        """Return offer_to_you, offer_gain and agreed as one list, from the offers of `makers`."""
        market, goods, others = self.market, self.rules.goods, self.rules.num_agents - 1
        nets, gains, agreed = [0] * (others * goods), [0] * others, [0] * others
        for maker in makers:
            offer, slot = market.offers[maker], maker - (maker > agent)
            assert offer is not None
            nets[slot * goods + offer.give] = offer.give_units
            nets[slot * goods + offer.want] = -offer.want_units
            gains[slot] = market.gain_of(agent, maker)
            agreed[slot] = int(market.phase == DELIVERIES)
        return nets + gains + agreed

    def _public_part(self, agent: int) -> tuple[float, ...]:
        market, others = self.market, self.market.others[agent]
        return (
            *(market.reputation(other) for other in others),
            *(market.deals[agent][other] for other in others),
        )

    def _words_kept(self) -> list[list[int]]:
        """Return [receiver][other]: 1 all promises due last round kept, -1 any broken, 0 none."""
        words = [[0] * (self.rules.num_agents - 1) for _ in self.possible_agents]
        for receiver, giver, kept in self.market.outcome:
            slot = giver - (giver > receiver)
            # If only one of two promises to the same agent was kept, the broken one counts.
            words[receiver][slot] = 1 if kept and words[receiver][slot] >= 0 else -1
        return words

    def _may_offer(self, stock: Sequence[int]) -> np.ndarray:
        mask = self._pass_only.copy()
        mask[self.rules.first_offer :] = np.asarray(stock)[self._given] >= self._given_units
        return mask

    def _may_answer(self, agent: int, makers: Sequence[int]) -> np.ndarray:
        if not makers:
            return self._pass_only
        mask = self._pass_only.copy()
        mask[DECLINE] = 1
        for maker in makers:
            slot = maker - (maker > agent)
            mask[FIRST_ACCEPT + slot] = self.market.can_accept(agent, maker)
        return mask

    def _report(self, infos: Sequence[dict[str, Any]]) -> None:
        market, agents = self.market, self.possible_agents
        gains = [
            worth_of(values, now) - worth_of(values, then)
            for values, now, then in zip(
                market.values, market.stocks, market.first_stocks, strict=True
            )
        ]
        network = {
            f"{agents[one]} {agents[other]}": market.deals[one][other]
            for one, other in combinations(range(len(agents)), 2)
            if market.deals[one][other]
        }
        for agent, info in enumerate(infos):
            info["possible_surplus"], info["realised_surplus"] = market.surplus, sum(gains)
            info["surplus_share"] = sum(gains) / market.surplus if market.surplus else None
            info["gain"], info["reputation"] = gains[agent], market.reputation(agent)
            info["network"] = network.copy()


parallel_env = SocialTrading
