"""Memory-one strategies: five probabilities of cooperation, one per situation.

Situation 0 is the first round of an episode; 1 + 2 * own + other follows a joint action. With more
than two agents, "other" is the majority of the other agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np

from srl_agents.arrays import Actions, Floats
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_envs.games.coop_compete import OBSERVATION_FIELDS

START = 0
SITUATIONS = 5
GENEROSITY = 1 / 3  # probability with which generous tit for tat forgives competing
STRATEGIES: Mapping[str, Sequence[float]] = {
    # first round, then after (own, other) = (0, 0), (0, 1), (1, 0), (1, 1)
    "always_cooperate": (1.0, 1.0, 1.0, 1.0, 1.0),
    "always_compete": (0.0, 0.0, 0.0, 0.0, 0.0),
    "tit_for_tat": (1.0, 0.0, 1.0, 0.0, 1.0),
    "suspicious_tit_for_tat": (0.0, 0.0, 1.0, 0.0, 1.0),
    "generous_tit_for_tat": (1.0, GENEROSITY, 1.0, GENEROSITY, 1.0),
    "grim_trigger": (1.0, 0.0, 0.0, 0.0, 1.0),
    "pavlov": (1.0, 1.0, 0.0, 0.0, 1.0),
    "alternator": (1.0, 1.0, 1.0, 0.0, 0.0),
    "mostly_cooperate": (0.8, 0.8, 0.8, 0.8, 0.8),
    "mostly_compete": (0.2, 0.2, 0.2, 0.2, 0.2),
    "bully": (0.0, 1.0, 0.0, 1.0, 0.0),
    "leader": (0.5, 0.1, 0.1, 0.9, 0.9),
    "deserter": (1.0, 0.0, 0.0, 0.9, 0.9),
}
"""Strategy -> probabilities of cooperation: tit for tat (Axelrod 1984), grim trigger (Friedman
1971), generous tit for tat (Nowak and Sigmund 1992), Pavlov (Nowak and Sigmund 1993)."""


def situations(own_NT: Actions, other_NT: Actions, actions: int = 2) -> Actions:
    """Return the situation (N, T) before each step of an episode, for N pairs of players.

    Values are START (0), then 1 + actions * own + other action of the step before.
    """
    before_NT = np.empty_like(own_NT)
    before_NT[:, 0] = START
    before_NT[:, 1:] = 1 + actions * own_NT[:, :-1] + other_NT[:, :-1]
    return before_NT


def distributions(chance: Floats) -> Floats:
    """Return probabilities p of the action 1 as distributions [1 - p, p] on a new last axis."""
    return np.stack([1.0 - chance, chance], axis=-1)


def mirrored(situation_C: Sequence[float]) -> Floats:
    """Return five values, one per situation, in the opponent's order: indices 2 and 3 swapped."""
    start, both_0, other_1, own_1, both_1 = situation_C
    return np.array([start, both_0, own_1, other_1, both_1])


class SituationReader:
    """Function object that returns the situation of a memory-one strategy in an observation.

    Args:
        fields: Names of the vector's entries, with first_round and own_cooperated.
        others: Name of the entry for the fraction of other agents that cooperated.
        seats: Number of agents, if that fraction includes the agent itself; otherwise None.

    Raises:
        ValueError: An entry is missing in `fields`.
    """

    def __init__(
        self,
        fields: Sequence[str] = OBSERVATION_FIELDS,
        *,
        others: str = "others_cooperated",
        seats: int | None = None,
    ) -> None:
        needed = ("first_round", "own_cooperated", others)
        self._first, self._own, self._others = map(list(fields).index, needed)
        self._seats = seats

    def __call__(self, observation: object) -> int:
        """Return the situation: 0 in the first round, then 1 + 2 * own + other's last action.

        `observation` is a vector, or a dict with the vector as "observation". An action is 1 for
        cooperation. The other's action is that of most other agents, on a tie the agent's own.
        """
        vector: Any = observation["observation"] if isinstance(observation, dict) else observation
        if vector[self._first] > 0.5:
            return START
        own = int(vector[self._own] > 0.5)
        share = float(vector[self._others])
        if self._seats is not None:
            company = self._seats - 1
            share = (round(share * self._seats) - own) / company if company else 0.5
        other = own if share == 0.5 else int(share > 0.5)
        return 1 + 2 * own + other


class MemoryOne(PerAgentPolicy):
    """Policy with a probability of cooperation per situation.

    Args:
        name: Name in records.
        chances: Probabilities in the first round, and after (own, other) = 00, 01, 10, 11;
            1 is cooperation.
        reader: Reader of the situation; by default for coop_compete_v0.

    Raises:
        ValueError: There are not five probabilities, or one is outside [0, 1].
    """

    def __init__(
        self, name: str, chances: Sequence[float], reader: SituationReader | None = None
    ) -> None:
        if len(chances) != SITUATIONS or not all(0.0 <= chance <= 1.0 for chance in chances):
            raise ValueError(f"chances must be five numbers within [0, 1], got {tuple(chances)}")
        self.name = name
        self.chances = tuple(float(chance) for chance in chances)
        looks = len(set(self.chances)) > 1
        self._reader = (reader or SituationReader()) if looks else None

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        situation = START if self._reader is None else self._reader(seen.observation)
        chance = self.chances[situation]
        action = int(state.random() < chance)
        return Decision(action, logprob=log(chance if action else 1.0 - chance))


class Always(MemoryOne):
    """Policy that always plays the same action.

    Args:
        action: 1 to cooperate, 0 to compete; others raise ValueError.
    """

    def __init__(self, action: int) -> None:
        if action not in (0, 1):
            raise ValueError(f"action must be 0 (compete) or 1 (cooperate), got {action!r}")
        name = ("always_compete", "always_cooperate")[action]
        super().__init__(name, STRATEGIES[name])


class Bernoulli(MemoryOne):
    """Policy that cooperates with a constant probability.

    Args:
        q: Probability of cooperation, in [0, 1]; others raise ValueError.
    """

    def __init__(self, q: float) -> None:
        super().__init__(f"random({q:g})", [q] * SITUATIONS)


class TitForTat(MemoryOne):
    """Policy that cooperates first, then repeats the last action of the opponents' majority.

    On a tie, the policy repeats its own action (Axelrod 1984).

    Args:
        reader: Reader of the situation; by default for coop_compete_v0.
    """

    def __init__(self, reader: SituationReader | None = None) -> None:
        super().__init__("tit_for_tat", STRATEGIES["tit_for_tat"], reader)
