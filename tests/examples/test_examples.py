"""Examples with language models run unchanged or at a small size."""

import re
import runpy
import sys
from pathlib import Path

import pytest

from srl_train.cli import main
from srl_train.config import yaml_file
from srl_train.trainer import Trainer
from tests.servers.chat_server import chat_server

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGS = EXAMPLES / "configs"


MOMENT = {
    "environment__options": {"num_agents": 4, "max_cycles": 2},
    "rollout__group_size": 4,
    "logging__evaluation_episodes": 2,
}


def train(name, out, *settings):
    """Train as the configuration says, but for one round, in pairs of games."""
    briefly = ("rounds=1", "rollout.group_size=2")
    overrides = [word for setting in (*briefly, *settings) for word in ("--set", setting)]
    assert main(["train", str(CONFIGS / name), "--out", str(out), *overrides]) == 0


@pytest.fixture
def run_example(tmp_path, monkeypatch, capsys):
    """Name -> what the example prints; run in this process, which has torch and TRL already."""

    def run(name, *arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.usefixtures("one_model")
def test_llm_against_scripted(run_example):
    said = run_example("llm_against_scripted.py")
    rewards = [float(value) for value in re.findall(r": (0\.\d+) per step over 20 episodes", said)]
    assert len(rewards) == 2
    # Agreeing half of the time with a partner that always cooperates pays 0.725 per step.
    assert rewards == pytest.approx([0.725, 0.7125], abs=0.03)
    transcript = said.partition("the last episode")[2]
    assert "You are agent_0" in transcript
    assert transcript.count("tit_for_tat chose to") == 6


def test_help_trains_nothing(run_example, tmp_path):
    with pytest.raises(SystemExit):
        run_example("train.py", "--help")
    assert list(tmp_path.iterdir()) == []


def test_train(run_example, tmp_path, in_small, tiny_folder):
    in_small(models__base=tiny_folder, rounds=2, **MOMENT)
    said = run_example("train.py")
    assert re.search(r"the models: (0\.\d+) before training and (0\.\d+) after", said)
    assert said.count(": 2 updates, cooperated") == 4
    assert (tmp_path / "runs/train/metrics.jsonl").read_text().count("\n") == 2


@pytest.mark.usefixtures("one_model")
def test_collect_and_dpo(run_example, in_small):
    in_small(dpo__epochs=1, logging__evaluation_episodes=2)
    said = run_example("collect_and_dpo.py")
    assert re.search(r"^64 episodes gave [1-9]\d* pairs$", said, re.M)
    assert re.search(r"evaluation: 0\.\d+ before and 0\.\d+ after", said)


def test_custom_update_strategy(run_example, in_small, tiny_folder):
    in_small(models__base=tiny_folder, **MOMENT)
    said = run_example("custom_update_strategy.py")
    rounds = re.findall(r"round \d: raw reward 0\.\d+, weight changes (.+)", said)
    moves = [[float(value) for value in line.split(", ")] for line in rounds]
    assert len(moves) == 4
    for one_round in moves:
        assert len(set(one_round)) == 1 and one_round[0] > 0  # synchronized: they move as one
    assert moves[1][0] < moves[0][0] and moves[3][0] < moves[2][0]  # and step back every second


@pytest.mark.usefixtures("one_model")
def test_one_file_grpo(run_example):
    said = run_example("one_file_grpo.py", "2")
    first, second = map(float, re.findall(r"round \d: mean reward (0\.\d+)", said))
    assert first == pytest.approx(0.7625, abs=0.02)
    assert second > 0.785  # more than a quarter of the way to the optimum, 0.85


FOUR = ["environment.options.max_cycles=4"]


@pytest.mark.parametrize(
    ("name", "smaller"),
    [
        ("demo.yaml", FOUR),
        ("ppo.yaml", FOUR),
        ("sft_then_grpo.yaml", [*FOUR, "sft.episodes=8", "sft.epochs=1"]),
        ("team_battle.yaml", FOUR),
        ("own_model.yaml", FOUR),
        ("maze.yaml", FOUR),
        ("trading.yaml", [*FOUR, "rollout.group_size=4", "rollout.groups_per_round=1"]),
        ("players/population.yaml", [*FOUR, "models.count=3"]),
    ],
)
def test_configurations(name, smaller, tmp_path, tiny_folder):
    wanted = ["logging.evaluation_episodes=1", "models.sampling.max_new_tokens=4", *smaller]
    train(name, tmp_path / "run", *wanted, f"models.base={tiny_folder}")
    assert list((tmp_path / "run" / "models" / "model_0").glob("*model.safetensors"))


def test_api_agent(tmp_path, tiny_folder):
    whole = yaml_file.load(CONFIGS / "players/api_agent.yaml")
    assert whole.rounds * whole.rollout.episodes == 40, "its comment counts the answers"
    assert whole.environment.options["max_cycles"] == 4
    smaller = {"rounds": 1, "rollout.group_size": 4, "models.base": tiny_folder}
    with chat_server() as server:
        Trainer(yaml_file.load(CONFIGS / "players/api_agent.yaml", smaller), tmp_path / "run").fit()
    assert len(server.bodies) == 4 * 4
    assert {(b["model"], b["max_tokens"]) for b in server.bodies} == {("gpt-5-mini", 1024)}
    assert {path.name for path in (tmp_path / "run" / "models").iterdir()} == {"model_0", "model_1"}
