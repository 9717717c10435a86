"""One training round: rollout, advantages, buffering, update, metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from torch import Tensor

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.rollout import BranchedEpisode
from srl_train.credit import REPLAY_SCHEMES, CounterfactualCredit, assign_credit
from srl_train.data.branches import branch_samples
from srl_train.data.sample_buffer import UpdateBatch
from srl_train.data.samples import TokenSample, complete_groups, samples_for
from srl_train.engine import resume
from srl_train.engine.games import Games, check_failures, games_of, play, play_groups
from srl_train.engine.records import round_metrics
from srl_train.engine.state import Run
from srl_train.engine.update import UpdateStats, distance, exchange_models
from srl_train.metrics import round_warnings
from srl_train.replays import Replays
from srl_train.scores import model_scores, start_returns
from srl_train.trajectory import Game
from srl_train.updates import RoundContext, no_copies

AtOnce = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class RoundResult:
    """What a round leaves behind."""

    row: dict[str, Any]
    """For metrics.jsonl."""
    episodes: tuple[Episode, ...]


@dataclass(frozen=True)
class Played:
    """A round whose games are over: what models learn from, and what is told of it."""

    number: int
    episodes: tuple[Episode, ...]
    kept: Sequence[Episode]
    left_out: Sequence[Episode]
    games: Sequence[Game]
    samples: Mapping[str, Sequence[TokenSample]]
    """Model -> its samples."""
    never_asked: Mapping[str, Mapping[str, int]]
    """Model -> agent -> games left out because it was not asked in one of their group."""
    scores: Mapping[str, float]
    returns: Mapping[str, Sequence[float]]
    """Model -> what it earned above like agents, for each start from which it played."""
    mode_state: Mapping[str, float]
    """The mode's, after this round."""
    warned: Sequence[str]
    replayed_steps: int
    """Of environments, in replays and branches for credit."""


class Rounds(Protocol):
    """How a run's rounds follow one another."""

    @property
    def ahead(self) -> bool:
        """Whether models may have learned from rounds beyond the last that was given."""
        ...

    def next_round(self) -> RoundResult:
        """The run's next round, played and learned from."""
        ...

    def settle(self) -> list[RoundResult]:
        """Rounds beyond the last that was given, of which models have learned already; from now on
        and until `next_round` is called the run's state is whole, and that after the last of them.
        """
        ...

    def close(self) -> None:
        """End what is under way."""
        ...


class InTurn:
    """Rounds that begin when the one before has been learned from; see Rounds."""

    ahead: ClassVar = False

    def __init__(self, run: Run, *, at_once: AtOnce = nullcontext, undoes: bool = False) -> None:
        """Prepare the rounds of `run`.

        Args:
            run: The run; its next round is the first.
            at_once: Context in which games are played, which change nothing of the run's state.
            undoes: Whether a failed round restores the run, from a copy in memory.
        """
        self._run, self._at_once, self._undoes = run, at_once, undoes
        self._games: Games | None = None
        """Those of the round under way."""
        self._episodes: list[Episode] = []
        self._seconds = 0.0
        """In which games of it were under way."""

    @property
    def games_played(self) -> int:
        """Of the round under way, by `play_game`."""
        return len(self._episodes)

    def play_game(self) -> Episode:
        """The next game of the next round alone; the round's last one is not learned from before
        `next_round`."""
        return self._play(1)[-1]

    def next_round(self) -> RoundResult:
        """Play what is left of the round, then learn.

        Raises as `run_round`. Whatever is raised, the next time the round begins anew.
        """
        number = self._run.next_round
        before = resume.held(self._run) if self._undoes else None
        try:
            if self._games is None:
                return run_round(self._run, number, self._at_once)
            with self._at_once():
                self._play(self._run.config.rollout.episodes - len(self._episodes))
            return _learned(self._run, number, self._episodes, self._seconds)
        except BaseException:
            if before is not None:
                resume.put_back(self._run, before)
            raise
        finally:
            self.close()

    def settle(self) -> list[RoundResult]:
        """None: nothing is learned between two rounds."""
        return []

    def close(self) -> None:
        """Forget the games of a round under way."""
        self._games, self._episodes, self._seconds = None, [], 0.0

    def _play(self, games: int) -> list[Episode]:
        """So many more games of the round, at once; returns all of it so far."""
        began = time.perf_counter()
        if self._games is None:
            self._games = games_of(self._run, self._run.next_round)
        first = len(self._episodes)
        self._episodes += play(self._run, self._games, range(first, first + games))
        self._seconds += time.perf_counter() - began
        return self._episodes


def run_round(run: Run, number: int, at_once: AtOnce = nullcontext) -> RoundResult:
    """Play and learn once; changes the run's models and state.

    Raises TrainingError where more than `max_failed_fraction` of the episodes failed. `at_once` is
    the context in which the games are played.
    """
    began = time.perf_counter()
    with at_once():
        episodes = play_groups(run, number)
    return _learned(run, number, episodes, time.perf_counter() - began)


