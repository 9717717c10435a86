"""Scripted negotiation policies, with a target that falls over time or as others concede.

A negotiator proposes the deal at or above its target that is most like what the others last
proposed, and accepts a proposal that reaches the target; at its last move, one that beats having
no deal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from srl_agents.arrays import Floats
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_envs.games import bargaining
from srl_envs.games.bargaining import NegotiationRules
from srl_envs.games.base import VectorLayout
from srl_envs.games.negotiation import field_sizes

GOODWILL = 0.06  # utility per move that a reciprocator gives way by itself, so that two can begin
EVEN = 1e-6  # float32 observations: utilities this close are the same


@dataclass
class Talks:
    """Memory of a negotiator."""

    first_worth: dict[int, float] = field(default_factory=dict)
    """Place of another agent -> value of its first proposal."""
    moves: int = 0


class Negotiator(PerAgentPolicy):
    """Negotiator whose target falls with time (Faratin, Sierra and Jennings 1998, polynomial
    tactics).

    The target is reservation + (best - reservation) * (1 - time ** (1 / beta)); beta 0 never
    concedes.
    """

    def __init__(
        self, rules: NegotiationRules, rounds: int, *, beta: float, name: str = "conceder"
    ) -> None:
        if beta < 0:
            raise ValueError(f"beta must be 0 or more, got {beta}")
        self.name = name
        self._rules, self._rounds, self._beta = rules, rounds, beta
        self._layout = VectorLayout(field_sizes(rules))
        sizes = [len(options) for _, options in rules.issues]
        first = np.cumsum([0, *sizes[:-1]])
        # (deal, option of any issue): 1 where the deal has it.
        self._has = np.zeros((len(rules.deals), sum(sizes)))
        for deal, options in enumerate(rules.deals):
            self._has[deal, first + np.array(options)] = 1.0

    def start(self, seed: int) -> Talks:
        return Talks()

    def decide(self, seen: AgentObservation, state: Talks) -> Decision:
        return Decision(self._move(self._layout(seen.observation), state))

    def target(
        self, time: float, reservation: float, best: float, worth: dict[int, float], talks: Talks
    ) -> float:
        if self._beta == 0:
            return best
        return float(reservation + (best - reservation) * (1 - time ** (1 / self._beta)))

    def _move(self, fields: dict[str, Floats], talks: Talks) -> int:
        agents = self._rules.num_agents
        proposed = fields["proposal"].reshape(agents, -1)[1:]
        worth = {
            place: float(fields["worth"][place + 1])
            for place in np.flatnonzero(proposed.any(axis=1)).tolist()
        }
        for place, utility in worth.items():
            talks.first_worth.setdefault(place, utility)
        if fields["may_move"][0] < 0.5:
            return bargaining.PASS
        utilities = self._has @ fields["utility"]
        reservation, best = float(fields["reservation"][0]), float(utilities.max())
        played = round(fields["time"][0] * self._rounds)
        time = min(1.0, played / max(1, self._rounds - 1))
        target = self.target(time, reservation, best, worth, talks)
        talks.moves += 1
        standing = [place for place in worth if fields["stands"][place + 1] > 0.5]
        if standing and not fields["consents"][0] > 0.5:
            offered = max(worth[place] for place in standing)
            if offered >= target - EVEN or (self._is_last(played) and offered > reservation):
                return bargaining.ACCEPT
        elif fields["consents"][0] > 0.5 and standing:
            return bargaining.PASS  # it is for what stands: the others decide
        alike = self._has @ proposed.sum(axis=0)
        # Among equals the one that is worth most to itself.
        score = np.where(utilities >= target - EVEN, alike + utilities / 2, -1.0)
        return bargaining.FIRST_PROPOSAL + int(score.argmax())

    def _is_last(self, played: int) -> bool:
        turn = self._rules.num_agents if self._rules.offers == "alternating" else 1
        return played + turn >= self._rounds


class Reciprocator(Negotiator):
    """Negotiator that concedes as much as the others did (the same paper's absolute tit for
    tat)."""

    def __init__(self, rules: NegotiationRules, rounds: int) -> None:
        super().__init__(rules, rounds, beta=0.0, name="reciprocator")

    def target(
        self, time: float, reservation: float, best: float, worth: dict[int, float], talks: Talks
    ) -> float:
        gained = [utility - talks.first_worth[place] for place, utility in worth.items()]
        conceded = max(0.0, float(np.mean(gained))) if gained else 0.0
        return max(reservation, best - conceded - GOODWILL * talks.moves)
