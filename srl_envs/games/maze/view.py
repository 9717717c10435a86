"""Text view of a maze: observation fields, prompts and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from srl_envs.games.base import vector_of
from srl_envs.games.maze.level import ANSWERS
from srl_envs.text import FixedChoices

OBSERVATION_FIELDS = (
    "x",  # own column, from 0 (left) to 1 (right)
    "y",  # own row, from 0 (top) to 1 (bottom)
    "goal_dx",  # the goal's column less one's own, on that scale; in "meet" the farthest agent's
    "goal_dy",
    "other_dx",  # the same for the nearest other agent; 0 where alone
    "other_dy",
    "last_dx",  # the direction last chosen: -1, 0 or 1
    "last_dy",
    "blocked",  # 1 if a wall was in the way of the last move, else 0
    "arrived",  # 1 for an agent that reached its goal: its actions no longer count
    "time",  # rounds played / max_cycles
    "visits_up",  # how often this agent came into the cell above, / VISITS_SHOWN; 0 for walls
    "visits_down",
    "visits_left",
    "visits_right",
    "walls",  # the cells around, view_radius far, row by row: 1 for a wall or the outside, else 0
)
VISITS_SHOWN = 9  # no more are counted
FARTHEST_VIEW = 40  # view_radius at most: a map that wide still fits into an observation's text


@dataclass(frozen=True)
class MazeView(FixedChoices):
    """Text view of a maze."""

    choices: ClassVar[tuple[str, ...]] = ANSWERS

    width: int
    height: int
    view_radius: int
    task: str
    players: int
    rounds: int
    default_action: int = 0
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        """The game, the agent's role and how to answer."""
        if self.task == "meet":
            all_of_you = "Both players" if self.players == 2 else f"All {self.players} players"
            aim = f"{all_of_you} must come together in one cell, wherever it is"
        elif self.task == "own":
            aim = "Reach your goal in as few moves as you can"
        elif self.players > 1:
            aim = f"Reach the goal before the others, {self.players} players in all"
        else:
            aim = "Reach the goal in as few moves as you can"
        return (
            f"You are {agent} in a maze of {self.width} by {self.height} cells. {aim}. Each round "
            "you move one cell; walls stop you. You are told which ways are open and how often you "
            "have been there: new ways are often better. "
            "Write your move alone on the last line: up, down, left or right."
        )

    def describe(self, agent: str, observation: Any) -> str:
        """The agent's situation, from its observation vector (or the dict that holds it)."""
        seen = vector_of(observation).tolist()
        _, _, goal_dx, goal_dy, other_dx, other_dy, dx, dy, blocked, arrived, time = seen[:11]
        visits, walls = seen[11:15], seen[15:]
        played = round(time * self.rounds)
        parts = [f"Step {min(played + 1, self.rounds)} of {self.rounds}."]
        if dx or dy:
            way = ANSWERS[(dx > 0) + 2 if dx else int(dy > 0)]
            parts.append(f"A wall stopped you going {way}." if blocked else f"You went {way}.")
        if self.task == "meet":
            parts.append(f"Open: {self._open(visits, walls)}.")
            parts.append(f"{self._other('Farthest')}: {self._where(goal_dx, goal_dy)}.")
        elif arrived:
            parts.append("You are at the goal; your moves no longer count.")
        else:
            parts.append(f"Open: {self._open(visits, walls)}.")
            parts.append(f"Goal: {self._where(goal_dx, goal_dy)}.")
        if self.players > (2 if self.task == "meet" else 1):
            parts.append(f"{self._other('Nearest')}: {self._where(other_dx, other_dy)}.")
        said = " ".join(parts)
        if self.view_radius > 1:
            said += "\nAround you (A you, # wall, . free):\n" + self._map(walls)
        return said

    def _open(self, visits: Sequence[float], walls: Sequence[float]) -> str:
        across = 2 * self.view_radius + 1
        here = len(walls) // 2
        around = (here - across, here + across, here - 1, here + 1)
        return ", ".join(
            f"{way} ({_often(round(share * VISITS_SHOWN))})"
            for way, share, cell in zip(ANSWERS, visits, around, strict=True)
            if not walls[cell]
        )

    def _other(self, which: str) -> str:
        return f"{which} player" if self.players > 2 else "Other player"

    def _where(self, dx: float, dy: float) -> str:
        right, down = round(dx * (self.width - 1)), round(dy * (self.height - 1))
        parts = []
        if right:
            parts.append(f"{abs(right)} {'right' if right > 0 else 'left'}")
        if down:
            parts.append(f"{abs(down)} {'down' if down > 0 else 'up'}")
        return ", ".join(parts) or "here"

    def _map(self, walls: Sequence[float]) -> str:
        across = 2 * self.view_radius + 1
        marks = ["#" if wall else "." for wall in walls]
        marks[len(marks) // 2] = "A"
        rows = range(0, len(marks), across)
        return "\n".join(" ".join(marks[row : row + across]) for row in rows)


def _often(visits: int) -> str:
    return "new" if visits == 0 else f"been {visits}"
