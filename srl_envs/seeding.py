"""Random generator of an environment, drawn when it is first needed."""

from __future__ import annotations

import numpy as np


class RandomSource:
    """Owner of one random generator.

    The generator is not drawn in the constructor. Copies of an environment that was never reset,
    as vector wrappers make them by pickling, therefore play different episodes.
    """

    _np_random: np.random.Generator | None = None

    @property
    def np_random(self) -> np.random.Generator:
        """Generator of all random draws, seeded by the operating system unless a seed was given."""
        if self._np_random is None:
            self._np_random = np.random.default_rng()
        return self._np_random

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self._np_random = generator
