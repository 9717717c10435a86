"""Games of a round, and among snapshots: from which starts, by whom and against whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.evaluation.scenarios import LONG_AFTER
from srl_agents.rollout import Branching
from srl_train.data.planned_games import PlannedGames
from srl_train.engine.state import Run
from srl_train.errors import TrainingError
from srl_train.opponent_pool import OpponentPool
from srl_train.returns import discounted_return


@dataclass(frozen=True)
class Games:
    """What a round plays, group after group."""

    number: int
    planned: PlannedGames
    opponents: Sequence[Mapping[str, str]]
    """Per game, pool -> the snapshot that plays its agents."""

    def by_opponents(self, numbers: Iterable[int]) -> list[list[int]]:
        """These games, those together that meet the same opponents."""
        found: dict[tuple[str, ...], list[int]] = {}
        for number in numbers:
            found.setdefault(tuple(self.opponents[number].values()), []).append(number)
        return list(found.values())

    def part(self, numbers: Sequence[int]) -> PlannedGames:
        """These games, which meet the same opponents, and say so."""
        opponents = self.opponents[numbers[0]]
        met = {"opponents": dict(opponents)} if opponents else {}
        return self.planned.part(numbers, extra={"round": self.number, **met})


def play_groups(run: Run, number: int) -> list[Episode]:
    """The round's episodes, group after group: one environment seed, `group_size` policy seeds."""
    return play(run, games_of(run, number), range(run.config.rollout.episodes))


def play(run: Run, games: Games, numbers: range) -> list[Episode]:
    """These of the round's games, in their order; with each draw of opponents, all that met it."""
    played: dict[int, Episode] = {}
    for alike in games.by_opponents(numbers):
        run.seat_opponents(games.opponents[alike[0]])
        played |= zip(alike, run.engine.rollout(run, games.part(alike)), strict=True)
    return [played[number] for number in numbers]


def games_of(run: Run, number: int) -> Games:
    """The round's games."""
    rollout = run.config.rollout
    rng = seeding.generator(run.config.seed, "round", number)
    seeds, policy_seeds = seeding.of_games(rng, rollout.episodes, rollout.per_start)
    first = number * rollout.groups_per_round
    seated = run.matchmaking.seatings(range(first, first + rollout.groups_per_round))
    grow_pools(run, number)
    drawn = run.draw_opponents(seeding.generator(run.config.seed, "opponents", number))
    planned = PlannedGames(
        seeds,
        policy_seeds,
        # A whole group is in the same phase of a staged game: compared members share their rules.
        [
            {"episode": number * len(seeds) + index - index % rollout.per_start}
            for index in range(len(seeds))
        ],
        [seats for seats in seated for _ in range(rollout.per_start)],
        record_states=run.config.records_states,
        branching=_branching(run),
    )
    opponents = [opponents for opponents in drawn for _ in range(rollout.per_start)]
    return Games(number, planned, opponents)


def grow_pools(run: Run, rounds: int) -> None:
    """Take the snapshots that are due after so many rounds, and have them meet the others where
    draws ask for it. Raises as `play_snapshots` does, and has taken none then."""
    if not run.pools_grow_at(rounds):
        return
    before = {name: list(pool.snapshots) for name, pool in run.pools.items()}
    weights = {name: learner.weights() for name, learner in run.learners.items()}
    try:
        for pool in run.pools.values():
            pool.grow(rounds, weights)
        for pool in run.pools.values():
            if pool.nash_games:
                run.seat_first_opponents()
                play_snapshots(run, pool, rounds)
    except BaseException:
        for name, snapshots in before.items():
            run.pools[name].snapshots = snapshots
        raise


def play_snapshots(run: Run, pool: OpponentPool, rounds: int) -> None:
    """Have the snapshots that the pool took after so many rounds meet those before them.

    A new one is played by its model, which has the same weights now, and holds all agents of models
    that learn while the other one holds the pool's, then the other way round; from the same starts.
    All other agents are played as in evaluations. Raises TrainingError where more than
    `max_failed_fraction` of two snapshots' games failed, or all of them in one of their places.
    """
    rng = seeding.generator(run.config.seed, "pool_games", rounds)
    env_seeds, policy_seeds = seeding.of_games(rng, pool.nash_games)
    for place, newer in enumerate(pool.snapshots):
        for older in pool.snapshots[:place] if newer.round == rounds else ():
            run.seat_opponents({pool.name: older.name})
            own, other = run.seatings_between(newer.model, pool.name)
            games = PlannedGames(
                env_seeds * 2,
                policy_seeds * 2,
                [{"episode": LONG_AFTER}] * 2 * pool.nash_games,
                [own] * pool.nash_games + [other] * pool.nash_games,
                extra={"opponents": {name: own.seated for name, own in run.pools.items()}},
            )
            played = run.engine.rollout(run, games)
            check_failures(run, played)
            halves = played[: pool.nash_games], played[pool.nash_games :]
            good = [[one for one in half if one.failure is None] for half in halves]
            if not all(good):
                raise TrainingError(
                    f"every game of {newer.name} with {older.name} failed; the first: "
                    f"{next(one.failure for one in played if one.failure)}"
                )
            pool.record_lead(newer, older, good)


def _branching(run: Run) -> Branching | None:
    """What the run's games try at every turn."""
    rollout = run.config.rollout
    if rollout.branching is None:
        return None

    def worth(episode: Episode, agent: str, turn: int) -> float:
        shaped = run.game(episode)[agent].shaped
        return discounted_return(shaped[episode.steps_before(agent, turn) :], rollout.discount)

    return Branching(
        run.agents_that_learn,
        rollout.group_size,
        worth,
        best=rollout.branching.follow == "best",
        to_the_end=rollout.branching.value == "game",
    )


def check_failures(run: Run, episodes: Sequence[Episode]) -> None:
    """Raise TrainingError where more than `max_failed_fraction` of the episodes failed."""
    failures = [episode.failure for episode in episodes if episode.failure is not None]
    share = len(failures) / len(episodes)
    if share > run.config.max_failed_fraction:
        raise TrainingError(
            f"{len(failures)} of {len(episodes)} episodes failed, max_failed_fraction is "
            f"{run.config.max_failed_fraction:g}; the first: {failures[0]}"
        )
