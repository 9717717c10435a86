"""Who sits where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def deal(seats: Sequence[str], models: Sequence[str], fixed: Mapping[str, str]) -> dict[str, str]:
    """Seat -> who holds it: as `fixed` says, and the remaining seats dealt to `models` in turn.

    Four models in an eight-seat game of two teams get seats i and i + 4: one in each team.
    Raises ValueError for a seat that does not exist, and for a model left without a seat.
    """
    unknown = sorted(set(fixed) - set(seats))
    if unknown:
        raise ValueError(f"no seat {unknown[0]!r}: the environment's seats are {', '.join(seats)}")
    dealt = {}
    free = [seat for seat in seats if seat not in fixed]
    unseated = [model for model in models if model not in fixed.values()] or list(models)
    # Models that were given no seat by name come first, so that none goes without.
    order = unseated + [model for model in models if model not in unseated]
    turn = 0
    for seat in seats:
        if seat in fixed:
            dealt[seat] = fixed[seat]
        else:
            dealt[seat] = order[turn % len(order)]
            turn += 1
    idle = [model for model in models if model not in dealt.values()]
    if idle:
        raise ValueError(
            f"{idle[0]} has no seat: {len(free)} free seat(s) for {len(models)} models; "
            "lower the number of models or choose a larger game"
        )
    return dealt
