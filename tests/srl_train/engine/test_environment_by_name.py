"""A run in an environment of one's own, from the configuration alone."""

import json
import pickle
from functools import partial

import pytest

from srl_agents.episode import from_json
from srl_extensions.remote.grpc_server import in_thread
from srl_extensions.remote.settings import ServerSettings
from srl_train.cli import main
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.metrics import read_metrics

GAMES = """
from srl_envs.wrappers import with_text
from tests.srl_envs.third_party_games import NeverTwice

def colours(words=("red", "green", "blue")):
    return with_text(NeverTwice(), rules="Show the same colour.", answers=words)

def faulty_constructor():
    return colours() + 1

def faulty_reset():
    game = colours()
    game.env.reset = lambda **_: int("x")
    return game
"""
CONFIG = """
environment: {{name: "games_of_mine:colours", options: {{words: [rot, gelb, blau]}}}}
models: {{count: 2, base: "{folder}", constrained: true}}
rollout: {{group_size: 4, groups_per_round: 1}}
logging: {{evaluation_episodes: 0}}
rounds: 2
"""


@pytest.fixture
def my_games(tmp_path, monkeypatch):
    (tmp_path / "games_of_mine.py").write_text(GAMES)
    monkeypatch.syspath_prepend(tmp_path)


def test_srl_train_reaches_it(my_games, tiny_folder, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(folder=tiny_folder))
    assert main(["train", str(config), "--out", str(tmp_path / "run")]) == 0
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["environment"]["name"] for row in rows] == ["games_of_mine:colours"] * 2
    assert all(model["weight_change"] > 0 for model in rows[-1]["models"].values())
    files = (tmp_path / "run" / "episodes").glob("*.jsonl")
    texts = {
        step.decision.text
        for file in files
        for line in file.read_text().splitlines()
        for turn in from_json(line).turns
        for step in turn
    }
    assert texts <= {"rot", "gelb", "blau"} and len(texts) > 1


def test_a_run_on_a_server_learns_what_it_learns_here(tiny_folder, tmp_path):
    game = "coop_compete_pair_v0"
    settings = CONFIG.split("\n", 2)[2].format(folder=tiny_folder)
    weights = []
    with in_thread(ServerSettings(environments=[game])) as running:
        for where, name in (("here", game), ("there", f"grpc://{running.address}/{game}")):
            config = tmp_path / f"{where}.yaml"
            config.write_text(f"environment: {{name: '{name}'}}\n{settings}")
            assert main(["train", str(config), "--out", str(tmp_path / where)]) == 0
            models = sorted((tmp_path / where / "models").rglob("*.safetensors"))
            weights.append([model.read_bytes() for model in models])
    assert len(weights[0]) == 2 and weights[0] == weights[1]
    # What was recorded is played again without the server.
    [record] = (tmp_path / "there" / "episodes").glob("*_00000000.jsonl")
    assert main(["replay", str(record)]) == 0


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("games_of_nobody:colours", {}, "environment: games_of_nobody:colours: No module named"),
        ("games_of_mine:colors", {}, "environment: games_of_mine:colors: module games_of_mine has"),
        ("games_of_mine:colours", {"words": ["a"]}, "environment: answers for player_0 are"),
    ],
)
def test_what_is_wrong_is_a_config_error(my_games, name, options, said):
    with pytest.raises(ConfigError) as refused:
        build_env(RunConfig(environment=EnvironmentConfig(name=name, options=options)))
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


def test_what_makes_the_environment_can_be_sent_to_another_process():
    environment = EnvironmentConfig(name="coop_compete_v0", options={"num_agents": 6})
    make_env = partial(build_env, RunConfig(environment=environment))
    assert len(pickle.loads(pickle.dumps(make_env))().possible_agents) == 6


def test_srl_eval_plays_it_with_every_seat_focal(my_games, tiny_folder, tmp_path, capsys):
    out = tmp_path / "scores.json"
    words = ["eval", "--environment", "games_of_mine:colours", "--episodes", "2", "--out", str(out)]

    assert main([*words, "--policy", tiny_folder, "--constrained"]) == 0

    [score] = json.loads(out.read_text())["scores"]
    assert score["scenario"]["name"] == "games_of_mine:colours.all"
    assert main([*words, "--policy", "uniform", "--held-out", "only"]) == 2
    assert "got games_of_mine:colours" in capsys.readouterr().err


COMMANDS = {
    "train": ("train", "{config}", "--out", "{out}"),
    "collect": ("collect", "{config}", "--out", "{out}"),
    "eval": ("eval", "--environment", "{game}", "--policy", "tiny"),
    "crossplay": ("crossplay", "tiny", "uniform", "--environment", "{game}"),
    "exploit": ("exploit", "uniform", "--environment", "{game}", "--out", "{out}"),
    "play": ("play", "{game}", "--opponent", "tiny"),
}


@pytest.mark.parametrize(
    ("function", "error"), [("faulty_constructor", TypeError), ("faulty_reset", ValueError)]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_errors_of_an_own_environment_keep_their_traceback(
    my_games, tmp_path, command, function, error
):
    game = f"games_of_mine:{function}"
    config = tmp_path / "config.yaml"
    config.write_text(f"environment: {{name: '{game}'}}\nmodels: {{base: tiny, count: 2}}\n")
    names = {"config": config, "out": tmp_path / "out", "game": game}
    with pytest.raises(error) as raised:
        main([word.format(**names) for word in COMMANDS[command]])
    assert "games_of_mine.py" in str(raised.traceback[-1].path)
