"""Scripted trading policies: mutually beneficial offers, and promises that are kept or broken.

A trader knows its own values and that every agent has one favorite good. It infers the favorites of
other agents from their offers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srl_agents.arrays import Bools, Floats
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_envs.games import trading_market as market
from srl_envs.games.base import VectorLayout
from srl_envs.games.trading import field_sizes
from srl_envs.games.trading_market import TradingRules

COMMON, FAVOURITE = np.mean(market.COMMON_VALUES), np.mean(market.FAVORITE_VALUES)
UNLIKELY = 0.05  # probability that an agent offers or accepts a trade at a loss
DECLINED = 0.5  # factor of a hope after a declined offer; the agent may only lack the goods
TRUSTED = 0.5  # minimum reputation of a partner, and reputation before the first promise


@dataclass
class Ledger:
    """Memory of a Trader: its generator, and estimates of the other agents."""

    rng: np.random.Generator
    favourite: Floats
    """Probability that a good is an agent's favorite, by (other agent, good except the coin)."""
    hope: Floats
    """Factor of the expected gain of buying a good from an agent, by (other agent, good)."""


class Trader(PerAgentPolicy):
    """Policy that offers and accepts trades that benefit both agents.

    The policy trades only with agents that have broken at most half of their promises.

    Args:
        rules: Rules of the environment.
        name: Name in records.
        bargains_hard: True to maximize the trader's gain, False the smaller gain of both agents.
        least_gain: Minimum gain of the trader from a trade.
        honest_until: Fraction of the episode until which the policy keeps its promises.
        honest_at: Greatest own reputation at which the policy keeps its promises.
    """

    def __init__(
        self,
        rules: TradingRules,
        *,
        name: str = "truthful_trader",
        bargains_hard: bool = False,
        least_gain: int = 1,
        honest_until: float = 1.0,
        honest_at: float = 1.0,
    ) -> None:
        self.name = name
        self._rules = rules
        self._layout = VectorLayout(field_sizes(rules))
        self._hard, self._least = bargains_hard, least_gain
        self._honest_until, self._honest_at = honest_until, honest_at
        self._others, self._kinds = rules.num_agents - 1, rules.goods - 1
        # Parts of the offers, in the order of the actions.
        parts = np.array(rules.offers).T
        self._slot, self._give, self._given, self._want, self._wanted = parts
        # Gain of the other agent by (its favorite good, offer).
        values = np.full((self._kinds, rules.goods), COMMON)
        values[np.arange(self._kinds), np.arange(self._kinds) + 1] = FAVOURITE
        values[:, 0] = market.COIN_VALUE
        self._values = values
        self._their_gain = values[:, self._give] * self._given
        self._their_gain -= values[:, self._want] * self._wanted

    def start(self, seed: int) -> Ledger:
        return Ledger(
            np.random.default_rng(seed),
            np.full((self._others, self._kinds), 1 / self._kinds),
            np.ones((self._others, self._rules.goods)),
        )

    def decide(self, seen: AgentObservation, state: Ledger) -> Decision:
        fields, mask = self._layout(seen.observation), seen.action_mask
        move = (self._offer, self._answer, self._deliver)[int(fields["phase"].argmax())]
        legal = np.ones(self._rules.num_actions) if mask is None else np.asarray(mask)
        return Decision(move(fields, legal > 0, state))

    def _offer(self, fields: dict[str, Floats], legal: Bools, ledger: Ledger) -> int:
        self._learn_from_own_offer(fields, ledger)
        own = fields["own_value"]
        gain = own[self._want] * self._wanted - own[self._give] * self._given
        enough = (gain >= self._least) & (fields["reputation"][self._slot] >= TRUSTED)
        enough &= legal[self._rules.first_offer :]
        stock = fields["own_stock"]
        enough &= stock[self._give] >= self._given
        theirs = np.maximum(self._their_gain, 0.0)
        worth = (theirs > 0) * gain if self._hard else np.minimum(theirs, gain)
        likely = ledger.favourite[self._slot].T
        expected = (likely * worth).sum(axis=0) * ledger.hope[self._slot, self._want] * enough
        best = expected.max(initial=0.0)
        if best <= 0.0:
            return market.PASS
        chosen = ledger.rng.choice(np.flatnonzero(expected >= best * (1 - 1e-9)))
        return self._rules.first_offer + int(chosen)

    def _answer(self, fields: dict[str, Floats], legal: Bools, ledger: Ledger) -> int:
        nets = fields["offer_to_you"].reshape(self._others, self._rules.goods)
        for slot in np.flatnonzero(nets.any(axis=1)).tolist():
            self._infer(ledger, slot, -nets[slot])
        accepts = legal[market.FIRST_ACCEPT : self._rules.first_offer]
        gain = np.where(accepts & (fields["reputation"] >= TRUSTED), fields["offer_gain"], 0.0)
        best = int(gain.argmax())
        if gain[best] >= self._least:
            return market.FIRST_ACCEPT + best
        return market.DECLINE if legal[market.DECLINE] else market.PASS

    def _deliver(self, fields: dict[str, Floats], legal: Bools, ledger: Ledger) -> int:
        honest = fields["time"][0] < self._honest_until
        honest &= fields["own_reputation"][0] <= self._honest_at
        return market.DELIVER if honest and legal[market.DELIVER] else market.PASS

    def _learn_from_own_offer(self, fields: dict[str, Floats], ledger: Ledger) -> None:
        if not fields["own_offer_to"].any():
            return
        slot = int(fields["own_offer_to"].argmax())
        net, answer = fields["own_offer"], int(fields["own_offer_answer"][0])
        if answer == market.ACCEPTED:
            self._infer(ledger, slot, -net)
            return
        ledger.hope[slot, net > 0] *= DECLINED
        gains = self._values @ -net > 0
        self._weigh(ledger, slot, np.where(gains, DECLINED, 1.0))

    def _infer(self, ledger: Ledger, slot: int, change: Floats) -> None:
        gains = self._values @ change > 0
        self._weigh(ledger, slot, np.where(gains, 1.0, UNLIKELY))

    def _weigh(self, ledger: Ledger, slot: int, likelihood: Floats) -> None:
        posterior = ledger.favourite[slot] * likelihood
        ledger.favourite[slot] = posterior / posterior.sum()
