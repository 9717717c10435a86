"""Rows of data for other frameworks: one game of one focal agent each, as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from srl_agents.atomic_files import whole_file
from srl_agents.errors import PolicyError
from srl_agents.integrations.focal_game import FocalGame
from srl_agents.llm.text_policy import rules_for, situation
from srl_agents.policy import AgentObservation
from srl_agents.scripted.registry import is_held_out
from srl_agents.seeding import MOST
from srl_envs.scenarios import refuse_levels
from srl_envs.validation import whole_number

LOOP = "srl"
"""The agent loop that verl plays the rows with."""


def rows(
    games: Iterable[FocalGame], seeds: Sequence[int], *, evaluation: bool = False
) -> list[dict[str, Any]]:
    """A row for every seed of every game, seed after seed; the games are trusted.

    `prompt` is what the agent reads first where it moves in the first turn, for readers and for
    filters of length: the conversation itself is written while the game is played. Rows to train
    on have no partners and levels that are held out; rows for `evaluation` may. Raises
    PolicyError and EnvConfigError for those, and as FocalGame does for games that cannot be made.
    """
    seeds = [whole_number("seed", seed, low=0, high=MOST) for seed in seeds]
    games = list(games)
    if not evaluation:
        for game in games:
            _refuse_held_out(game)
    openings = [_openings(game, seeds) for game in games]
    return [
        {
            "data_source": game.environment,
            "agent_name": LOOP,
            "prompt": opening[number],
            "extra_info": {
                "index": number * len(games) + place,
                "seed": seed,
                "game": game.to_json(),
            },
        }
        for number, seed in enumerate(seeds)
        for place, (game, opening) in enumerate(zip(games, openings, strict=True))
    ]


def write_rows(path: Path | str, made: Iterable[Mapping[str, Any]]) -> None:
    """The rows as a file of JSON lines, which verl's `data.train_files` and Hugging Face's
    `load_dataset("json", ...)` read; its name must end in .jsonl for both."""
    with whole_file(Path(path)) as file:
        file.writelines(json.dumps(row) + "\n" for row in made)


def game_of(row: Mapping[str, Any]) -> tuple[FocalGame, int]:
    """The game of a row and its seed; raises PolicyError for what is no row of ours."""
    info = row.get("extra_info")
    if not isinstance(info, Mapping) or not isinstance(info.get("game"), str):
        raise PolicyError(
            "a row has no extra_info with a game: make rows with "
            "srl_agents.integrations.game_rows.rows"
        )
    return FocalGame.from_json(info["game"]), whole_number(
        "seed", info.get("seed"), low=0, high=MOST
    )


def _refuse_held_out(game: FocalGame) -> None:
    for agent, who in game.partners.items():
        if is_held_out(who):
            raise PolicyError(
                f"{agent} is played by {who}, which is kept for evaluation: give another, or "
                "evaluation=True for rows that are not trained on"
            )
    with closing(game.make(trusted=True)) as env:
        refuse_levels("game", game.environment, game.options, env)


def _openings(game: FocalGame, seeds: Iterable[int]) -> list[list[dict[str, str]]]:
    with closing(game.make(trusted=True)) as env:
        view, agent = env.unwrapped.text_view, game.agent
        starts = [AgentObservation(agent, env.reset(seed=seed)[0][agent]) for seed in seeds]
        return [
            [
                {"role": "system", "content": rules_for(view, seen)},
                {"role": "user", "content": situation(view, seen)},
            ]
            for seen in starts
        ]
