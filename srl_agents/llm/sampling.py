"""Sampling settings of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of one agent.

    Temperature is applied first, then top-k, then top-p to the renormalized probabilities.
    Log-probabilities are those of the resulting distribution.

    Raises:
        ValueError: A setting is out of range.
    """

    temperature: float = 1.0
    """Divisor of the logits; 0 selects the most likely token."""
    top_p: float = 1.0
    """Probability mass of the most likely tokens that are kept; 1 keeps all."""
    top_k: int = 0
    """Number of most likely tokens that are kept; 0 keeps all."""
    max_new_tokens: int = 16
    """Maximum length of an unconstrained answer in tokens, with its end of turn."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ValueError(
                f"temperature must be a finite number, 0 or more, got {self.temperature}"
            )
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (keep all) or more, got {self.top_k}")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be 1 or more, got {self.max_new_tokens}")
