"""Player of whole games: given to the server, which knows no policies itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class PlayedGame:
    """A whole game that was played."""

    turns: int
    returns: Mapping[str, float]
    """Agent -> sum of its rewards."""
    record: str
    """The game as a line of JSON (srl_agents.episode.from_json)."""


class Player(Protocol):
    """Plays whole games with policies that are known by name."""

    @property
    def policies(self) -> Sequence[str]:
        """The names that may be played with."""
        ...

    def __call__(self, env: Any, players: Mapping[str, str], seed: int) -> PlayedGame:
        """One game, each agent played by its policy. Raises EnvError for what cannot be played."""
        ...
