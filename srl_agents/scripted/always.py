"""Always: the same action in every round."""

from srl_agents.scripted.memory_one import SITUATIONS, MemoryOne


class Always(MemoryOne):
    """Plays `action` (1 = cooperate, 0 = compete) whatever happens.

    Raises ValueError for any other number.
    """

    def __init__(self, action: int) -> None:
        if action not in (0, 1):
            raise ValueError(f"action must be 0 (compete) or 1 (cooperate), got {action!r}")
        super().__init__(("always_compete", "always_cooperate")[action], [action] * SITUATIONS)
