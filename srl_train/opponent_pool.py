"""Opponent pools: past snapshots of the models for self-play and leagues.

Training against the newest self alone can go round in circles; a pool of past selves, drawn
uniformly (fictitious self-play, Heinrich et al. 2015) or the harder ones more often (prioritized
fictitious self-play, Vinyals et al. 2019), makes progress against all of them. Drawn by the Nash
equilibrium of the games among them, they are what policy-space response oracles (PSRO, Lanctot et
al. 2017, after the double oracle of McMahan et al. 2003) train against. A pool of several models'
snapshots is a league.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from srl_agents.episode import Episode
from srl_agents.evaluation.nash_averaging import nash_average
from srl_envs.records import checked, read_record
from srl_train.checkpoints.tensor_tree import misfit
from srl_train.config.models import PoolConfig
from srl_train.errors import CheckpointError
from srl_train.learners.learner import without_critic

if TYPE_CHECKING:
    from srl_train.publisher import WeightPublisher

Weights = Mapping[str, Tensor]

PFSP_EXPONENT = 2.0
"""Prioritized draws: the exponent p of (1 - win rate)**p (Vinyals et al. 2019, f_hard)."""
LARGEST_LEAD = sys.float_info.max / 1e8
"""Of leads in checkpoints: what is computed from larger ones may not be finite."""


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
    leads: dict[str, float] = field(default_factory=dict)
    """Older snapshot -> by how much the mean return of this one's agents was above that of its, in
    the games of the two; where draws ask for them."""

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

    def __init__(
        self, name: str, config: PoolConfig, publisher: WeightPublisher | None = None
    ) -> None:
        """`publisher` brings a snapshot to the model that plays for the pool; its version is the
        snapshot's name. A pool that seats nobody needs none."""
        self.name = name
        self.seated: str | None = None
        """The snapshot that plays, by its name."""
        self.snapshots: list[Snapshot] = []
        """Oldest first; the very first of each model is never dropped."""
        self._config = config
        self._publisher = publisher

    @property
    def nash_games(self) -> int:
        """Games of a new snapshot with each other one, in each of the two places; 0 where draws ask
        for none."""
        return self._config.nash_games if self._config.draw == "nash" else 0

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
            assert self._publisher is not None
            weights = self._named[name].weights
            self._publisher.publish(self.name, name, weights)
            self.seated = name

    def seat_first(self) -> None:
        """Load the oldest snapshot: evaluations always meet the same opponent."""
        self.seat(self.snapshots[0].name)

    def chances(self) -> list[float]:
        """Each snapshot's probability in the next draw."""
        if self._config.draw == "nash":
            return list(_equilibrium(tuple(map(tuple, self.payoffs().tolist()))))
        if self._config.draw == "latest":
            newest = self.snapshots[-1].round
            scores = [float(snapshot.round == newest) for snapshot in self.snapshots]
        elif self._config.draw == "prioritized":
            scores = [(1.0 - snapshot.win_rate) ** PFSP_EXPONENT for snapshot in self.snapshots]
        else:
            scores = [1.0] * len(self.snapshots)
        total = math.fsum(scores)
        return [score / total for score in scores]

    def payoffs(self) -> NDArray[np.float64]:
        """[own, other]: what a snapshot's lead over another came to in their games, antisymmetric;
        of pools that draw by them."""
        leads = np.zeros((len(self.snapshots), len(self.snapshots)))
        for own, newer in enumerate(self.snapshots):
            for other, older in enumerate(self.snapshots[:own]):
                leads[own, other] = newer.leads[older.name]
        payoffs: NDArray[np.float64] = leads - leads.T
        return payoffs

    def record_lead(
        self, newer: Snapshot, older: Snapshot, places: Sequence[Sequence[Episode]]
    ) -> None:
        """What came of the games of two snapshots, place by place of the newer one, which its model
        played: each place counts alike."""
        leads = [np.mean([self._lead(e, [newer.model]) for e in played]) for played in places]
        newer.leads[older.name] = float(np.mean(leads))

    def record_results(self, episodes: Iterable[Episode], learners: Sequence[str]) -> None:
        """Who won against the snapshot that an episode's `extra` says it met: mean return of
        `learners`' agents against the pool's.

        Games without an agent of either side say nothing.
        """
        named = self._named
        for episode in episodes:
            met = named[episode.extra["opponents"][self.name]]
            lead = self._lead(episode, learners)
            if lead is not None:
                met.games += 1
                met.won += 0.5 if lead == 0 else float(lead > 0)

    def state(self) -> list[dict[str, Any]]:
        """Everything, for a checkpoint: plain data and tensors."""
        return [vars(snapshot) for snapshot in self.snapshots]

    def load_state(self, state: Any, rounds: int, models: Mapping[str, Weights]) -> None:
        """Restore what `state` gave after so many rounds; `models`: all weights of each of the
        pool's models, whose names and shapes its snapshots have.

        Raises CheckpointError for what `state` cannot have given, and changes nothing then.
        """
        before = self.snapshots
        try:
            self.snapshots = self._checked(state, rounds, models)
            if self.snapshots and not all(map(math.isfinite, self.chances())):
                raise ValueError("the chances of the next draw are not finite")
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            self.snapshots = before
            raise CheckpointError(
                f"the pool {self.name} has no snapshots as this release writes them: {error!r:.200}"
            ) from error
        self.seated = None

    def _checked(self, state: Any, rounds: int, models: Mapping[str, Weights]) -> list[Snapshot]:
        found = [_snapshot(record) for record in checked(list, state)]
        taken = [one.round for one in found]
        if taken != sorted(taken) or not all(0 <= number <= rounds for number in taken):
            raise ValueError(f"snapshots of the rounds {taken} after {rounds}, the oldest first")
        first = {one.model for one in found if one.round == 0}
        if (found or rounds) and first != set(self._config.of):  # before round 0 it may be empty
            raise ValueError(f"first snapshots of {sorted(first)}, not of {list(self._config.of)}")
        for place, one in enumerate(found):
            if one.model not in self._config.of:
                raise ValueError(f"a snapshot of {one.model!r}")
            if wrong := misfit(without_critic(one.weights), without_critic(models[one.model])):
                raise ValueError(f"{one.name}: {wrong}")
            if self.nash_games and any(older.name not in one.leads for older in found[:place]):
                raise ValueError(f"{one.name} has not met all that are older")
        if len(found) > len({one.name for one in found}):
            raise ValueError("one of them twice")
        kept = Counter(one.model for one in found)
        if max(kept.values(), default=0) > self._config.keep + 1:
            raise ValueError(f"{kept.most_common(1)[0]}, and {self._config.keep} are kept")
        return found

    def _lead(self, episode: Episode, models: Collection[str]) -> float | None:
        """By how much the mean return of these models' agents is above that of the pool's; None
        without an agent of either side."""
        returns = episode.returns()
        ours = [returns[agent] for agent, who in episode.seats.items() if who in models]
        theirs = [returns[agent] for agent, who in episode.seats.items() if who == self.name]
        if not ours or not theirs:
            return None
        return math.fsum(ours) / len(ours) - math.fsum(theirs) / len(theirs)

    @property
    def _named(self) -> dict[str, Snapshot]:
        return {snapshot.name: snapshot for snapshot in self.snapshots}


