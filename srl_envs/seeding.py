"""Random generator of an environment, created on first use."""

from __future__ import annotations

import numpy as np


class RandomSource:
    """Mixin with one random generator, created on first use.

    Copies of an environment with an unused generator, which vector wrappers create by pickling,
    therefore play different episodes.
    """

    _np_random: np.random.Generator | None = None

    @property
    def np_random(self) -> np.random.Generator:
        """Random generator. If none was assigned, the first use creates one with a random seed."""
        if self._np_random is None:
            self._np_random = np.random.default_rng()
        return self._np_random

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self._np_random = generator
