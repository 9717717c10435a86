"""Player of whole games: given to the server, which knows no policies itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Game(Protocol):
    """A whole game that was played, as PlayedGame has it."""

    turns: int
    returns: Mapping[str, float]
    record: str


class Player(Protocol):
    """Plays whole games with policies that are known by name; given to the server, which knows no
    policies itself."""

    policies: Sequence[str]
    """The names that may be played with."""

    def __call__(self, env: Any, players: Mapping[str, str], seed: int) -> Game:
        """One game, each agent played by its policy. Raises EnvError for what cannot be played."""
        ...
