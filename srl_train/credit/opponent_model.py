"""What the others did, in the advantage: rewards without the luck of meeting it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from srl_train.credit.assignment import (
    Action,
    Actions,
    Advantages,
    CreditAssignment,
    Group,
    Seating,
    State,
)
from srl_train.credit.comparison import compared_turns

Met = tuple[tuple[Action, ...], tuple[Action, ...]]
"""What the team mates and what the opponents chose at one turn, each sorted."""
Situation = tuple[Action, Met] | None
"""The own choice and the others' the turn before; None at the first turn."""


def opponent_model(discount: float, scale: str) -> CreditAssignment:
    """`agent_turn` on the rewards less the partners' luck, r_t - l_t.

    From a group's games, for each seat: pay(a, o), the mean of its rewards at the turns at which it
    chose a while the others chose o, and p(o | s), how often the others chose o in the situation
    s = (own choice, others' choice) of the turn before. Then

        l_t = pay(a_t, o_t) - sum over o of p(o | s_t) * pay(a_t, o)

    is how much better it fared than it would with its estimate of the others, who chose without
    knowing a_t. The sum runs over what was met beside a_t, its shares made to add up to 1.

    The two tables are those of OurMethodPolicy (payoffs of joint choices, and the partner that
    looks one round back). Given s_t and a_t the luck has mean zero where the others are as
    estimated, so that taking it off changes no expectation: a control variate, as in AIVAT (Burch
    et al. 2018); conditioning a baseline on the others' simultaneous choices is that of COMA
    (Foerster et al. 2018, eq. 4) and of factorised baselines (Wu et al. 2018). Replies that the
    own choice brings about stay in the rewards to come.

    What is taken off is right as far as the others look no further back than one turn, and as
    each pair (a, o) is met more than once: a pair that is met once is its own estimate. Where
    nothing is met twice this is `agent_turn`.
    """

    def advantages(group: Group, seating: Seating) -> list[dict[str, list[float]]]:
        by_seat = {
            seat: compared_turns(without_luck(group, seat, seating), discount, scale)
            for seat in seating.seats
        }
        return [{s: by_seat[s][number] for s in seating.seats} for number in range(len(group))]

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[Advantages | None, State]:
        return [advantages(group, seating) for group in groups], state

    return CreditAssignment("opponent_model", assign)


def without_luck(group: Group, seat: str, seating: Seating) -> list[list[float]]:
    """The seat's rewards r_t - l_t, by game and turn."""
    met = [_met(game.actions, seat, seating) for game in group]
    paid: dict[Action, dict[Met, list[float]]] = defaultdict(lambda: defaultdict(list))
    seen: dict[Hashable, Counter[Met]] = defaultdict(Counter)
    situations: list[list[Situation]] = []
    for game, others in zip(group, met, strict=True):
        own = game.actions[seat]
        situations.append([None, *zip(own, others, strict=True)][: len(own)])
        for situation, choice, other, reward in zip(
            situations[-1], own, others, game.rewards[seat], strict=True
        ):
            paid[choice][other].append(float(reward))
            seen[situation][other] += 1
    pay = {
        choice: {other: math.fsum(r) / len(r) for other, r in table.items()}
        for choice, table in paid.items()
    }

    def luck(situation: Situation, choice: Action, other: Met) -> float:
        weight = {o: n for o, n in seen[situation].items() if o in pay[choice]}
        expected = math.fsum(n * pay[choice][o] for o, n in weight.items()) / sum(weight.values())
        return pay[choice][other] - expected

    return [
        [
            float(reward) - luck(situation, choice, other)
            for reward, situation, choice, other in zip(
                game.rewards[seat], before, game.actions[seat], others, strict=True
            )
        ]
        for game, before, others in zip(group, situations, met, strict=True)
    ]


def _met(actions: Actions, seat: str, seating: Seating) -> list[Met]:
    opponents = seating.opponents(seat)
    mates = [s for s in seating.seats if s != seat and s not in opponents]

    def chosen(by: Sequence[str], turn: int) -> tuple[Action, ...]:
        return tuple(sorted((actions[s][turn] for s in by if turn < len(actions[s])), key=str))

    return [(chosen(mates, turn), chosen(opponents, turn)) for turn in range(len(actions[seat]))]
