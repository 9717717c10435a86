"""Many mazes made at once: the walk of srl_envs.games.maze.generator on arrays, and what is held
out."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from srl_envs.games.maze.level import STEPS, TEST_SHARE, mirrors

FREE, OUTSIDE = 32, 100  # in a cell's count of free neighbours: neither ever reads 1
EXACT = 52  # cells that a float64 keeps apart as sums of powers of two


class Walks(NamedTuple):
    """Mazes, and the moves on the way from their first cell to their last; M mazes, C cells."""

    shut: np.ndarray
    """bool (M, C)"""
    moves: np.ndarray
    """int (M,); -1 where the last cell is shut."""


@cache
def _turns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By the set of ways ahead, a bit for each action: how many, and what that does to the walk.

    The third array: 4 * set + k -> action of the k-th way.
    """
    sets = [[action for action in range(4) if code >> action & 1] for code in range(16)]
    count = np.array([len(ahead) for ahead in sets])
    # A cell with fewer than two ways ahead is left for good; the cell that is opened comes on top.
    grows = np.array([-1 if not ahead else 0 if len(ahead) == 1 else 1 for ahead in sets])
    kth = np.zeros((16, 4), np.int64)
    for code, ahead in enumerate(sets):
        kth[code, : len(ahead)] = ahead
    return count, grows, kth.ravel()


def walks(width: int, height: int, turns: np.ndarray) -> Walks:
    """The mazes that random numbers make, (M, C) float64 in [0, 1): those of MazeRecipe."""
    mazes, across = len(turns), width + 2
    steps = np.array([dy * across + dx for dx, dy in STEPS])
    count, grows, kth = _turns()
    way = steps[kth]
    # Every maze has a border, so that nobody need look where the grid ends.
    grid = np.full((mazes, height + 2, across), OUTSIDE, np.int8)
    grid[:, 1:-1, 1:-1] = 0
    cells = grid.reshape(-1)
    moves = np.zeros(cells.size, np.int16)
    turns_flat, most = turns.ravel(), turns.shape[1]
    walk = np.empty((mazes, width * height), np.int64)
    walk_flat = walk.ravel()
    top = np.arange(mazes) * (grid.size // mazes) + across + 1
    last = np.arange(mazes) * walk.shape[1]  # where in `walk_flat` each walk ends
    ends = last - 1
    next_turn = np.arange(mazes) * most
    walk[:, 0] = top
    cells[top] = FREE
    cells[top + 1] += 1
    cells[top + across] += 1
    while len(top):
        ahead = (cells.take(steps[:, None] + top) == 1).view(np.int8)
        code = ahead[0] + 2 * ahead[1] + 4 * ahead[2] + 8 * ahead[3]
        opens = code.nonzero()[0]
        chosen = code.take(opens).astype(np.int64)
        turn = turns_flat.take(next_turn.take(opens)) * count.take(chosen)
        chosen *= 4
        chosen += turn.astype(np.int64)
        before = top.take(opens)
        opened = before + way.take(chosen)
        cells[opened] = FREE
        beside = steps[:, None] + opened
        touched = cells.take(beside)
        touched += 1
        cells[beside] = touched
        moves[opened] = moves.take(before) + 1
        next_turn += code > 0
        last += grows.take(code)
        walk_flat[last.take(opens)] = opened
        going = last > ends
        if not going.all():
            last, ends, next_turn = last[going], ends[going], next_turn[going]
        top = walk_flat.take(last)
    free = grid[:, 1:-1, 1:-1].reshape(mazes, -1) >= FREE
    far = moves.reshape(grid.shape)[:, height, width].astype(np.int64)
    return Walks(~free, np.where(free[:, -1], far, -1))


def layout_hashes(width: int, height: int, shut: np.ndarray) -> list[str]:
    """Level.layout_hash of many mazes: `shut` is bool (M, C)."""
    forms = mirrors(width, height)
    shape = min(shape for shape, _ in forms)  # of a grid and a turned one, that comes first
    orders = np.array([turned(range(width * height)) for s, turned in forms if s == shape])
    rest = np.arange(len(shut))
    # The least of all forms: each read as a number, the first cell its highest digit.
    best = np.zeros(len(shut), np.int64)
    values = _numbers(orders, shut)
    tied = np.ones((len(shut), len(orders)), bool)
    for part in values:
        part = np.where(tied, part, np.inf)
        tied &= part == part.min(axis=1, keepdims=True)
    best = tied.argmax(axis=1)
    least = shut[rest[:, None], orders[best]].tobytes()
    size = width * height
    return [
        blake2b(shape + least[at : at + size], digest_size=8).hexdigest()
        for at in range(0, len(least), size)
    ]


def is_test(layout_hash: str) -> bool:
    """Whether mazes of this layout are of the "test" split, as Level.split has it."""
    return int(layout_hash, 16) % TEST_SHARE == 0


def _numbers(orders: np.ndarray, shut: np.ndarray) -> list[np.ndarray]:
    """Parts of each form's cells as numbers, the first part first: float64 (M, forms) each."""
    cells = shut.astype(np.float64)
    parts = []
    for start in range(0, orders.shape[1], EXACT):
        part = orders[:, start : start + EXACT]
        weights = np.zeros((orders.shape[1], len(orders)))
        weights[part.T, np.arange(len(orders))] = 2.0 ** np.arange(part.shape[1])[::-1, None]
        parts.append(cells @ weights)
    return parts