def load_pools(
    pools: Mapping[str, OpponentPool], saved: Any, models: Mapping[str, Weights]
) -> None:
    """Restore all opponent pools of a run from its checkpoint; `models` as in `load_state`.

    Raises CheckpointError where these are not the checkpoint's pools, after its rounds.
    """
    states = saved.state.get("pools") if isinstance(saved.state, dict) else None
    try:
        if not isinstance(states, dict) or states.keys() != pools.keys():
            there = sorted(map(str, states)) if isinstance(states, dict) else states
            raise CheckpointError(
                f"its opponent pools are {there!r:.200}, those of its configuration {list(pools)}"
            )
        for name, pool in pools.items():
            pool.load_state(states[name], saved.round, models)
    except CheckpointError as error:
        raise saved.unusable(f"{saved.path / 'state.json'}: {error}") from error


@lru_cache(maxsize=16)
def _equilibrium(payoffs: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """The weights of most entropy that nobody beats: solved once, though every group draws."""
    if len(payoffs) == 1:
        return (1.0,)
    return tuple(nash_average(payoffs).weights.tolist())


def _snapshot(record: Any) -> Snapshot:
    """What a checkpoint says of one. Raises LookupError, TypeError or ValueError for what `state`
    never gives."""
    found = read_record(Snapshot, {"leads": {}, **record})
    if not 0 <= found.won <= found.games:
        raise ValueError(f"{found.name} lost {found.won} of {found.games} games")
    if not all(abs(lead) <= LARGEST_LEAD for lead in found.leads.values()):  # NaN is not
        raise ValueError(f"{found.name} leads by what is not finite, or too large")
    return found
