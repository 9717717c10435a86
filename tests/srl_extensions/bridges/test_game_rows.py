"""Rows of games: written, read back, and refused where they are none."""

import json

import pytest

from srl_agents.errors import PolicyError
from srl_envs.errors import EnvConfigError
from srl_extensions.bridges.focal_game import FocalGame, game_of, rows, write_rows

OPTIONS = {"num_agents": 3, "max_cycles": 2}
GAMES = [
    FocalGame("coop_compete_v0", agent, {"agent_2": "always_compete"}, OPTIONS)
    for agent in ("agent_0", "agent_1")
]


def test_rows_survive_a_file(tmp_path):
    path = tmp_path / "games.jsonl"
    write_rows(path, rows(GAMES, (5, 6)))
    read = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [game_of(row) for row in read] == [(game, seed) for seed in (5, 6) for game in GAMES]
    assert [row["extra_info"]["index"] for row in read] == [0, 1, 2, 3]
    system, user = read[1]["prompt"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert "agent_1" in system["content"]


def test_episode_length_equals_that_of_our_trainer():
    [row] = rows([FocalGame("coop_compete_pair_v0", "agent_0")], [0])
    assert game_of(row)[0].make().unwrapped.max_cycles == 8


@pytest.mark.parametrize(
    ("game", "words"),
    [
        (
            FocalGame("coop_compete_pair_v0", "agent_0", {"agent_1": "pavlov"}),
            "pavlov, the partner of agent_1, is reserved for evaluation",
        ),
        (FocalGame("maze_v0", "agent_0", options={"split": "test"}), "kept for evaluation"),
    ],
)
def test_held_out_partners_and_levels_are_refused(game, words):
    with pytest.raises((PolicyError, EnvConfigError), match=words):
        rows([game], [0])
    assert len(rows([game], [0], evaluation=True)) == 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({}, "extra_info with a game"),
        ({"extra_info": {"game": 3, "seed": 0}}, "extra_info with a game"),
        ({"extra_info": {"game": "{", "seed": 0}}, "not JSON"),
        ({"extra_info": {"game": "[]", "seed": 0}}, "must be a JSON object"),
        ({"extra_info": {"game": '{"agent": "a"}', "seed": 0}}, "environment"),
        (
            {"extra_info": {"game": '{"environment": "e", "agent": "a", "p": {}}', "seed": 0}},
            "p\n",
        ),
        (
            {
                "extra_info": {
                    "game": '{"environment": "e", "agent": "a", "max_new_tokens": 0}',
                    "seed": 0,
                }
            },
            "max_new_tokens",
        ),
    ],
)
def test_invalid_rows_are_refused(row, words):
    with pytest.raises(PolicyError, match=words):
        game_of(row)
