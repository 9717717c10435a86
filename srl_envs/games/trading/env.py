"""Trading: agents with private values exchange goods by offers and promises.

The rules stand in market.py, the words in view.py. An agent's reward is the gain of its
own goods in its own values since the last step, a whole number. Values and stocks are drawn from
the seed and private; reputations are public, and so is who dealt with whom with `network=True`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from srl_envs.games import base, rendering
from srl_envs.games.cheap_talk import TalkingGame
from srl_envs.games.trading import market as market_rules
from srl_envs.games.trading import rendering as trading_rendering
from srl_envs.games.trading.market import Market, TradingRules, worth_of
from srl_envs.games.trading.view import OBSERVATION_FIELDS, TradingView, bounds, pairs_of
from srl_envs.validation import parallel_form, true_or_false

__all__ = ["OBSERVATION_FIELDS", "SocialTrading", "parallel_env"]

_PHASE_FLAGS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))
_MASKS_KEPT = 2048  # masks of offers that are remembered, by what an agent holds


class SocialTrading(TalkingGame):
    """The environment.

    Agents agent_0, agent_1, ...; actions as srl_envs.games.trading.market lists them, in words
    `text_view.answers(agent)`. An action that is illegal now counts as a pass, and
    `infos[agent]["illegal"]` says so. `reset(options={"values": ..., "stocks": ...})`, whole
    numbers per agent and good, sets a market up by hand. The last infos hold `possible_surplus`,
    `realised_surplus`, `surplus_share` (their ratio; None where nothing could be gained), `gain`,
    `reputation` and `network`.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("social_trading_v0")
    scenario = "trading"

    def __init__(
        self,
        *,
        num_agents: int = 6,
        goods: int = 3,
        max_quantity: int = 2,
        agreements: str = "promised",
        network: bool = False,
        messages: bool = False,
        keyword_rewards: bool = False,
        max_cycles: int = 30,
        obs_mode: str = "vector",
        render_mode: str | None = None,
    ) -> None:
        self.rules = TradingRules(num_agents, goods, max_quantity, agreements)
        self.network = true_or_false("network", network)
        actions = np.arange(self.rules.num_actions)
        self._pass_only: np.ndarray = (actions == market_rules.PASS).astype(np.int8)
        self._may_deliver = self._pass_only.copy()
        self._may_deliver[market_rules.DELIVER] = 1
        self._given = np.array([offer.give for offer in self.rules.offers])
        self._given_units = np.array([offer.give_units for offer in self.rules.offers])
        self._offer_masks: dict[tuple[int, ...], np.ndarray] = {}
        low, high = bounds(self.rules, network)
        super().__init__(
            [f"agent_{index}" for index in range(self.rules.num_agents)],
            ["pass"] * self.rules.num_actions,  # each agent's own names are the view's
            low,
            high,
            messages=messages,
            keyword_rewards=keyword_rewards,
            reward_ceiling=float(2 * self.rules.max_quantity * market_rules.LARGEST_VALUE),
            max_cycles=max_cycles,
            obs_mode=obs_mode,
            render_mode=render_mode,
        )

    def make_view(self) -> TradingView:
        """The view for episodes of `self.max_cycles` rounds."""
        return TradingView(
            self.rules, tuple(self.possible_agents), self.max_cycles, self.network, self.messages
        )

    def phase(self) -> str:
        """The phase that comes next."""
        return market_rules.PHASES[self.market.phase]

    def masks(self) -> Sequence[np.ndarray]:
        """The int8 mask of each agent's legal actions now."""
        return self._legal_now

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Open a new market; the agents' first observations."""
        values, stocks = self.rules.draw(self.np_random)
        if "values" in options:
            values = self.rules.table("values", options["values"], market_rules.LARGEST_VALUE)
        if "stocks" in options:
            stocks = self.rules.table("stocks", options["stocks"], market_rules.LARGEST_STOCK)
        self.market = Market(self.rules, values, stocks)
        self._acted: list[int | None] = [None] * self.rules.num_agents
        self._own_offers = [self._own_offer(agent) for agent in range(self.rules.num_agents)]
        self._public = [self._public_part(agent) for agent in range(self.rules.num_agents)]
        return self._look([0.0] * self.rules.num_agents)

    def play_round(self, chosen: Sequence[int], over: bool) -> base.Played:
        """One round: observations, rewards and infos in agent order."""
        market, agents = self.market, range(len(chosen))
        played = market.phase
        gains, illegal = market.play(chosen)
        self._acted = [
            market_rules.PASS if wrong else act for act, wrong in zip(chosen, illegal, strict=True)
        ]
        if played != market_rules.DELIVERIES:
            self._own_offers = [self._own_offer(agent) for agent in agents]
        if market.outcome:
            self._public = [self._public_part(agent) for agent in agents]
        rewards = [float(gain) for gain in gains]
        phase = market_rules.PHASES[played]
        infos: list[dict[str, Any]] = [{"phase": phase, "illegal": wrong} for wrong in illegal]
        if over:
            self._report(infos)
        return self._look(rewards), rewards, infos

    # What the agents see.

    def _look(self, rewards: Sequence[float]) -> Sequence[base.Row]:
        """All agents' observations and, with them, what is legal for each."""
        market, rules = self.market, self.rules
        size, goods, others = rules.num_agents, rules.goods, rules.num_agents - 1
        time, flags = self.played / self.rounds, _PHASE_FLAGS[market.phase]
        word_kept = self._words_kept() if market.outcome else [(0,) * others] * size
        no_offers = (0,) * (others * goods + 2 * others)
        makers = market.incoming
        if market.phase == market_rules.DELIVERIES:
            makers = [[maker for maker, taker in market.agreed if taker == s] for s in range(size)]
        rows = [
            (
                *(time, *flags, rewards[agent], market.reputation(agent)),
                *(*market.stocks[agent], *market.values[agent], *self._own_offers[agent]),
                *(self._incoming(agent, makers[agent]) if makers[agent] else no_offers),
                *(*self._public[agent][:others], *self._public[agent][others : 2 * others]),
                *(*word_kept[agent], *self._public[agent][2 * others :]),
            )
            for agent in range(size)
        ]
        self._legal_now = self._masks_now(makers)
        return rows

    def _own_offer(self, agent: int) -> tuple[int, ...]:
        """own_offer_to, own_offer and own_offer_answer."""
        to, net = [0] * (self.rules.num_agents - 1), [0] * self.rules.goods
        offer = self.market.offers[agent]
        if offer is not None:
            to[offer.slot], net[offer.give] = 1, -offer.give_units
            net[offer.want] = offer.want_units
        return (*to, *net, self.market.answers[agent])

    def _incoming(self, agent: int, makers: Sequence[int]) -> list[int]:
        """offer_to_you, offer_gain and agreed."""
        market, goods, others = self.market, self.rules.goods, self.rules.num_agents - 1
        nets, gains, agreed = [0] * (others * goods), [0] * others, [0] * others
        for maker in makers:
            offer, slot = market.offers[maker], maker - (maker > agent)
            assert offer is not None
            nets[slot * goods + offer.give] = offer.give_units
            nets[slot * goods + offer.want] = -offer.want_units
            gains[slot] = market.gain_of(agent, maker)
            agreed[slot] = int(market.phase == market_rules.DELIVERIES)
        return nets + gains + agreed

    def _public_part(self, agent: int) -> tuple[float, ...]:
        """reputation and deals, and the network where it is shown."""
        market = self.market
        others = market.others[agent]
        pairs = pairs_of(range(self.rules.num_agents)) if self.network else []
        return (
            *(market.reputation(other) for other in others),
            *(market.deals[agent][other] for other in others),
            *(market.deals[one][other] for one, other in pairs),
        )

    def _words_kept(self) -> list[list[int]]:
        words = [[0] * (self.rules.num_agents - 1) for _ in self.possible_agents]
        for whom, who, kept in self.market.outcome:
            slot = who - (who > whom)
            # Of two promises to the same agent, one that was broken counts.
            words[whom][slot] = 1 if kept and words[whom][slot] >= 0 else -1
        return words

    def _masks_now(self, makers: Sequence[Sequence[int]]) -> list[np.ndarray]:
        market, agents = self.market, range(self.rules.num_agents)
        if market.phase == market_rules.OFFERS:
            return [self._may_offer(market.stocks[agent]) for agent in agents]
        if market.phase == market_rules.DELIVERIES:
            parties = market.parties()
            return [self._may_deliver if agent in parties else self._pass_only for agent in agents]
        return [self._may_answer(agent, makers[agent]) for agent in agents]

    def _may_offer(self, stock: Sequence[int]) -> np.ndarray:
        most = self.rules.max_quantity
        held = tuple(units if units < most else most for units in stock)
        if held not in self._offer_masks:
            if len(self._offer_masks) >= _MASKS_KEPT:
                self._offer_masks.clear()
            mask = self._pass_only.copy()
            mask[self.rules.first_offer :] = np.asarray(held)[self._given] >= self._given_units
            self._offer_masks[held] = mask
        return self._offer_masks[held]

    def _may_answer(self, agent: int, makers: Sequence[int]) -> np.ndarray:
        if not makers:
            return self._pass_only
        mask = self._pass_only.copy()
        mask[market_rules.DECLINE] = 1
        for maker in makers:
            slot = maker - (maker > agent)
            mask[market_rules.FIRST_ACCEPT + slot] = self.market.can_accept(agent, maker)
        return mask

    def _scene(self) -> rendering.Scene:
        """The last round: each agent with its goods, what it did and what that brought."""
        agents = self.possible_agents
        widest = max(map(len, self.text_view.answers(agents[0])))
        words = [
            ("-" if act is None else self.text_view.answers(agent)[act]).ljust(widest)
            for agent, act in zip(agents, self._acted, strict=True)
        ]
        holdings = [" ".join(f"{units:>3}" for units in stock) for stock in self.market.stocks]
        return rendering.Scene(
            headline=self.headline(),
            agents=tuple(f"{agent} {held}" for agent, held in zip(agents, holdings, strict=True)),
            # By agent, so that each has its colour.
            choices=tuple(None if act is None else agent for agent, act in enumerate(self._acted)),
            rewards=tuple(self._shown[1]),
            answers=tuple(words),
            ceiling=self.reward_ceiling,
        )

    def drawn_in_pixels(self) -> np.ndarray:
        """The traders on a circle, and the last round's offers, agreements and deliveries."""
        return trading_rendering.rgb_array(self._scene(), self.market, self.possible_agents)

    def _report(self, infos: Sequence[dict[str, Any]]) -> None:
        market, agents = self.market, self.possible_agents
        gains = [
            worth_of(values, now) - worth_of(values, then)
            for values, now, then in zip(
                market.values, market.stocks, market.first_stocks, strict=True
            )
        ]
        share = sum(gains) / market.surplus if market.surplus else None
        for agent, info in enumerate(infos):
            info["possible_surplus"], info["realised_surplus"] = market.surplus, sum(gains)
            info["surplus_share"], info["gain"] = share, gains[agent]
            info["reputation"] = market.reputation(agent)
            info["network"] = {
                f"{agents[one]} {agents[other]}": market.deals[one][other]
                for one, other in pairs_of(range(len(agents)))
                if market.deals[one][other]
            }


parallel_env = parallel_form(SocialTrading)
