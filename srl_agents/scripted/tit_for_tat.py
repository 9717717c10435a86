"""Tit for tat: the opponent's previous action."""

from srl_agents.scripted.memory_one import MemoryOne, SituationReader


class TitForTat(MemoryOne):
    """Cooperates first; then repeats the other's last action (after Axelrod 1984).

    With several others it repeats their majority's, and its own last action where they are split
    evenly. `reader` says where these stand in the observation; by default as in coop_compete_v0.
    """

    def __init__(self, reader: SituationReader | None = None) -> None:
        super().__init__("tit_for_tat", (1.0, 0.0, 1.0, 0.0, 1.0), reader)
