"""The command: what it refuses, data that training reads back, resuming, environments by name."""

import json

import pytest
import yaml

from mrlm.cli import main

SMALL = {
    "training": {
        "num_epochs": 1, "num_rollouts_per_iteration": 4, "batch_size": 4, "eval_episodes": 0,
    },
    "model": {"model_name_or_path": "Qwen/Qwen2.5-1.5B-Instruct"},
    "eval_envs": [{"env_type": "math", "difficulty_range": [1, 1], "max_turns": 1}],
}  # fmt: skip


def write(folder, name="run.yaml", **sections):
    training = {**SMALL["training"], **sections.pop("training", {})}
    (folder / name).write_text(yaml.safe_dump({**SMALL, **sections, "training": training}))
    return name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--config", "none.yaml"], "none.yaml"),
        (["eval", "--model", "tiny", "--environment", "chess"], "code, math, debate, tool"),
        (["eval", "--model", "nobody", "--environment", "math"], "unknown player 'nobody'"),
        (["eval", "--model", "tiny", "--environment", "math", "-n", "0"], "--num-episodes is 0"),
        (["serve", "--environments", "chess"], "there is no environment 'chess'"),
        (["serve", "--environments", "math", "--host", "0.0.0.0"], "0.0.0.0"),
    ],
    ids=["no file", "environment", "player", "number", "served", "host"],
)
def test_refusals_are_one_line(workplace, capsys, words, message):
    assert main(words) == 2
    told = capsys.readouterr().err
    assert message in told and told.startswith("mrlm: error: ") and told.count("\n") == 1


def test_collected_games_are_learned_from(workplace, capsys):
    model = SMALL["model"]["model_name_or_path"]
    words = ["collect", "--model", model, "--environment", "math", "-n", "4", "-o", "games.json"]
    assert main(words) == 0
    config = write(workplace, training={"algorithm": "sft"}, sft={"data": "games.json"})
    assert main(["train", "--config", config, "--output", "out"]) == 0
    lines = (workplace / "out/data/trajectories.jsonl").read_text().splitlines()
    games = json.loads((workplace / "games.json").read_text())["trajectories"]
    assert len(lines) == 4
    assert json.loads(lines[0])["messages"][-1] == games[0]["actions"][-1]
    assert "loss: " in capsys.readouterr().out


def test_a_run_is_resumed_and_never_written_over(workplace, capsys):
    debate = {"env_type": "debate", "max_turns": 1}
    envs = [*SMALL["eval_envs"], debate, {"env_type": "custom", "custom_class": LENGTHS}]
    first = write(workplace, "first.yaml", eval_envs=envs, training={"save_every": 1})
    assert main(["train", "--config", first]) == 0
    assert main(["train", "--config", first]) == 0
    assert "which is in" in capsys.readouterr().err
    [other] = (workplace / "outputs").glob("ppo-*")
    assert (other / "metrics.jsonl").is_file()
    [saved] = (workplace / "outputs/ppo/checkpoints").glob("[!.]*")
    training = {"save_every": 1, "num_epochs": 3, "eval_every": 2, "eval_episodes": 2}
    longer = write(workplace, "longer.yaml", eval_envs=envs, training=training)
    assert main(["train", "--config", longer, "--resume", str(saved)]) == 0
    rows = (workplace / "outputs/ppo/metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["round"] for row in rows] == [0, 1, 2]
    assert "reward per turn, round_2: " in capsys.readouterr().out


LENGTHS = "tests.docs.mrlm.lengths:Lengths"


def test_settings_that_an_environment_does_not_read(workplace, capsys):
    wrong = [{"env_type": "debate", "dataset": "x.jsonl"}]
    assert main(["train", "--config", write(workplace, eval_envs=wrong)]) == 2
    assert "eval_envs[0].dataset: it is read by code, math" in capsys.readouterr().err
    assert main(["train", "--config", write(workplace, eval_envs=[])]) == 2
    assert "name the environments" in capsys.readouterr().err
