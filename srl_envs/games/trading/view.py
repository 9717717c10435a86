"""Text view of trading: observation fields, prompts and answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from srl_envs.games.cheap_talk import MESSAGE_RULE, heard
from srl_envs.games.observation_layout import VectorLayout
from srl_envs.games.trading import market as market_rules
from srl_envs.games.trading.market import TradingRules
from srl_envs.text import (
    LISTED,
    ParseFailure,
    any_of,
    cost_of_unread,
    parse_statement,
    round_of,
)

OBSERVATION_FIELDS = (
    "time",  # rounds played / max_cycles
    "phase",  # three flags: offers, answers or deliveries are due
    "last_reward",
    "own_reputation",
    "own_stock",  # per good
    "own_value",  # per good and unit
    "own_offer_to",  # per other agent: whom the agent's latest offer was made to
    "own_offer",  # per good: units it would bring; below 0 for those it would cost
    "own_offer_answer",  # 1 accepted, -1 declined, 0 neither (yet)
    "offer_to_you",  # per other agent and good: units it would bring, until it is dealt with
    "offer_gain",  # per other agent: what that is worth to the agent
    "agreed",  # per other agent, while deliveries are due: the agent has accepted its offer
    "reputation",  # per other agent
    "deals",  # per other agent: agreements that both have kept
    "word_kept",  # per other agent: 1 if it kept its word to the agent in the last round, -1 if not
    "network",  # per pair of all agents, with network=True: agreements that both have kept
)

_OFFER = re.compile(
    "offers? ([0-9]{1,3}) ([a-z]{1,24}) for ([0-9]{1,3}) ([a-z]{1,24}) to ([a-z0-9_]{1,24})"
)
_ACCEPT = re.compile("accepts? ([a-z0-9_]{1,24})")

_COUNTED = 1e6  # deals of a pair in one episode; PettingZoo's tests want a bound


def field_sizes(rules: TradingRules, network: bool) -> dict[str, int]:
    """The length of each of OBSERVATION_FIELDS, in order."""
    others, goods, agents = rules.num_agents - 1, rules.goods, rules.num_agents
    sizes = dict.fromkeys(OBSERVATION_FIELDS, others) | dict.fromkeys(
        ("own_stock", "own_value", "own_offer"), goods
    )
    sizes |= dict.fromkeys(("time", "last_reward", "own_reputation", "own_offer_answer"), 1)
    sizes |= {"phase": 3, "offer_to_you": others * goods}
    return sizes | {"network": agents * (agents - 1) // 2 if network else 0}


def bounds(rules: TradingRules, network: bool) -> tuple[list[float], list[float]]:
    """The least and the greatest that each number of a vector may be."""
    units, agents = rules.max_quantity, rules.num_agents
    # Two agreements at most are carried out at once: one's own offer and one that was accepted.
    gain = units * market_rules.LARGEST_VALUE
    limits: dict[str, tuple[float, float]] = dict.fromkeys(OBSERVATION_FIELDS, (0.0, 1.0))
    limits |= {
        "last_reward": (-2 * gain, 2 * gain),
        "own_stock": (0.0, agents * market_rules.LARGEST_STOCK),
        "own_value": (0.0, market_rules.LARGEST_VALUE),
        "own_offer": (-units, units),
        "own_offer_answer": (-1.0, 1.0),
        "offer_to_you": (-units, units),
        "offer_gain": (-gain, gain),
        "word_kept": (-1.0, 1.0),
    }
    limits |= dict.fromkeys(("deals", "network"), (0.0, _COUNTED))
    low: list[float] = []
    high: list[float] = []
    for name, size in field_sizes(rules, network).items():
        low += [limits[name][0]] * size
        high += [limits[name][1]] * size
    return low, high


@lru_cache(maxsize=256)
def sentences(rules: TradingRules, agents: tuple[str, ...], agent: str) -> tuple[str, ...]:
    """An agent's actions in words, in action order."""
    others, goods = [other for other in agents if other != agent], rules.names
    return (
        *("pass", "decline", "deliver"),
        *(f"accept {other}" for other in others),
        *(
            f"offer {offer.give_units} {goods[offer.give]} for {offer.want_units} "
            f"{goods[offer.want]} to {others[offer.slot]}"
            for offer in rules.offers
        ),
    )


