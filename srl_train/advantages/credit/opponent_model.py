"""Opponent-model credit: rewards without what is due to the opponents' actions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from srl_train.advantages.credit.assignment import Assignment, Group, Seating, by_agent
from srl_train.advantages.credit.comparison import compared_turns
from srl_train.data.trajectory import Game

Action = int | str
"""A choice's number, or what was written where any text is a move."""
Met = tuple[tuple[Action, ...], tuple[Action, ...]]
"""What the team mates and what the opponents chose at one turn, each sorted."""
Course = tuple[tuple[Action, Met], ...]
"""The own choice and the others' at every turn so far."""


def opponent_model(discount: float, scale: str) -> Assignment:
    """`agent_turn` on the rewards less the partners' luck, r_t - l_t.

    From a group's games, for each agent: pay(a, o), the mean of its rewards at the turns of the
    *other* games at which it chose a while the others chose o (of all their turns where the pair
    was not met there), and p(o | h), how often the others chose o after the very same course h of
    the game: the own choices and the others' at every turn before. Then

        l_t = pay(a_t, o_t) - sum over o of p(o | h_t) * pay(a_t, o)

    is how much better it fared than it would with its estimate of the others, who chose without
    knowing a_t.

    A control variate, as in AIVAT (Burch et al. 2018); conditioning a baseline on the others'
    simultaneous choices is that of COMA (Foerster et al. 2018, eq. 4) and of factorised baselines
    (Wu et al. 2018). Games that share the course h_t draw what the others choose there from one
    distribution, whatever a_t is and however far back the others look, and pay is of other games:
    so l_t has mean zero given h_t and a_t, and taking it off changes no expectation. Replies that
    the own choice brings about stay in the rewards to come.

    What is taken off is little where courses are rarely shared: with choices that vary, the luck of
    the first turns only. Where no course is shared this is `agent_turn`. What both sides see
    beside their choices, such as chance drawn in the middle of a game, is no part of h: there the
    choices may go together, and the estimate is off by as much as they do.
    """

    return by_agent(
        lambda group, agent, seating: compared_turns(
            without_luck(group, agent, seating), discount, scale
        )
    )


def without_luck(group: Group, agent: str, seating: Seating) -> list[list[float]]:
    """The agent's rewards r_t - l_t, by game and turn."""
    met = [_met(game, agent, seating) for game in group]
    tables = [
        _Sums.of(game[agent].actions, others, game[agent].shaped)
        for game, others in zip(group, met, strict=True)
    ]
    whole = _Sums.together(tables)
    seen: dict[Course, Counter[Met]] = defaultdict(Counter)
    courses: list[list[Course]] = []
    for game, others in zip(group, met, strict=True):
        turns = tuple(zip(game[agent].actions, others, strict=True))
        courses.append([turns[:number] for number in range(len(turns))])
        for course, other in zip(courses[-1], others, strict=True):
            seen[course][other] += 1

    def luck(number: int, course: Course, choice: Action, other: Met) -> float:
        replies = seen[course]
        if len(replies) < 2:
            return 0.0
        pay = {o: whole.mean_without(tables[number], (choice, o)) for o in replies}
        expected = math.fsum(n * pay[o] for o, n in replies.items()) / replies.total()
        return pay[other] - expected

    return [
        [
            float(reward) - luck(number, course, choice, other)
            for reward, course, choice, other in zip(
                game[agent].shaped, courses[number], game[agent].actions, met[number], strict=True
            )
        ]
        for number, game in enumerate(group)
    ]


class _Sums(NamedTuple):
    """Sums and numbers of rewards, by (own choice, others' choice) and of all."""

    by_pair: Mapping[tuple[Action, Met], tuple[float, int]]
    of_all: tuple[float, int]

    @classmethod
    def of(cls, own: Sequence[Action], others: Sequence[Met], rewards: Sequence[float]) -> _Sums:
        by_pair: dict[tuple[Action, Met], tuple[float, int]] = {}
        for pair, reward in zip(zip(own, others, strict=True), rewards, strict=True):
            total, count = by_pair.get(pair, (0.0, 0))
            by_pair[pair] = (total + float(reward), count + 1)
        return cls(by_pair, (math.fsum(map(float, rewards)), len(rewards)))

    @classmethod
    def together(cls, tables: Sequence[_Sums]) -> _Sums:
        by_pair: dict[tuple[Action, Met], tuple[float, int]] = {}
        for table in tables:
            for pair, (total, count) in table.by_pair.items():
                so_far, number = by_pair.get(pair, (0.0, 0))
                by_pair[pair] = (so_far + total, number + count)
        return cls(
            by_pair, (math.fsum(t.of_all[0] for t in tables), sum(t.of_all[1] for t in tables))
        )

    def mean_without(self, part: _Sums, pair: tuple[Action, Met]) -> float:
        """The pair's mean in all but `part`; of all pairs there where it was not met; else 0."""
        for whole, own in (
            (self.by_pair.get(pair, (0.0, 0)), part.by_pair.get(pair, (0.0, 0))),
            (self.of_all, part.of_all),
        ):
            if whole[1] > own[1]:
                return (whole[0] - own[0]) / (whole[1] - own[1])
        return 0.0


def _met(game: Game, agent: str, seating: Seating) -> list[Met]:
    opponents = seating.opponents(agent)
    mates = [s for s in seating.agents if s != agent and s not in opponents]

    def chosen(by: Sequence[str], turn: int) -> tuple[Action, ...]:
        theirs = [game[s].actions for s in by]
        return tuple(sorted((own[turn] for own in theirs if turn < len(own)), key=str))

    turns = range(len(game[agent].steps))
    return [(chosen(mates, turn), chosen(opponents, turn)) for turn in turns]
