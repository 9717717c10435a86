"""Games of a round: from which starts, by whom and against whom they are played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.rollout import Branching
from srl_train.advantages.returns import discounted_return
from srl_train.engine.state import Run


class Settings(TypedDict):
    """What some games play, as the engine's rollouts take it."""

    env_seeds: list[int]
    policy_seeds: list[int]
    options: list[Mapping[str, Any]]
    seatings: list[Mapping[str, str]]
    extra: Mapping[str, Any]
    record_states: bool


@dataclass(frozen=True)
class Games:
    """What a round plays, group after group."""

    number: int
    env_seeds: Sequence[int]
    policy_seeds: Sequence[int]
    options: Sequence[Mapping[str, Any]]
    seatings: Sequence[Mapping[str, str]]
    """Per game, agent -> who plays it."""
    opponents: Sequence[Mapping[str, str]]
    """Per game, pool -> the snapshot that plays its agents."""
    record_states: bool

    def by_opponents(self, numbers: Iterable[int]) -> list[list[int]]:
        """These games, those together that meet the same opponents."""
        found: dict[tuple[str, ...], list[int]] = {}
        for number in numbers:
            found.setdefault(tuple(self.opponents[number].values()), []).append(number)
        return list(found.values())

    def settings(self, numbers: Sequence[int]) -> Settings:
        """Of these games, which meet the same opponents."""
        opponents = self.opponents[numbers[0]]
        return {
            "env_seeds": [self.env_seeds[number] for number in numbers],
            "policy_seeds": [self.policy_seeds[number] for number in numbers],
            "options": [self.options[number] for number in numbers],
            "seatings": [self.seatings[number] for number in numbers],
            "extra": {
                "round": self.number,
                **({"opponents": dict(opponents)} if opponents else {}),
            },
            "record_states": self.record_states,
        }


def play_groups(run: Run, number: int) -> list[Episode]:
    """The round's episodes, group after group: one environment seed, `group_size` policy seeds."""
    return play(run, games_of(run, number), range(run.config.rollout.episodes))


def play(run: Run, games: Games, numbers: range) -> list[Episode]:
    """These of the round's games, in their order; with each draw of opponents, all that met it."""
    branching = _branching(run)
    played: dict[int, Episode] = {}
    for alike in games.by_opponents(numbers):
        run.seat_opponents(games.opponents[alike[0]])
        episodes = run.engine.rollout(run, **games.settings(alike), branching=branching)
        played |= zip(alike, episodes, strict=True)
    return [played[number] for number in numbers]


def games_of(run: Run, number: int) -> Games:
    """The round's games."""
    rollout = run.config.rollout
    rng = seeding.generator(run.config.seed, "round", number)
    env_seeds = [int(s) for s in rng.integers(2**31, size=rollout.groups_per_round)]
    seeds = [seed for seed in env_seeds for _ in range(rollout.per_start)]
    policy_seeds = [int(s) for s in rng.integers(2**63, size=len(seeds))]
    first = number * rollout.groups_per_round
    seated = run.matchmaking.seatings(range(first, first + rollout.groups_per_round))
    drawn = run.draw_opponents(number, seeding.generator(run.config.seed, "opponents", number))
    return Games(
        number,
        seeds,
        policy_seeds,
        # A whole group is in the same phase of a staged game: compared members share their rules.
        [
            {"episode": number * len(seeds) + index - index % rollout.per_start}
            for index in range(len(seeds))
        ],
        [seats for seats in seated for _ in range(rollout.per_start)],
        [opponents for opponents in drawn for _ in range(rollout.per_start)],
        run.config.records_states,
    )


def _branching(run: Run) -> Branching | None:
    """What the run's games try at every turn."""
    rollout = run.config.rollout
    if rollout.branching is None:
        return None

    def worth(episode: Episode, agent: str, turn: int) -> float:
        return discounted_return(run.game(episode)[agent].shaped[turn:], rollout.discount)

    return Branching(
        run.agents_that_learn,
        rollout.group_size,
        worth,
        best=rollout.branching.follow == "best",
        to_the_end=rollout.branching.value == "game",
    )
