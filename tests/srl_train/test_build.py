"""Building a run: refused combinations, and environments by module and function."""

import json

import pytest
from transformers import AutoTokenizer

from srl_agents.episode import from_json
from srl_envs.games import coop_compete as coop_compete_v0
from srl_extensions.remote.grpc_server import ServerSettings, in_thread
from srl_train.build import build_run
from srl_train.cli import main
from srl_train.config.run import EnvironmentConfig, RunConfig
from srl_train.environment import build_env
from srl_train.errors import ConfigError, UpdateError
from srl_train.metrics import read_metrics
from tests.srl_train.learners.reference.grpo import small_model

WRONG = [
    ({"environment__options": {"num_agnets": 3}}, ConfigError, "environment: .*num_agnets"),
    ({"seats": {"agent_9": "model_0"}}, ConfigError, "seats: .* got 'agent_9'"),
    (
        {"seats": {"agent_0": "model_7"}},
        ConfigError,
        "seats.agent_0 .*always_cooperate.* got 'model_7'",
    ),
    ({"models__count": 3}, ConfigError, "seats: .* model_2 does not"),
    ({"models__agent_sampling": {"x": {}}}, ConfigError, "models.agent_sampling .* got 'x'"),
    (
        {"models__count": 1, "models__agent_sampling": {"agent_1": {"temperature": 0.5}}},
        ConfigError,
        "models.agent_sampling: model_0",
    ),
    (
        {"mode": {"name": "hierarchical", "leader": "nobody"}},
        ConfigError,
        "mode.leader must be one of agent_0, agent_1; got 'nobody'",
    ),
    (
        {"updates": {"strategy": "federated", "groups": [["model_0", "model_1"], ["model_1"]]}},
        UpdateError,
        "'model_1' is in 2 groups",
    ),
]


@pytest.mark.parametrize("settings, kind, says", WRONG)
def test_inconsistent_configurations_are_refused(settings, kind, says, short_run):
    with pytest.raises(kind, match=says) as error:
        build_run(short_run(**settings))
    assert "\n" not in str(error.value)


def test_an_environment_without_a_text_view_is_refused(short_run):
    class Silent(coop_compete_v0.CoopCompete):
        text_view = property(lambda self: None, lambda self, view: None)

    with pytest.raises(ConfigError, match="no text_view"):
        build_run(short_run(), lambda: Silent(variant="pair", max_cycles=2))


def test_models_that_cannot_be_averaged_are_refused(short_run, tiny_folder, tmp_path):
    other = tmp_path / "other"
    small_model().save_pretrained(other)
    AutoTokenizer.from_pretrained(tiny_folder).save_pretrained(other)
    bases = {"models__base": [tiny_folder, str(other)]}
    with pytest.raises(UpdateError, match="model_0 and model_1 cannot be averaged"):
        build_run(short_run(**bases, updates__strategy="synchronized"))
    assert len(build_run(short_run(**bases)).learners) == 2


GAMES = """
from srl_envs.wrappers import with_text
from tests.srl_envs.third_party_games import NeverTwice

def colours(words=("red", "green", "blue")):
    return with_text(NeverTwice(), rules="Show the same colour.", answers=words)

def faulty():
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


def test_srl_train_uses_an_environment_by_module(my_games, tiny_folder, tmp_path):
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


def test_a_remote_environment_gives_the_same_weights(tiny_folder, tmp_path):
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
        ("games_of_mine:colours", {"words": ["a"]}, "environment: answers of player_0"),
    ],
)
def test_wrong_environments_raise_config_errors(my_games, name, options, said):
    with pytest.raises(ConfigError) as refused:
        build_env(RunConfig(environment=EnvironmentConfig(name=name, options=options)))
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


def test_srl_eval_scores_an_environment_by_module(my_games, tiny_folder, tmp_path, capsys):
    out = tmp_path / "scores.json"
    words = ["eval", "--environment", "games_of_mine:colours", "--episodes", "2", "--out", str(out)]

    assert main([*words, "--policy", tiny_folder, "--constrained"]) == 0

    [score] = json.loads(out.read_text())["scores"]
    assert score["scenario"]["name"] == "games_of_mine:colours.all"
    assert main([*words, "--policy", "uniform", "--held-out", "only"]) == 2
    assert "got games_of_mine:colours" in capsys.readouterr().err


def test_errors_of_custom_environments_keep_their_traceback(my_games):
    with pytest.raises(ValueError) as raised:
        main(["eval", "--environment", "games_of_mine:faulty", "--policy", "tiny"])
    assert "games_of_mine.py" in str(raised.traceback[-1].path)
