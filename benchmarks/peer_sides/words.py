"""Texts and payoffs of the common-payoff game, and measurements; imports no library."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHOICES = ("cooperate", "compete")
PAYOFFS: Mapping[tuple[int, int], float] = {(0, 0): 1.0, (1, 1): 0.3, (0, 1): 0.0, (1, 0): 0.0}
RULES = "You and a partner choose at once, and are paid the same. Write cooperate or compete."
TURNS = 3
GROUP = 4
"""Answers per agent at each node of MAGRPO's tree; group size of GRPO."""
NODES = sum(GROUP**turn for turn in range(TURNS))
"""Nodes of the tree. Its NODES x GROUP answers per agent are GROUP x NODES / TURNS episodes."""


def situation(turn: int, last: tuple[int, int] | None) -> str:
    """Return the message of a turn (from 1) after the choices (own, partner's) of the last one."""
    if last is None:
        return f"Round {turn} of {TURNS}."
    own, partner = (CHOICES[choice] for choice in last)
    return f"Round {turn} of {TURNS}. You chose {own}, the partner {partner}."


class Rounds:
    """Mean reward per step of each training round, and the CPU time at its end."""

    def __init__(self) -> None:
        self.rewards: list[float] = []
        self.ends: list[float] = []
        self.tokens = 0  # sampled tokens of all rounds

    def end(self, reward: float) -> None:
        """Record the end of a round."""
        self.rewards.append(reward)
        self.ends.append(time.process_time())


def report(rounds: Rounds, steps: int, answers: int) -> None:
    """Print the measurements of a training as one line of JSON.

    The CPU time is that of all rounds but the first, which also imports and compiles.

    Args:
        rounds: All rounds of the training.
        steps: Number of optimizer steps per round.
        answers: Number of sampled answers per round.
    """
    found: dict[str, Any] = {"rewards": rounds.rewards, "steps": steps, "answers": answers}
    found["tokens"] = rounds.tokens
    found["round_seconds"] = (rounds.ends[-1] - rounds.ends[0]) / (len(rounds.ends) - 1)
    found["peak_memory"] = peak_memory()
    print(json.dumps(found))


def peak_memory() -> int:
    """Return the peak memory in bytes (Linux); ru_maxrss may be that of the parent at the fork."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