@lru_cache(maxsize=256)
def _actions(rules: TradingRules, agents: tuple[str, ...], agent: str) -> dict[str, int]:
    return {said: action for action, said in enumerate(sentences(rules, agents, agent))}


@lru_cache(maxsize=64)
def _goods(names: tuple[str, ...]) -> dict[str, str]:
    """What a good may be called, singular or plural -> the good."""
    plurals = {good + ending: good for good in names for ending in ("s", "es")}
    return plurals | {good: good for good in names}


@dataclass(frozen=True)
class TradingView:
    """Text view of trading."""

    market: TradingRules
    agents: tuple[str, ...]
    rounds: int
    network: bool = False
    messages: bool = False
    default_action: int = market_rules.PASS
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        """The game, the agent's role and how to answer."""
        if self.market.binding:
            course = "First all may offer, then answer; what is accepted changes hands at once."
        else:
            course = (
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
            f"{market_rules.COIN_VALUE} to all. You earn what your goods gain in value "
            f"to you. {course} "
            f"An offer is for {self._units()} of each good. Offer only what you hold, and accept "
            "only what you can pay beside your own offer. Write alone on the last line "
            f"{any_of(answers)}.{cost}{talk}"
        )

    def describe(self, agent: str, observation: Any) -> str:
        """The agent's situation, from its observation vector (or the dict that holds it)."""
        seen = self._fields(observation)
        phase = seen["phase"].index(1)
        others = self._others(agent)
        holdings = ", ".join(
            f"{stock:g} {good} (worth {value:g}{' each' if place == 0 else ''})"
            for place, (good, stock, value) in enumerate(
                zip(self.market.names, seen["own_stock"], seen["own_value"], strict=True)
            )
        )
        parts = [
            f"{round_of(seen['time'][0], self.rounds)}.",
            f"Now {market_rules.PHASES[phase]}.",
            f"You hold {holdings}.",
        ]
        if phase == market_rules.OFFERS:
            parts.append(self._dearest(seen["own_value"]))
        if seen["last_reward"][0]:
            parts.append(f"The last round changed their worth by {seen['last_reward'][0]:+g}.")
        kept = zip(others, seen["word_kept"], strict=True)
        if not self.market.binding:
            words = {1: "kept", -1: "broke"}
            parts += [f"{other} {words[int(word)]} its word." for other, word in kept if word]
        parts += self._own_offer(seen, others, phase)
        if phase == market_rules.ANSWERS:
            parts += self._offers_to_you(seen, others)
        if phase == market_rules.DELIVERIES:
            parts += self._duties(seen, others)
        parts += self._standing(seen, others)
        return " ".join(parts) + heard(observation)

    def answers(self, agent: str) -> tuple[str, ...]:
        """The legal answers, in action order."""
        return sentences(self.market, self.agents, agent)

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        """The action an answer names. Never raises.

        White space and the goods' number ('2 apples') are free; otherwise as parse_choice. Of an
        offer or an acceptance that is none, the reason names the part that is wrong.
        """
        actions = _actions(self.market, self.agents, agent)

        def action_of(said: str) -> int | ParseFailure | None:
            plain = " ".join(said.split())
            if (offer := _OFFER.fullmatch(plain)) is not None:
                return self._offered(agent, *offer.groups())
            if (accepted := _ACCEPT.fullmatch(plain)) is not None:
                action = actions.get(f"accept {accepted[1]}")
                return self._nobody(agent, accepted[1]) if action is None else action
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

    def _units(self) -> str:
        most = self.market.max_quantity
        return "1" if most == 1 else f"1 to {most}"

    def _offered(
        self, agent: str, given: str, give: str, wanted: str, want: str, partner: str
    ) -> int | ParseFailure:
        """The action that offers so, or which part of it cannot be."""
        goods = _goods(self.market.names)
        if partner not in self._others(agent):
            return self._nobody(agent, partner)
        for good in (give, want):
            if good not in goods:
                return ParseFailure(f"{good} is not traded")
        if goods[give] == goods[want]:
            return ParseFailure(f"an offer of {goods[give]} for {goods[want]} exchanges nothing")
        said = f"offer {int(given)} {goods[give]} for {int(wanted)} {goods[want]} to {partner}"
        action = _actions(self.market, self.agents, agent).get(said)
        if action is None:
            return ParseFailure(f"an offer is for {self._units()} of each good")
        return action

    def _nobody(self, agent: str, partner: str) -> ParseFailure:
        who = "you" if partner == agent else "not a trader here"
        return ParseFailure(f"{partner} is {who}")

    def _fields(self, observation: Any) -> dict[str, list[float]]:
        layout = VectorLayout(field_sizes(self.market, self.network))
        return {name: numbers.tolist() for name, numbers in layout(observation).items()}

    def _dearest(self, values: Sequence[float]) -> str:
        dearest = [
            good
            for good, value in zip(self.market.names, values, strict=True)
            if value == max(values)
        ]
        return f"You value {' and '.join(dearest)} most."

    def _exchange(self, net: Sequence[float]) -> tuple[str, str]:
        """What an offer costs and what it brings, in words."""
        goods = list(zip(self.market.names, net, strict=True))
        costs = next(f"{-units:g} {good}" for good, units in goods if units < 0)
        return costs, next(f"{units:g} {good}" for good, units in goods if units > 0)

    def _own_offer(
        self, seen: dict[str, list[float]], others: Sequence[str], phase: int
    ) -> list[str]:
        if 1 not in seen["own_offer_to"]:
            return []
        partner = others[seen["own_offer_to"].index(1)]
        costs, brings = self._exchange(seen["own_offer"])
        if phase == market_rules.ANSWERS:
            return [f"You offered {partner} {costs} for {brings}."]
        if (
            phase == market_rules.DELIVERIES
            and seen["own_offer_answer"][0] == market_rules.ACCEPTED
        ):
            return []  # told as a duty
        fate = {market_rules.ACCEPTED: "accepted", market_rules.DECLINED: "declined"}
        became = fate.get(int(seen["own_offer_answer"][0]), "did not answer")
        return [f"{partner} {became} your offer of {costs} for {brings}."]

    def _offers_to_you(self, seen: dict[str, list[float]], others: Sequence[str]) -> list[str]:
        goods = self.market.goods
        nets = [
            seen["offer_to_you"][slot * goods : (slot + 1) * goods] for slot in range(len(others))
        ]
        made = [slot for slot, net in enumerate(nets) if any(net)]
        if not made:
            return ["Nobody made you an offer, so you can only pass."]
        said = []
        for slot in made:
            costs, brings = self._exchange(nets[slot])
            gain = seen["offer_gain"][slot]
            # Words rather than a sign: small tokenizers melt a sign into the good before it.
            worth = f"worth {abs(gain):g} {'less' if gain < 0 else 'more'} to you"
            said.append(f"{others[slot]} gives you {brings} for {costs} ({worth})")
        return [f"Offers to you: {'; '.join(said)}.", "Accept one, decline or pass."]

    def _duties(self, seen: dict[str, list[float]], others: Sequence[str]) -> list[str]:
        goods, duties = self.market.goods, []
        if seen["own_offer_answer"][0] == market_rules.ACCEPTED:
            duties.append((seen["own_offer_to"].index(1), seen["own_offer"]))
        for slot, agreed in enumerate(seen["agreed"]):
            if agreed:
                duties.append((slot, seen["offer_to_you"][slot * goods : (slot + 1) * goods]))
        if not duties:
            return ["You owe nothing, so you can only pass."]
        said = []
        for slot, net in duties:
            costs, brings = self._exchange(net)
            said.append(f"You owe {others[slot]} {costs} for {brings}.")
        return [*said, "Deliver or pass."]

    def _standing(self, seen: dict[str, list[float]], others: Sequence[str]) -> list[str]:
        told = []
        if not self.market.binding:
            known = [
                f"{other} {share:.2f}"
                for other, share in zip(others, seen["reputation"], strict=True)
                if share != 0.5
            ]
            rest = "; others 0.50" if len(known) < len(others) else ""
            told += [f"Words kept: {', '.join(known)}{rest}."] if known else []
        pairs = [
            f"{one} with {other} {count:g}"
            for (one, other), count in zip(pairs_of(self.agents), seen["network"], strict=False)
            if count
        ]
        return told + ([f"Deals so far: {', '.join(pairs)}."] if pairs else [])


def pairs_of(agents: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Every pair once, in agent order."""
    return [(one, other) for place, one in enumerate(agents) for other in agents[place + 1 :]]
