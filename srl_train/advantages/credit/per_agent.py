"""Every seat for itself: a game's return against the group's."""

from __future__ import annotations

from collections.abc import Sequence

from srl_train.advantages.credit.assignment import (
    Advantages,
    CreditAssignment,
    Group,
    Seating,
    State,
)


def per_agent() -> CreditAssignment:
    """All turns of a seat share the advantage of its episode return in its group (GRPO, Shao et
    al. 2024, eq. 4.1.2), which TRL computes as `grpo.scale_rewards` says."""

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[Advantages | None, State]:
        return None, state

    return CreditAssignment("per_agent", assign)
