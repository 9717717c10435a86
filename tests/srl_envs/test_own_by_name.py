"""Environments of users, named by 'module:function'."""

import sys

import pytest

import srl_envs
from srl_envs import loading
from srl_envs.errors import EnvConfigError

MODULE = """
from srl_envs.wrappers import with_text
from tests.srl_envs.third_party_games import Nim

A_NUMBER = 3

def nim(mask="observation"):
    return with_text(Nim(mask), rules="Take the last stick.", answers=("one", "two"))

def turn_based():
    return Nim()

def sized(size):
    return nim() + size
"""


@pytest.fixture
def my_games(tmp_path, monkeypatch):
    (tmp_path / "my_own_games.py").write_text(MODULE)
    (tmp_path / "wants_more.py").write_text("import no_such_part\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_user_function_makes_the_environment(my_games):
    assert srl_envs.make("my_own_games:nim").metadata["name"] == "nim_v0"
    plain = srl_envs.make("my_own_games:nim", mask=None).env.observation_space("player_1")
    assert plain.n == 8
    again = srl_envs.make("srl_envs.games.coop_compete:parallel_env", num_agents=3)
    assert len(again.possible_agents) == 3


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("my_own_game:nim", {}, "No module named 'my_own_game'; run the command in the folder"),
        ("my_own_games:A_NUMBER", {}, "has no function or class 'A_NUMBER'"),
        ("my_own_games:", {}, "'my_own_games:' is no 'module:function'"),
        ("my own:games", {}, "is no 'module:function'"),
        ("my_own_games:nim", {"masks": 1}, "'masks' (did you mean 'mask'?)"),
        ("my_own_games:sized", {}, "my_own_games:sized: missing a required argument: 'size'"),
        ("my_own_games:turn_based", {}, "must return a PettingZoo ParallelEnv"),
        ("custom:nim_v0", {}, "there is no environment 'custom:nim_v0': it was an object"),
    ],
)
def test_invalid_user_names_raise_one_line(my_games, name, options, said):
    with pytest.raises(EnvConfigError) as refused:
        srl_envs.make(name, **options)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_current_folder_is_searched_last(tmp_path, monkeypatch):
    (tmp_path / "a_game_here.py").write_text(MODULE)
    (tmp_path / "colorsys.py").write_text("def rgb_to_hsv():\n    raise SystemExit\n")
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one != ""])
    monkeypatch.chdir(tmp_path)
    assert srl_envs.make("a_game_here:nim").metadata["name"] == "nim_v0"
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert loading.code("colorsys:rgb_to_hsv")(0, 0, 0) == (0, 0, 0)
