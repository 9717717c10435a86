"""Array forms of games: the rules of the single environments for N episodes at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from srl_envs.games import maze, team_battle
from srl_envs.games.choices import ChoiceGame
from srl_envs.games.coop_compete import CoopCompete
from srl_envs.games.maze_levels import STEPS, Level
from srl_envs.games.team_battle import DRAW, TEAM_A, TEAM_B, TeamBattle
from srl_envs.validation import whole_number
from srl_envs.vector.array_env import ArrayGame, Played
from srl_envs.vector.vector_env import broadcast_to_agents, sum_over_agents


class ChoiceForm(ArrayGame):
    """Base class of array forms of games with two actions.

    The constants are the indices of features in an observation.
    """

    FIRST, OWN, REWARD, TIME = range(4)
    _payoffs: np.ndarray
    """Rewards without noise, by case: an index that encodes all actions that matter."""

    @classmethod
    def fits(cls, game: ChoiceGame) -> bool:
        return not (game.talk or game.turnover)

    def earned(self, case: np.ndarray, idle: np.ndarray) -> np.ndarray:
        """Return rewards (N, A): payoffs at the indices `case` (N, A) plus noise, at least 0.

        Environments marked in `idle` (N,), whose results are ignored, use up no random numbers.
        """
        rewards = self._payoffs.take(case)
        rewards += self.noise(idle)
        np.maximum(rewards, 0.0, out=rewards)
        return rewards

    def show(self, chosen: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        """Write actions, rewards, time and 0 for FIRST to `_observations`; return this array."""
        seen = self._observations
        seen[..., self.FIRST] = 0.0
        seen[..., self.OWN] = chosen
        seen[..., self.REWARD] = rewards
        self.show_time(seen[..., self.TIME])
        return seen


class VectorCoopCompete(ChoiceForm):
    """Array form of CoopCompete."""

    FIRST, OWN, OTHERS, REWARD, TIME, _, _ = range(7)

    def __init__(self, game: CoopCompete, num_envs: int) -> None:
        super().__init__(game, num_envs)
        # Case: 2 * number of cooperators + action.
        self._payoffs = np.array(game.rules.payoffs()).ravel()
        others = self.num_agents - 1
        cases = [(total, action) for total in range(self.num_agents + 1) for action in (0, 1)]
        seen = [(total - action) / others if others else 0.5 for total, action in cases]
        self._others = np.array(seen, np.float32)
        self._ratios = np.array([total / self.num_agents for total in range(self.num_agents + 1)])
        self._first = np.array(game.first_rows({}), np.float32)
        self._total = np.zeros(self.num_envs, np.int64)

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        self._total = sum_over_agents(chosen)
        case = self.per_agent(2 * self._total)
        case += chosen
        rewards = self.earned(case, resting)
        self.show(chosen, rewards)[..., self.OTHERS] = self._others.take(case)
        return rewards, None

    def round_infos(self) -> dict[str, Any]:
        return {"cooperation_ratio": self.per_agent(self._ratios.take(self._total))}


WINNERS = np.array([TEAM_B, "draw", TEAM_A], object)


class VectorTeamBattle(ChoiceForm):
    """Array form of TeamBattle."""

    FIRST, OWN, TEAM, RIVALS, REWARD, TIME, WARMUP, _, _ = range(
        len(team_battle.OBSERVATION_FIELDS)
    )

    def __init__(self, game: TeamBattle, num_envs: int) -> None:
        super().__init__(game, num_envs)
        self._warmup_episodes = game.warmup_episodes
        self._warmup = np.zeros(self.num_envs, bool)
        self._red, self._blue = game.rules.team_sizes
        self._base = game.rules.base_reward
        # Indexed [red cooperators][blue cooperators][team][action].
        payoffs = np.array(game.rules.payoffs())
        self._payoffs = payoffs.ravel()
        self._scores = _leads_of_red(payoffs, self._red, self._blue)
        self._first = np.array(game.first_rows({"episode": game.warmup_episodes}), np.float32)
        self._lead = np.zeros(self.num_envs)  # sum of red's mean rewards minus that of blue's
        self._over = np.zeros(self.num_envs, bool)
        self._totals = (np.zeros(self.num_envs, np.int64),) * 2

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        if "episode" in options:
            number = whole_number('options["episode"]', options["episode"], low=0)
            self._episode[env_ids] = number
        self._warmup[env_ids] = self._episode[env_ids] < self._warmup_episodes
        super().begin(env_ids, options)
        self._observations[env_ids, :, self.WARMUP] = self._warmup[env_ids, None]
        self._lead[env_ids] = 0.0

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        red = self._red
        of_red, of_blue = sum_over_agents(chosen[:, :red]), sum_over_agents(chosen[:, red:])
        self._totals = of_red, of_blue
        both = (self._blue + 1) * of_red + of_blue
        case = self.per_agent(4 * both)
        case += chosen
        case[:, red:] += 2
        rewards = self.earned(case, self._warmup | resting)
        rewards[self._warmup] = self._base
        self._lead += self._scores.take(both)
        self._over = over
        seen = self.show(chosen, rewards)
        share_red, share_blue = of_red / red, of_blue / self._blue
        for side, own, rival in (
            (seen[:, :red], share_red, share_blue),
            (seen[:, red:], share_blue, share_red),
        ):
            broadcast_to_agents(side[..., self.TEAM], own)
            broadcast_to_agents(side[..., self.RIVALS], rival)
        return rewards, None

    def round_infos(self) -> dict[str, Any]:
        of_red, of_blue = self._totals
        phases = np.full(self._shape, "battle", object)
        phases[self._warmup] = "warmup"
        infos: dict[str, Any] = {
            "cooperation_ratio": self.per_agent((of_red + of_blue) / self.num_agents),
            "team_cooperation": {
                TEAM_A: self.per_agent(of_red / self._red),
                TEAM_B: self.per_agent(of_blue / self._blue),
            },
            "phase": phases,
        }
        if self._over.any():
            lead = np.where(self._warmup, 0.0, self._lead / self.rounds)
            sign = np.where(np.abs(lead) <= DRAW, 0, np.sign(lead)).astype(np.int64)
            winners = WINNERS.take(sign + 1)
            winners[~self._over] = None
            infos["winner"] = self.per_agent(winners), self._over
        return infos


def _leads_of_red(payoffs: np.ndarray, red: int, blue: int) -> np.ndarray:
    """Return red's mean reward minus blue's, flat, by the numbers of cooperators (red, blue)."""
    earned = np.nan_to_num(payoffs)  # An action that no agent chose is nan and has weight 0.
    cooperate_red, cooperate_blue = np.arange(red + 1)[:, None], np.arange(blue + 1)
    of_red = earned[..., 0, 0] * (red - cooperate_red) + earned[..., 0, 1] * cooperate_red
    of_blue = earned[..., 1, 0] * (blue - cooperate_blue) + earned[..., 1, 1] * cooperate_blue
    lead: np.ndarray = (of_red / red - of_blue / blue).ravel()
    return lead


(X, Y, GOAL_X, GOAL_Y, OTHER_X, OTHER_Y, LAST_X, LAST_Y, STOPPED, ARRIVED, TIME, VISITS) = range(12)
WALLS = maze.OBSERVATION_FIELDS.index("walls")
STEPS_X, STEPS_Y = np.array(STEPS, np.float32).T.copy()
VISITS_AS_SHOWN = np.array(maze.SHARES, np.float32)


class Boards(NamedTuple):
    """Tables of M levels with C cells for one agent. Starts and goals are cell numbers."""

    shut: np.ndarray  # walls, bool (M, C)
    starts: np.ndarray  # (M, 1)
    goals: np.ndarray  # (M, 1)
    fewest: np.ndarray  # least number of rounds to the goal, (M, 1)
    seeds: np.ndarray  # level seeds or None, objects (M,)
    hashes: np.ndarray  # layout hashes, objects (M,)


def boards_of(levels: Sequence[Level], task: str) -> Boards:
    """Return the Boards of `levels` of one size, for one agent; `task` is "race" or "own"."""
    seated = [maze.seating(level, task, 1) for level in levels]
    starts, goals, fewest = (np.array(part) for part in zip(*seated, strict=True))
    shut = np.array([[not ways for ways in level.doors] for level in levels])
    seeds = np.array([level.seed for level in levels], object)
    hashes = np.array([level.layout_hash for level in levels], object)
    return Boards(shut, starts, goals, fewest, seeds, hashes)


class VectorMaze(ArrayGame):
    """Array form of maze.Maze for one agent."""

    @classmethod
    def fits(cls, game: maze.Maze) -> bool:
        return len(game.possible_agents) == 1

    def __init__(self, game: maze.Maze, num_envs: int) -> None:
        super().__init__(game, num_envs)
        self._game = game
        levels = game.levels
        self._boards = boards_of(levels, game.task) if levels else None
        width, height, radius = game.width, game.height, game.view_radius
        across, down = width + 2 * radius, height + 2 * radius
        grid = np.arange(across * down).reshape(down, across)
        # Number in this grid of each cell number of a level.
        self._cell = grid[radius : radius + height, radius : radius + width].ravel()
        self._columns = np.tile(np.arange(across) - radius, down)
        self._rows = np.repeat(np.arange(down) - radius, across)
        self._x = self._columns / max(1, width - 1)
        self._y = self._rows / max(1, height - 1)
        self._steps_to = np.array([dy * across + dx for dx, dy in STEPS])
        near = np.arange(-radius, radius + 1)
        self._window = (near[:, None] * across + near).ravel()
        self._move_rewards = np.array(
            [maze.STEP + maze.DISTANCE * away for away in range(width + height)]
        )
        self._solid = np.ones((num_envs, across * down), np.int8)
        self._visits = np.zeros((num_envs, across * down), np.uint8)
        # Offset of each environment's grid in `_solid` and `_visits`.
        self._grids = np.arange(num_envs)[:, None] * grid.size
        self._places = np.zeros(self._shape, np.int64)
        self._goals = np.zeros(self._shape, np.int64)
        self._arrived = np.zeros(self._shape, bool)
        self._fewest = np.zeros(self._shape, np.int64)
        self._moves = np.zeros(self._shape, np.int64)
        self._seeds_of = np.full(num_envs, None, object)
        self._hashes = np.full(num_envs, None, object)

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        boards = self._drawn(env_ids, options.get("level_seed"))
        self._solid[env_ids[:, None], self._cell] = boards.shut
        starts = self._cell[boards.starts]
        self._places[env_ids] = starts
        self._goals[env_ids] = self._cell[boards.goals]
        self._arrived[env_ids] = False
        self._fewest[env_ids] = boards.fewest
        self._moves[env_ids] = 0
        self._seeds_of[env_ids], self._hashes[env_ids] = boards.seeds, boards.hashes
        self._visits[env_ids] = 0
        self._visits.reshape(-1)[self._grids[env_ids] + starts] = 1
        self._observations[env_ids, :, LAST_X : STOPPED + 1] = 0.0
        self._look(env_ids)

    def _drawn(self, env_ids: np.ndarray, level_seed: Any) -> Boards:
        game, sources = self._game, self.rng.sources
        if level_seed is not None:
            return boards_of([game.named_level(level_seed)], game.task)
        if self._boards is not None:
            drawn = [game.draw_number(sources[i].np_random) for i in env_ids.tolist()]
            return Boards(*(table[drawn] for table in self._boards))
        levels = [game.draw_level(sources[i].np_random) for i in env_ids.tolist()]
        return boards_of(levels, game.task)

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        there = self._places + self._steps_to.take(chosen)
        blocked = self._solid.take(self._grids + there) > 0
        self._moves += 1
        self._places = places = np.where(blocked, self._places, there)
        visits, counts = self._visits.reshape(-1), self._grids + places
        count = visits.take(counts)
        visits[counts] = count + (~blocked & (count < maze.VISITS_SHOWN))
        self._arrived = arrived = places == self._goals
        finished = arrived[:, 0]
        rewards = self._move_rewards.take(self._manhattan_distances(places, self._goals))
        rewards[over] = maze.TOO_LATE
        rewards[arrived] = maze.ARRIVAL
        seen = self._observations
        seen[..., LAST_X], seen[..., LAST_Y] = STEPS_X.take(chosen), STEPS_Y.take(chosen)
        seen[..., STOPPED] = blocked
        self._look(None)
        return rewards, finished

    def round_infos(self) -> dict[str, Any]:
        return {
            "shortest_path": self._fewest.copy(),
            "steps": self._moves.copy(),
            "success": self._arrived.copy(),
            "level_seed": self.per_agent(self._seeds_of),
            "layout_hash": self.per_agent(self._hashes),
        }

    def masks(self) -> np.ndarray:
        if not self._game.mask_walls:
            return super().masks()
        near = (self._grids + self._places)[..., None] + self._steps_to
        legal = self._solid.take(near) == 0
        legal |= self._arrived[..., None]
        return np.asarray(legal, np.int8)

    def _look(self, env_ids: np.ndarray | None) -> None:
        every = env_ids is None
        seen = self._observations if every else self._observations[env_ids]
        places, goals, grids, arrived = (
            values if every else values[env_ids]
            for values in (self._places, self._goals, self._grids, self._arrived)
        )
        x, y = self._x.take(places), self._y.take(places)
        seen[..., X], seen[..., Y] = x, y
        seen[..., GOAL_X] = self._x.take(goals) - x
        seen[..., GOAL_Y] = self._y.take(goals) - y
        seen[..., ARRIVED] = arrived
        if every:
            self.show_time(seen[..., TIME])
        else:
            seen[..., TIME] = 0.0
        # The index has one row per neighboring cell, not per agent, because NumPy looks up long
        # rows faster.
        by_agent = seen.reshape(-1, seen.shape[-1])
        cells = (grids + places).ravel()
        near = self._steps_to[:, None] + cells
        by_agent[:, VISITS:WALLS] = VISITS_AS_SHOWN.take(self._visits.take(near)).T
        around = self._window[:, None] + cells
        by_agent[:, WALLS:] = self._solid.take(around).T
        if not every:
            self._observations[env_ids] = seen

    def _manhattan_distances(self, places: np.ndarray, goals: np.ndarray) -> np.ndarray:
        away = np.abs(self._columns.take(places) - self._columns.take(goals))
        away += np.abs(self._rows.take(places) - self._rows.take(goals))
        return np.asarray(away)
