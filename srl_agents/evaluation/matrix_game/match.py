"""Match of two players in the matrix game: many runs side by side on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.simple_pg import Uniforms
from srl_agents.evaluation.matrix_game.values import NOISE
from srl_agents.scripted.memory_one import SITUATIONS, START

LATE = 0.1  # share of the episodes, at the end, over which the final play is counted

Seeds = Sequence[np.random.SeedSequence]


class Player(Protocol):
    """N runs of one policy that go through their rounds together."""

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """Actions and chances of cooperating: (N,) each."""
        ...

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """What the others played."""
        ...

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """The end of an episode, with what was played and earned in it."""
        ...


@runtime_checkable
class PlaysAhead(Protocol):
    """A player that does not look at the other within an episode."""

    def act_ahead(self, rounds: int) -> NDArray[np.int8]:
        """The actions of the next rounds: (N, rounds)."""
        ...


class Scripted:
    """N runs of a MemoryOne strategy, one per seed."""

    def __init__(self, seeds: Seeds, chances: Sequence[float]) -> None:
        self._uniforms = Uniforms(seeds)
        self._chances = np.array(chances)
        self._own = np.zeros(len(seeds), np.int8)
        self._situation = np.full(len(seeds), START)

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """Actions and chances of cooperating."""
        chance = self._chances[self._situation]
        self._own = (self._uniforms.take(1)[0] < chance).astype(np.int8)
        return self._own, chance

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Remember the round."""
        self._situation = 1 + 2 * self._own + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Forget the episode."""
        self._situation = np.full_like(self._situation, START)


class Coin(Scripted):
    """The same for a strategy with the same chance in every situation."""

    def __init__(self, seeds: Seeds, chance: float) -> None:
        super().__init__(seeds, [chance] * SITUATIONS)

    def act_ahead(self, rounds: int) -> NDArray[np.int8]:
        """The actions of the next rounds: (N, rounds)."""
        return np.asarray(self._uniforms.take(rounds) < self._chances[START], np.int8).T


@dataclass(frozen=True)
class Outcome:
    """What two players earned: mean rewards per round."""

    rewards_2NE: NDArray[np.float64]
    """By player, run and episode."""
    late_N22: NDArray[np.float64]
    """Share of each joint action (player A's, player B's) in the last tenth of the episodes."""

    def of(self, player: int) -> NDArray[np.float64]:
        """Player 0's or 1's mean over all episodes, by run: (N,)."""
        return np.asarray(self.rewards_2NE[player].mean(axis=1))


def play_match(
    make_a: Callable[[Seeds], Player],
    make_b: Callable[[Seeds], Player],
    payoff_22: NDArray[np.float64],
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: Sequence[int],
) -> Outcome:
    """Play `episodes` episodes of `horizon` rounds, in `runs` independent runs.

    Rewards are the payoffs plus normal noise, never below 0. Every player and every noise in every
    run has a generator of its own from `seed`, so run i is the same however many runs there are.
    """
    a, b = (make(_seeds(seed, role, runs)) for role, make in enumerate((make_a, make_b)))
    noises = [[np.random.default_rng(s) for s in _seeds(seed, role, runs)] for role in (2, 3)]
    rewards = np.empty((2, runs, episodes))
    late_N22 = np.zeros((runs, 2, 2))
    late = max(1, round(LATE * episodes))
    for episode in range(episodes):
        a_NT, b_NT = _play_episode(a, b, runs, horizon)
        for player, own_NT, other_NT in ((0, a_NT, b_NT), (1, b_NT, a_NT)):
            drawn_NT = np.stack([one.standard_normal(horizon) for one in noises[player]])
            reward_NT = np.maximum(0.0, payoff_22[own_NT, other_NT] + NOISE * drawn_NT)
            (a, b)[player].update(own_NT, reward_NT)
            rewards[player, :, episode] = reward_NT.mean(axis=1)
        if episode >= episodes - late:
            for own in (0, 1):
                for other in (0, 1):
                    here_NT = (a_NT == own) & (b_NT == other)
                    late_N22[:, own, other] += here_NT.mean(axis=1) / late
    return Outcome(rewards, late_N22)


def _play_episode(
    a: Player, b: Player, runs: int, horizon: int
) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """What both play in an episode: (N, horizon) each."""
    if isinstance(a, PlaysAhead) and isinstance(b, PlaysAhead):
        return a.act_ahead(horizon), b.act_ahead(horizon)
    a_TN, b_TN = np.empty((2, horizon, runs), np.int8)
    for t in range(horizon):
        a_TN[t], b_TN[t] = a.act()[0], b.act()[0]
        a.observe_opponent(b_TN[t])
        b.observe_opponent(a_TN[t])
    return a_TN.T.copy(), b_TN.T.copy()


def _seeds(seed: Sequence[int], role: int, runs: int) -> list[np.random.SeedSequence]:
    return [np.random.SeedSequence([*seed, role, run]) for run in range(runs)]
