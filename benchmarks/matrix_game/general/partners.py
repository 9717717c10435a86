"""Scripted partners of the general suite, as tables of replies to the round before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from srl_agents.evaluation.matrix_game import Player, Seeds
from srl_agents.scripted.memory_one import START, STRATEGIES, distributions

PERIOD = 50  # episodes after which a switching partner turns into the other


def memory_one(actions: int) -> Mapping[str, NDArray[np.float64]]:
    """Partners that look one round back: name -> chances (situation as they see it, action)."""
    if actions == 2:
        chances = {
            "always_0": (0.0,) * 5,
            "always_1": (1.0,) * 5,
            "uniform": (0.5,) * 5,
            "contrary": (1.0, 1.0, 0.0, 1.0, 0.0),
            **STRATEGIES,
        }
        return {name: distributions(np.array(chance)) for name, chance in chances.items()}
    uneven = np.arange(1.0, actions + 1.0) / sum(range(actions + 1))
    return {
        "always_0": _same(np.eye(actions)[0]),
        "uniform": _same(np.full(actions, 1.0 / actions)),
        "uneven": _same(uneven),
        "repeats": _replies([other for own in range(actions) for other in range(actions)]),
        "moves_on": _replies(
            [(other + 1) % actions for own in range(actions) for other in range(actions)]
        ),
        "rotates": _replies(
            [(own + 1) % actions for own in range(actions) for other in range(actions)]
        ),
    }


def switching(actions: int) -> Mapping[str, tuple[str, str]]:
    """Partners that turn from one memory-one strategy into another, and back."""
    if actions == 2:
        return {
            "turncoat": ("always_1", "always_0"),
            "moody": ("tit_for_tat", "contrary"),
            "grim_or_random": ("grim_trigger", "mostly_compete"),
        }
    return {"turncoat": ("always_0", "moves_on"), "moody": ("repeats", "uneven")}


class ScriptedRuns:
    """N runs of memory-one strategies, each its own, that take turns every PERIOD episodes.

    `chances_SNCK` are the strategies' tables, in the order of their turns.
    """

    def __init__(self, seeds: Seeds, chances_SNCK: NDArray[np.float64]) -> None:
        self._chances_SNCK = chances_SNCK.cumsum(axis=3)[..., :-1]
        self._row = np.arange(chances_SNCK.shape[1])
        self._actions = chances_SNCK.shape[3]
        self._generator = np.random.default_rng(seeds[0])
        self._place_N = np.full(self._row.size, START)
        self._own_N = np.zeros(self._row.size, np.int8)
        self._episodes = 0

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """Actions, and 1 for their chances, which are not kept: (N,) each."""
        turn = self._episodes // PERIOD % len(self._chances_SNCK)
        below_NK = self._chances_SNCK[turn, self._row, self._place_N]
        drawn_N1 = self._generator.random(self._row.size)[:, None]
        self._own_N = (drawn_N1 >= below_NK).sum(axis=1).astype(np.int8)
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Remember the round."""
        self._place_N = 1 + self._actions * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Forget the episode."""
        self._place_N = np.full_like(self._place_N, START)
        self._episodes += 1


class Late:
    """A player who begins `delay` rounds later; until then somebody else plays, at random."""

    def __init__(self, player: Player, runs: int, actions: int, delay: int, seed: int) -> None:
        self._player, self._shape, self._delay = player, (runs, actions), delay
        self._generator = np.random.default_rng([seed, delay])
        self._rounds = self._before = 0  # of the episode, those before it began

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """Actions and chances."""
        if self._rounds >= self._delay:
            return self._player.act()
        runs, actions = self._shape
        return self._generator.integers(actions, size=runs).astype(np.int8), np.ones(runs)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Told to the player once it has begun."""
        if self._rounds >= self._delay:
            self._player.observe_opponent(other_N)
        else:
            self._before += 1
        self._rounds += 1

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """The player learns from the rounds that it played."""
        if self._before < own_NT.shape[1]:
            self._player.update(own_NT[:, self._before :], reward_NT[:, self._before :])
        self._before = 0


def from_the_other_side(chances_CK: NDArray[np.float64]) -> NDArray[np.float64]:
    """A table of replies by the situations as the other player sees them."""
    actions = chances_CK.shape[1]
    swapped = chances_CK[1:].reshape(actions, actions, actions).swapaxes(0, 1)
    return np.concatenate([chances_CK[:1], swapped.reshape(-1, actions)])


def _same(chance_K: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.tile(chance_K, (1 + chance_K.size**2, 1))


def _replies(after: Sequence[int]) -> NDArray[np.float64]:
    """Deterministic replies after (own, other); the first round is 0."""
    actions = round(len(after) ** 0.5)
    return np.eye(actions)[[0, *after]]
