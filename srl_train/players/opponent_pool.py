"""Opponent pools: past snapshots of the models for self-play and leagues.

Training against the newest self alone can go round in circles; a pool of past selves, drawn
uniformly (fictitious self-play, Heinrich et al. 2015) or the harder ones more often (prioritized
fictitious self-play, Vinyals et al. 2019), makes progress against all of them. A pool of several
models' snapshots is a league.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from srl_agents.episode import Episode
from srl_train.config.models import PoolConfig
from srl_train.players.publisher import WeightPublisher

Weights = Mapping[str, Tensor]

PFSP_EXPONENT = 2.0
"""Prioritized draws: the exponent p of (1 - win rate)**p (Vinyals et al. 2019, f_hard)."""


@dataclass
class Snapshot:
    """A model as it was."""

    model: str
    round: int
    """Rounds that it had learned."""
    weights: Weights
    games: int = 0
    won: float = 0.0
    """Games that the models in training won against it; a draw is half a game."""

    @property
    def name(self) -> str:
        """Such as 'model_0@10'."""
        return f"{self.model}@{self.round}"

    @property
    def win_rate(self) -> float:
        """The learners' win rate against it, with one won and one lost game to start from."""
        return (self.won + 1.0) / (self.games + 2.0)


class OpponentPool:
    """Snapshots of one or more models, one of which plays the pool's agents at a time."""

    def __init__(self, name: str, config: PoolConfig, publisher: WeightPublisher) -> None:
        """`publisher` brings a snapshot to the model that plays for the pool; its version is the
        snapshot's name."""
        self.name = name
        self.seated: str | None = None
        """The snapshot that plays, by its name."""
        self.snapshots: list[Snapshot] = []
        """Oldest first; the very first of each model is never dropped."""
        self._config = config
        self._publisher = publisher

    def grow(self, rounds: int, weights: Mapping[str, Weights]) -> None:
        """Take snapshots of the pool's models, where `rounds` learned rounds make them due and
        they were not taken yet."""
        if not self.grows_at(rounds):
            return
        for model in self._config.of:
            copies = {name: tensor.detach().to("cpu", copy=True)
                      for name, tensor in weights[model].items()}  # fmt: skip
            self.snapshots.append(Snapshot(model, rounds, copies))
            own = [snapshot for snapshot in self.snapshots if snapshot.model == model]
            if len(own) > self._config.keep + 1:
                self.snapshots.remove(own[1])

    def grows_at(self, rounds: int) -> bool:
        """Whether snapshots are due then, and were not taken yet."""
        return not rounds % self._config.every and all(s.round != rounds for s in self.snapshots)

    @property
    def draws_each_group(self) -> bool:
        """Whether every group of games has a draw of its own."""
        return self._config.draw_each == "group"

    def draw(self, rng: np.random.Generator) -> str:
        """The name of a snapshot, as the pool's `draw` says."""
        chances = self.chances()
        return self.snapshots[int(rng.choice(len(chances), p=chances))].name

    def seat(self, name: str) -> None:
        """Load a snapshot: it plays from now on."""
        if self.seated != name:
            weights = self._named[name].weights
            self._publisher.publish(self.name, name, weights)
            self.seated = name

    def seat_first(self) -> None:
        """Load the oldest snapshot: evaluations always meet the same opponent."""
        self.seat(self.snapshots[0].name)

    def chances(self) -> list[float]:
        """Each snapshot's probability in the next draw."""
        if self._config.draw == "latest":
            newest = self.snapshots[-1].round
            scores = [float(snapshot.round == newest) for snapshot in self.snapshots]
        elif self._config.draw == "prioritized":
            scores = [(1.0 - snapshot.win_rate) ** PFSP_EXPONENT for snapshot in self.snapshots]
        else:
            scores = [1.0] * len(self.snapshots)
        total = math.fsum(scores)
        return [score / total for score in scores]

    def record_results(self, episodes: Iterable[Episode], learners: Sequence[str]) -> None:
        """Who won against the snapshot that an episode's `extra` says it met: mean return of
        `learners`' agents against the pool's.

        Games without an agent of either side say nothing.
        """
        named = self._named
        for episode in episodes:
            met = named[episode.extra["opponents"][self.name]]
            returns = episode.returns()
            ours = [returns[agent] for agent, who in episode.seats.items() if who in learners]
            theirs = [returns[agent] for agent, who in episode.seats.items() if who == self.name]
            if ours and theirs:
                ahead = math.fsum(ours) / len(ours) - math.fsum(theirs) / len(theirs)
                met.games += 1
                met.won += 0.5 if ahead == 0 else float(ahead > 0)

    def state(self) -> list[dict[str, Any]]:
        """Everything, for a checkpoint: plain data and tensors."""
        return [vars(snapshot) for snapshot in self.snapshots]

    def load_state(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Restore what `state` gave."""
        self.snapshots = [Snapshot(**record) for record in state]
        self.seated = None

    @property
    def _named(self) -> dict[str, Snapshot]:
        return {snapshot.name: snapshot for snapshot in self.snapshots}
