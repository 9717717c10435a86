"""Bernoulli: cooperation with a fixed probability in every round."""

from srl_agents.scripted.memory_one import SITUATIONS, MemoryOne


class Bernoulli(MemoryOne):
    """Cooperates with chance `q`, independently in every round.

    Raises ValueError where `q` is outside [0, 1].
    """

    def __init__(self, q: float) -> None:
        super().__init__(f"random({q:g})", [q] * SITUATIONS)
