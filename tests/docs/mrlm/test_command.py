"""The command: refused arguments, collected data, resuming, environments by name."""

import json

import pytest
import yaml

from mrlm.cli import main

SMALL = {
    "training": {
        "num_epochs": 1, "num_rollouts_per_iteration": 4, "batch_size": 4, "eval_episodes": 0,
    },
    "model": {"model_name_or_path": "Qwen/Qwen2.5-1.5B-Instruct"},
    "eval_envs": [{"env_type": "math", "max_turns": 1, "options": {"difficulty": [1, 1]}}],
}  # fmt: skip


def write(folder, name="run.yaml", **sections):
    training = {**SMALL["training"], **sections.pop("training", {})}
    (folder / name).write_text(yaml.safe_dump({**SMALL, **sections, "training": training}))
    return name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "--config", "none.yaml"], "none.yaml"),
        (["eval", "--model", "nobody", "--environment", "math"], "unknown player 'nobody'"),
        (["serve", "--environments", "math", "--host", "0.0.0.0"], "0.0.0.0"),
    ],
    ids=["no file", "player", "host"],
)
def test_refusals_are_one_line(workplace, capsys, words, message):
    assert main(words) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
    assert told.startswith(("mrlm: error: ", "srl: error: "))  # The second is of an srl command.


def test_collected_episodes_are_learned_from(workplace, capsys):
    model = SMALL["model"]["model_name_or_path"]
    words = ["collect", "--model", model, "--environment", "math", "-n", "4", "-o", "data.jsonl"]
    assert main(words) == 0
    config = write(workplace, training={"algorithm": "sft"}, sft={"data": "data.jsonl"})
    assert main(["train", "--config", config, "--output", "out"]) == 0
    [row] = map(json.loads, (workplace / "out/stages.jsonl").read_text().splitlines())
    assert row["models"]["model_0"]["samples"] == 4
    assert "loss: " in capsys.readouterr().out


def test_a_run_is_resumed_and_never_written_over(workplace, capsys):
    envs = [*SMALL["eval_envs"], {"env_type": "math", "max_turns": 2}]
    first = write(workplace, "first.yaml", eval_envs=envs, training={"save_every": 1})
    assert main(["train", "--config", first]) == 0
    assert main(["train", "--config", first]) == 0
    assert "was moved to" in capsys.readouterr().err
    [other] = (workplace / "outputs").glob("ppo-*")
    assert (other / "metrics.jsonl").is_file()
    [saved] = (workplace / "outputs/ppo/checkpoints").glob("[!.]*")
    training = {"save_every": 1, "num_epochs": 2, "eval_episodes": 2}
    longer = write(workplace, "longer.yaml", eval_envs=envs, training=training)
    assert main(["train", "--config", longer, "--resume", str(saved)]) == 0
    rows = (workplace / "outputs/ppo/metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["round"] for row in rows] == [0, 1]
    assert "after: reward " in capsys.readouterr().out
