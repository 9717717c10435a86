"""Opponent pools: past snapshots of the models for self-play and leagues.

Draws are uniform (Heinrich et al. 2015), prefer harder snapshots (Vinyals et al. 2019), or follow
the Nash equilibrium of the episodes between snapshots (Lanctot et al. 2017).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from srl_agents.episode import Episode
from srl_agents.evaluation.nash_averaging import nash_average
from srl_train.config.models import PoolConfig
from srl_train.errors import CheckpointError
from srl_train.learners.learner import model_weights
from srl_train.tensor_checks import misfit

if TYPE_CHECKING:
    from srl_train.publisher import WeightPublisher

Weights = Mapping[str, Tensor]

PFSP_EXPONENT = 2.0
"""Exponent p of (1 - win rate)**p in prioritized draws (Vinyals et al. 2019, f_hard)."""


@dataclass
class Snapshot:
    """Past weights of a model, and the results of episodes against them."""

    model: str
    round: int
    """Number of complete rounds before the snapshot."""
    weights: Weights
    games: int = 0
    """Number of training episodes against the snapshot."""
    won: float = 0.0
    """Number of these that the models in training won; a draw counts half."""
    leads: dict[str, float] = field(default_factory=dict)
    """Name of older snapshot -> mean return minus its mean return, with draw nash."""

    @property
    def name(self) -> str:
        """Name, such as 'model_0@10' for model_0 after 10 rounds."""
        return f"{self.model}@{self.round}"

    @property
    def win_rate(self) -> float:
        """Win rate of models in training against this snapshot: (won + 1) / (games + 2)."""
        return (self.won + 1.0) / (self.games + 2.0)


class OpponentPool:
    """Pool of snapshots of models, one of which at a time plays the agents assigned to the pool."""

    def __init__(self, name: str, config: PoolConfig, publisher: WeightPublisher) -> None:
        self.name = name
        self.seated: str | None = None
        """Name of the snapshot whose weights are published, if there is one."""
        self.snapshots: list[Snapshot] = []
        """Snapshots, the oldest first. The first of each model is never dropped."""
        self._config = config
        self._publisher = publisher

    @property
    def nash_episodes(self) -> int:
        """Number of episodes per pair of snapshots and side; 0 unless `draw` is nash."""
        return self._config.nash_episodes if self._config.draw == "nash" else 0

    def grow(self, rounds: int, weights: Mapping[str, Weights]) -> None:
        """Add a snapshot of each model of the pool, if due after `rounds` rounds.

        `weights` (by model) are copied. A model keeps its first and its `keep` newest snapshots.
        """
        if not self.grows_at(rounds):
            return
        for model in self._config.models:
            live = weights[model].items()
            copies = {name: tensor.detach().to("cpu", copy=True) for name, tensor in live}
            self.snapshots.append(Snapshot(model, rounds, copies))
            snapshots = [snapshot for snapshot in self.snapshots if snapshot.model == model]
            if len(snapshots) > self._config.keep + 1:
                self.snapshots.remove(snapshots[1])

    def grows_at(self, rounds: int) -> bool:
        """Return True if `rounds` is a multiple of the setting `every` and has no snapshot yet."""
        return not rounds % self._config.every and all(s.round != rounds for s in self.snapshots)

    def draw(self, rng: np.random.Generator) -> str:
        """Draw a snapshot with the probabilities of `chances`; return its name, as "model_0@10"."""
        chances = self.chances()
        return self.snapshots[int(rng.choice(len(chances), p=chances))].name

    def seat(self, name: str) -> None:
        """Publish the weights of the snapshot `name`, which then plays, unless it plays already."""
        if self.seated != name:
            self._publisher.publish(self.name, name, self._named[name].weights)
            self.seated = name

    def chances(self) -> list[float]:
        """Return the probability of each snapshot in the next draw; there must be one."""
        if self._config.draw == "nash":
            return list(_equilibrium(tuple(map(tuple, self.payoffs().tolist()))))
        if self._config.draw == "latest":
            newest = self.snapshots[-1].round
            scores = [float(snapshot.round == newest) for snapshot in self.snapshots]
        elif self._config.draw == "prioritized":
            scores = [(1.0 - snapshot.win_rate) ** PFSP_EXPONENT for snapshot in self.snapshots]
        else:
            scores = [1.0] * len(self.snapshots)
        return [score / math.fsum(scores) for score in scores]

    def payoffs(self) -> NDArray[np.float64]:
        """Return the matrix of mean return of the row's snapshot minus the column's.

        Rows and columns are in the order of `snapshots`. Requires draw "nash".
        """
        leads = np.zeros((len(self.snapshots), len(self.snapshots)))
        for row, newer in enumerate(self.snapshots):
            for column, older in enumerate(self.snapshots[:row]):
                leads[row, column] = newer.leads[older.name]
        return leads - leads.T

    def record_lead(
        self, newer: Snapshot, older: Snapshot, places: Sequence[Sequence[Episode]]
    ) -> None:
        """Record the newer snapshot's mean return minus the older one's, in `newer.leads`.

        `places` has a list of episodes per assignment of agents; all lists have equal weight.
        The pool plays the older snapshot, and the model of `newer` the newer one.
        """
        leads = [np.mean([self._lead(e, [newer.model]) for e in played]) for played in places]
        newer.leads[older.name] = float(np.mean(leads))

    def record_results(self, episodes: Iterable[Episode], learners: Sequence[str]) -> None:
        """Add episodes, none of them failed, to `games` and `won` of the snapshots in them.

        An episode is won if the mean return of the agents of `learners` (names of models) exceeds
        that of the pool's agents, half if equal. Episodes without one of the sides are ignored.
        """
        named = self._named
        for episode in episodes:
            met = named[episode.extra["opponents"][self.name]]
            lead = self._lead(episode, learners)
            if lead is not None:
                met.games += 1
                met.won += 0.5 if lead == 0 else float(lead > 0)

    def state(self) -> list[dict[str, Any]]:
        """Return the fields of each snapshot, not copied, as dictionaries for a checkpoint."""
        return [vars(snapshot) for snapshot in self.snapshots]

    def load_state(
        self, snapshots: Sequence[Snapshot], rounds: int, models: Mapping[str, Weights]
    ) -> None:
        """Replace the snapshots by those of a checkpoint after `rounds` rounds; publish none.

        `models` is model -> current weights, whose names, shapes and types are compared. Raises
        CheckpointError if the snapshots do not fit; the pool is then unchanged.
        """
        before, self.snapshots = self.snapshots, list(snapshots)
        try:
            self._check(rounds, models)
        except (LookupError, ValueError, ArithmeticError) as error:
            self.snapshots = before
            raise CheckpointError(
                f"the snapshots of pool {self.name} do not fit: {error!r:.200}"
            ) from error
        self.seated = None

    def _check(self, rounds: int, models: Mapping[str, Weights]) -> None:
        first = {one.model for one in self.snapshots if one.round == 0}
        # Before round 0 a pool may be empty.
        if (self.snapshots or rounds) and first != set(self._config.models):
            expected = list(self._config.models)
            raise ValueError(f"first snapshots of {sorted(first)}, not of {expected}")
        for one in self.snapshots:
            if one.model not in self._config.models:
                raise ValueError(f"a snapshot of {one.model!r}")
            if wrong := misfit(model_weights(one.weights), model_weights(models[one.model])):
                raise ValueError(f"{one.name}: {wrong}")
        if self.snapshots and not all(map(math.isfinite, self.chances())):
            raise ValueError("the chances of the next draw are not finite")

    def _lead(self, episode: Episode, models: Collection[str]) -> float | None:
        returns = episode.returns()
        ours = [returns[agent] for agent, player in episode.seats.items() if player in models]
        theirs = [returns[agent] for agent, player in episode.seats.items() if player == self.name]
        if not ours or not theirs:
            return None
        return math.fsum(ours) / len(ours) - math.fsum(theirs) / len(theirs)

    @property
    def _named(self) -> dict[str, Snapshot]:
        return {snapshot.name: snapshot for snapshot in self.snapshots}


@lru_cache(maxsize=16)
def _equilibrium(payoffs: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    if len(payoffs) == 1:
        return (1.0,)
    return tuple(nash_average(payoffs).weights.tolist())
