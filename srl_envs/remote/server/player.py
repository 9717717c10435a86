"""Player of whole games: given to the server, which knows no policies itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Game(Protocol):
    """A whole game that was played, as PlayedGame has it."""

    @property
    def turns(self) -> int:
        """How many turns it had."""
        ...

    @property
    def returns(self) -> Mapping[str, float]:
        """Agent -> sum of its rewards."""
        ...

    @property
    def record(self) -> str:
        """The game as a line of JSON."""
        ...


class Player(Protocol):
    """Plays whole games with policies that are known by name; given to the server, which knows no
    policies itself."""

    @property
    def policies(self) -> Sequence[str]:
        """The names that may be played with."""
        ...

    def __call__(self, env: Any, players: Mapping[str, str], seed: int) -> Game:
        """One game, each agent played by its policy. Raises EnvError for what cannot be played."""
        ...
