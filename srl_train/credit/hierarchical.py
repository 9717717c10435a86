"""Leaders are compared over the whole round, their followers within the group."""

from __future__ import annotations

from collections.abc import Sequence

from srl_train.credit.assignment import Advantages, CreditAssignment, Group, Seating, State
from srl_train.credit.comparison import Scores, compared, compared_games, game_returns, on_all_turns
from srl_train.errors import ConfigError


def hierarchical(discount: float, scale: str) -> CreditAssignment:
    """A = (R - mean R) / (deviation of R + 1e-4), of a seat's returns R; all turns share it.

    A leader's R are those of all games of the round, whatever their start: it answers for where
    its team gets to. A follower's are those of its group: what it is given to do differs from
    start to start, and it answers for what it makes of it. `scale` "none" leaves the division
    out. The definition is this project's own. Raises ConfigError where nobody leads.
    """

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[Advantages | None, State]:
        if not seating.leaders:
            raise ConfigError(
                "credit.name is 'hierarchical' and nobody leads: set mode.name to 'hierarchical'"
            )
        scores: list[Scores] = []
        own = [{s: game_returns(group, s, discount) for s in seating.seats} for group in groups]
        across = {leader: _across([found[leader] for found in own]) for leader in seating.leaders}
        for number, found in enumerate(own):
            scores.append(
                {
                    seat: across[seat][number]
                    if seat in across
                    else compared_games(found[seat], scale)
                    for seat in seating.seats
                }
            )
        return on_all_turns(groups, seating.seats, scores), state

    def _across(returns: Sequence[dict[int, float]]) -> list[dict[int, float]]:
        values = iter(compared([value for own in returns for value in own.values()], scale))
        return [{number: next(values) for number in own} for own in returns]

    return CreditAssignment("hierarchical", assign)