def _learned(
    run: Run, number: int, episodes: Sequence[Episode], rollout_seconds: float
) -> RoundResult:
    began = time.perf_counter()
    played = entered(run, number, episodes)
    updates = learn_from(run, played, run.learners)
    seconds = {"rollout": rollout_seconds, "train": time.perf_counter() - began}
    return result(run, played, updates, seconds)


def entered(run: Run, number: int, episodes: Sequence[Episode]) -> Played:
    """The round as it is learned from: rewards shaped, credit assigned, samples made.

    Rounds enter in their order, for credit, the mode's balance, the pools' win rates and the totals
    move on with each. Raises TrainingError where more than `max_failed_fraction` of the episodes
    failed, and has then changed nothing.
    """
    rollout = run.config.rollout
    kept, left_out = complete_groups(episodes, rollout.per_start)
    check_failures(run, episodes)
    games, replayed_steps = _shaped_games(run, number, kept)
    games, run.credit_state = assign_credit(
        games,
        rollout.per_start,
        run.credit,
        run.agent_roles(),
        run.credit_state,
    )
    samples: dict[str, Sequence[TokenSample]] = {}
    never_asked: dict[str, Mapping[str, int]] = {}
    for model in run.learners:
        samples[model], never_asked[model] = _samples_of(run, model, kept, games, number)
    run.end_round(kept)
    return Played(
        number,
        tuple(episodes),
        kept,
        left_out,
        games,
        samples,
        never_asked,
        model_scores(kept, run.learners, run.roles),
        start_returns(kept, run.learners, run.roles),
        dict(run.mode_state),
        [
            *round_warnings.warn_of_failed_games(run, episodes, len(left_out)),
            *round_warnings.warn_of_unreadable_answers(run, kept),
        ],
        replayed_steps,
    )


def _shaped_games(run: Run, number: int, kept: Sequence[Episode]) -> tuple[list[Game], int]:
    """(the games as credit sees them, environments' steps in replays and branches)."""
    games = [run.game(episode) for episode in kept]
    if run.config.rollout.branching is not None:
        return games, sum(e.branch_steps for e in kept if isinstance(e, BranchedEpisode))
    if run.config.credit.name not in REPLAY_SCHEMES:
        return games, 0
    credit = run.config.credit
    alternatives = credit.alternatives if isinstance(credit, CounterfactualCredit) else None
    replays = Replays(alternatives, run.make_env, run.game, run.config.rollout.discount)
    rng = seeding.generator(run.config.seed, "credit", number)
    return replays.with_gains(kept, games, run.agents_that_learn, rng), replays.steps


def _samples_of(
    run: Run, model: str, kept: Sequence[Episode], games: Sequence[Game], number: int
) -> tuple[list[TokenSample], dict[str, int]]:
    """(the model's samples, agent -> games left out because it was not asked in one of their
    group)."""
    rollout, agents = run.config.rollout, run.agents_of(model)
    if rollout.branching is not None:
        return branch_samples(model, kept, number), dict.fromkeys(agents, 0)
    pairs = list(zip(kept, games, strict=True))
    played = {a: [game for e, game in pairs if e.seats[a] == model] for a in agents}
    return samples_for(
        played,
        group_size=rollout.group_size,
        discount=rollout.discount,
        round_number=number,
    )


def learn_from(run: Run, played: Played, models: Collection[str]) -> dict[str, UpdateStats]:
    """Put the round's samples into these models' buffers, and update them while their budgets are
    full."""
    for model in models:
        run.buffers[model].add(played.samples[model])
    updates = {model: UpdateStats() for model in models}
    before: dict[str, dict[str, Tensor]] = {}  # of a model's first update
    context = RoundContext(
        played.number, 0, played.scores, returns=played.returns, seed=run.config.seed
    )
    update_index = 0
    while batches := _full_budgets(run, played.number, models):
        before = {**run.engine.update(run, batches, context, update_index, updates), **before}
        update_index += 1
    if run.strategy.exchange is not no_copies:
        before = {**exchange_models(run, context, updates), **before}
    for model, update in updates.items():
        if model in before:
            update.weight_change = distance(before[model], run.learners[model].weights())
        update.version = run.versions[model]
        update.dropped = run.buffers[model].dropped.copy()
    return updates


def _full_budgets(run: Run, number: int, models: Collection[str]) -> dict[str, UpdateBatch]:
    taken = {model: run.buffers[model].take(run.versions[model], number) for model in models}
    return {model: batch for model, batch in taken.items() if batch is not None}


def result(
    run: Run, played: Played, updates: Mapping[str, UpdateStats], seconds: Mapping[str, float]
) -> RoundResult:
    """The round's row and episodes."""
    row = round_metrics.row(run, played, updates, seconds)
    alike = round_warnings.warn_of_equal_rewards(run, played.number, played.samples, updates)
    if warned := [*played.warned, *alike]:
        row["warnings"] = warned
    return RoundResult(row, played.episodes)
