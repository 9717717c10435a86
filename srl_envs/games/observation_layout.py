"""Layout of observation vectors: the positions of their named fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_envs.games.base import vector_of


class VectorLayout:
    """Reads a vector's fields by name; `sizes` says how many numbers each takes, in order."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._places: dict[str, slice] = {}
        start = 0
        for name, size in sizes.items():
            self._places[name] = slice(start, start + size)
            start += size
        self._length = start

    def __call__(self, observation: Any) -> dict[str, NDArray[np.float64]]:
        """Field -> its numbers, of the vector or of the dict that holds it.

        Raises ValueError for a vector of another length.
        """
        vector = np.asarray(vector_of(observation), dtype=np.float64)
        if vector.shape != (self._length,):
            raise ValueError(
                f"expected a vector of {self._length} numbers, got shape {vector.shape}: make the "
                "policy for the environment that it plays"
            )
        return {name: vector[place] for name, place in self._places.items()}
