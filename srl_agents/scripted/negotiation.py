"""Scripted negotiation policies, whose target utility decreases with time or concessions.

A negotiator proposes the deal that is most similar to the others' last proposals, among those that
reach its target. It accepts a proposal that reaches the target; at its last action, any proposal
that is better than no deal.
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

GOODWILL = 0.06  # utility per action that a reciprocator concedes without a concession of others
EVEN = 1e-6  # tolerance of utilities, which are observed as float32


@dataclass
class Talks:
    """Memory of a Negotiator."""

    first_worth: dict[int, float] = field(default_factory=dict)
    """Index among the other agents -> own utility of the first proposal."""
    moves: int = 0
    """Number of own actions so far, without steps in which the agent can only pass."""


class Negotiator(PerAgentPolicy):
    """Policy that negotiates with a target utility, which decreases with time (see `target`).

    Polynomial tactics of Faratin, Sierra and Jennings 1998. The last action accepts any proposal
    that is better than no deal.

    Args:
        rules: Rules of the environment.
        rounds: Maximum number of rounds of an episode.
        beta: Speed of concessions; 0 never concedes.
        least: Share of the possible gain that the target never falls below, from 0 to 1.
        name: Name in records.

    Raises:
        ValueError: `beta` is below 0.
    """

    def __init__(
        self,
        rules: NegotiationRules,
        rounds: int,
        *,
        beta: float,
        least: float = 0.0,
        name: str = "conceder",
    ) -> None:
        if beta < 0:
            raise ValueError(f"beta must be 0 or more, got {beta}")
        self.name = name
        self._rules, self._rounds, self._beta, self._least = rules, rounds, beta, least
        self._layout = VectorLayout(field_sizes(rules))
        sizes = [len(options) for _, options in rules.issues]
        first = np.cumsum([0, *sizes[:-1]])
        # (deal, option of any issue): 1 if the deal contains the option.
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
        """Return the minimum utility of a deal that is proposed, or accepted before the last step.

        This is reservation + (best - reservation) * max(least, 1 - time ** (1 / beta)), or `best`
        if beta is 0. `time` is 0 in the first round and 1 in the last, `reservation` the utility
        without a deal, `best` that of the best deal. Only subclasses use `worth` (index among the
        other agents -> own utility of the last proposal) and `talks`.
        """
        if self._beta == 0:
            return best
        share = max(self._least, 1 - time ** (1 / self._beta))
        return float(reservation + (best - reservation) * share)

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
            turn = agents if self._rules.offers == "alternating" else 1
            is_last = played + turn >= self._rounds
            if offered >= target - EVEN or (is_last and offered > reservation):
                return bargaining.ACCEPT
        elif fields["consents"][0] > 0.5 and standing:
            return bargaining.PASS  # The agent has accepted the current proposal.
        similarity = self._has @ proposed.sum(axis=0)
        # Among equally similar deals, the one of highest own utility is proposed.
        score = np.where(utilities >= target - EVEN, similarity + utilities / 2, -1.0)
        return bargaining.FIRST_PROPOSAL + int(score.argmax())


class Reciprocator(Negotiator):
    """Negotiator that concedes as much as the others did on average, and GOODWILL per own action.

    Absolute tit for tat of Faratin, Sierra and Jennings 1998, down to the utility without a deal.
    A concession is the gain in own utility from an agent's first proposal to its last.
    """

    def __init__(self, rules: NegotiationRules, rounds: int) -> None:
        super().__init__(rules, rounds, beta=0.0, name="reciprocator")

    def target(
        self, time: float, reservation: float, best: float, worth: dict[int, float], talks: Talks
    ) -> float:
        gained = [utility - talks.first_worth[place] for place, utility in worth.items()]
        conceded = max(0.0, float(np.mean(gained))) if gained else 0.0
        return max(reservation, best - conceded - GOODWILL * talks.moves)
