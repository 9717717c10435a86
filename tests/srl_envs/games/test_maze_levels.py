"""Mazes as data: layouts, paths, hashes, and the recipes that make and hold them out."""

from collections import deque

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.games.maze_levels import LAYOUTS, Level, MazeRecipe

CORRIDOR = Level.drawn(["A..", "##.", "G.."])


def walk_length(level, source, target):
    """The shortest path by a search of our own, on (x, y) and walls alone; None without one."""
    waiting, seen = deque([(source, 0)]), {source}
    while waiting:
        (x, y), length = waiting.popleft()
        if (x, y) == target:
            return length
        for cell in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            inside = 0 <= cell[0] < level.width and 0 <= cell[1] < level.height
            if inside and cell not in level.walls and cell not in seen:
                seen.add(cell)
                waiting.append((cell, length + 1))
    return None


def reachable(level):
    free = {(x, y) for x in range(level.width) for y in range(level.height)} - level.walls
    return sum(walk_length(level, level.start, cell) is not None for cell in free), len(free)


@pytest.mark.parametrize(
    ("name", "size", "walls", "shortest"),
    [
        ("simple", 5, {(2, 1), (2, 2), (2, 3)}, 8),
        ("medium", 7, {(2, 2), (2, 3), (3, 2), (4, 4), (4, 5)}, 12),
        (
            "complex",
            10,
            {(3, y) for y in range(1, 8)} | {(6, y) for y in range(2, 9)},
            18,
        ),
    ],
)
def test_documented_layouts_can_be_solved(name, size, walls, shortest):
    level = LAYOUTS[name]
    assert (level.width, level.height, level.walls) == (size, size, walls)
    assert (level.start, level.goal) == ((0, 0), (size - 1, size - 1))
    assert level.shortest_path == walk_length(level, level.start, level.goal) == shortest


def test_a_drawn_maze():
    assert (CORRIDOR.width, CORRIDOR.height) == (3, 3)
    assert CORRIDOR.walls == {(0, 1), (1, 1)}
    assert (CORRIDOR.start, CORRIDOR.goal) == ((0, 0), (0, 2))
    assert CORRIDOR.shortest_path == 6
    # cells 0 1 2 / # # 5 / 6 7 8; up, down, left, right
    assert CORRIDOR.doors[0] == (-1, -1, -1, 1)
    assert CORRIDOR.doors[2] == (-1, 5, 1, -1)
    assert CORRIDOR.doors[3] == ()
    assert CORRIDOR.distances(2) == [2, 1, 0, -1, -1, 1, 4, 3, 2]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["A#", "#G"], "reachable"),
        (["A.", "G"], "equally long lines"),
        (["A.", "Gx"], "equally long lines of A, G, # and ., got 'Gx'"),
        (["A."], "one A and one G"),
        (["AG", "AG"], "one A and one G"),
        ([], "one A and one G"),
    ],
)
def test_invalid_drawings_raise(lines, said):
    with pytest.raises(EnvConfigError) as caught:
        Level.drawn(lines)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("start", "goal", "said"),
    [
        ((0, 0), (0, 0), "must be another cell"),
        ((0, 0), (5, 4), "must be different cells of a 5x5 maze"),
        ((-1, 0), (4, 4), "must be different cells"),
        ((0, 0), (2, 2), "must be different cells"),
    ],
)
def test_impossible_starts_and_goals(start, goal, said):
    with pytest.raises(EnvConfigError) as caught:
        Level(5, 5, frozenset({(2, 2)}), start, goal)
    assert said in str(caught.value)


def test_stations_are_start_goal_then_farthest_cells():
    # In an open 3x3 maze: opposite corners, then cells at distance 2, lowest number first.
    level = Level(3, 3, frozenset(), (0, 0), (2, 2))
    assert level.stations(1) == (0,)
    assert level.stations(5) == (0, 8, 2, 4, 6)
    assert len(set(level.stations(9))) == 9
    with pytest.raises(EnvConfigError, match="only 9 cells for 10 agents"):
        level.stations(10)
    closed_off = Level.drawn(["A.#.", "G.#."])
    with pytest.raises(EnvConfigError, match="only 4 cells for 5 agents"):
        closed_off.stations(5)


def test_hash_depends_on_walls_and_size_up_to_symmetry():
    lines = ["A..#", "##..", "...G"]
    one = Level.drawn(lines)
    mirrored = Level.drawn([line[::-1] for line in lines])
    turned = Level.drawn(["".join(column) for column in zip(*lines, strict=True)])
    elsewhere = Level.drawn([".A.#", "##..", "..G."])
    images = {level.layout_hash for level in (one, mirrored, turned, elsewhere)}
    assert len(images) == 1 and len(images.pop()) == 16
    others = ["A...", "##..", "...G"], ["A..#", "##..", "...G", "...."], ["A..#.", "##...", "...G."]
    assert all(Level.drawn(other).layout_hash != one.layout_hash for other in others)
    assert {level.split for level in (one, mirrored, turned, elsewhere)} == {one.split}


def test_layout_hashes_are_stable():
    # A changed hash would move levels between the splits of recorded runs.
    assert {name: level.layout_hash for name, level in LAYOUTS.items()} == {
        "simple": "c4e57da564fa4e09",
        "medium": "23e4ebcc13a93d5e",
        "complex": "c639754869caada7",
    }
    assert MazeRecipe(9, 9, 0.2).level(7).layout_hash == "c08d812f3624eed0"


RECIPES = (
    MazeRecipe(5, 5),
    MazeRecipe(9, 9),
    MazeRecipe(10, 7, loop_share=0.3),
    MazeRecipe(4, 13, loop_share=1.0),
)


def test_generated_mazes_can_be_solved_and_the_shortest_path_is_right():
    for recipe in RECIPES:
        for seed in range(40):
            level = recipe.level(seed)
            assert (level.width, level.height) == (recipe.width, recipe.height)
            assert (level.start, level.goal) == ((0, 0), (recipe.width - 1, recipe.height - 1))
            shortest = walk_length(level, level.start, level.goal)
            assert level.shortest_path == shortest
            assert level.seed == seed


@pytest.mark.parametrize("seed", range(3))
def test_mazes_without_loops_are_trees(seed):
    level = MazeRecipe(9, 8).level(seed)
    reached, free = reachable(level)
    assert reached == free
    doors = sum(there >= 0 for ways in level.doors for there in ways) / 2
    assert doors == free - 1  # as many as a tree has


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_splits_share_no_layout(recipe):
    train, test = (recipe.level_seeds(split, 20) for split in ("train", "test"))
    layouts = [{recipe.level(s).layout_hash for s in seeds} for seeds in (train, test)]
    assert len(train) == len(test) == 20 and not layouts[0] & layouts[1]
    assert {recipe.level(s).split for s in train} == {"train"}
    assert {recipe.level(s).split for s in test} == {"test"}
