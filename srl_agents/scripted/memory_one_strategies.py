"""Named memory-one strategies, as probabilities of cooperating by situation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GENEROSITY = 1 / 3  # of the generous: how often competing is forgiven

STRATEGIES: Mapping[str, tuple[float, float, float, float, float]] = MappingProxyType(
    {
        # first round, then after (own, other) = (0, 0), (0, 1), (1, 0), (1, 1)
        "tit_for_tat": (1.0, 0.0, 1.0, 0.0, 1.0),
        "suspicious_tit_for_tat": (0.0, 0.0, 1.0, 0.0, 1.0),
        "generous_tit_for_tat": (1.0, GENEROSITY, 1.0, GENEROSITY, 1.0),
        "grim_trigger": (1.0, 0.0, 0.0, 0.0, 1.0),
        "pavlov": (1.0, 1.0, 0.0, 0.0, 1.0),
        "alternator": (1.0, 1.0, 1.0, 0.0, 0.0),
        "mostly_cooperate": (0.8, 0.8, 0.8, 0.8, 0.8),
        "mostly_compete": (0.2, 0.2, 0.2, 0.2, 0.2),
    }
)
"""Tit for tat and grim trigger (Axelrod 1984; Friedman 1971): repeats the other; never cooperates
again once it was left alone. Generous tit for tat (Nowak and Sigmund 1992) forgives a third of the
time. Pavlov, or win-stay, lose-shift (Nowak and Sigmund 1993), cooperates after agreement. With
several others "the other" is their majority."""
