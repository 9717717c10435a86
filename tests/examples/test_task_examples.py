"""Examples with tasks run unchanged or at a small size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from srl_agents.episode import from_json
from srl_envs import debate_v0, make, tool_use_v0
from srl_extensions.pages.run_folder import load
from srl_train.config import yaml_file
from srl_train.trainer import Trainer
from tests.srl_envs.sandbox.sandboxes import any_sandbox

ROOT = Path(__file__).parents[2]


def test_custom_task():
    said = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "custom_task.py")],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert "Put the letters into the order of the alphabet." in said
    assert "Attempt 2 of 2. They are not in order." in said
    assert "(reward +0.95)" in said or "(reward +0.70)" in said


def test_custom_task_trains_by_name(tmp_path, monkeypatch, tiny_folder):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    name, options = "custom_task:parallel_env", {"difficulty": 1}
    config = yaml_file.from_tree(
        {
            "environment": {"name": name, "options": options},
            "models": {"count": 1, "base": tiny_folder, "sampling": {"max_new_tokens": 16}},
            "rollout": {"group_size": 2, "groups_per_round": 2},
            "logging": {"evaluation_episodes": 0},
            "rounds": 1,
        }
    )
    Trainer(config, tmp_path).fit()
    [kept] = (tmp_path / "episodes").glob("*.jsonl")
    episodes = [from_json(line) for line in kept.read_text("utf-8").splitlines()]
    assert episodes and all(episode.failure is None for episode in episodes)


CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
SMALLER = {
    "rounds": 2,
    "rollout.group_size": 4,
    "rollout.groups_per_round": 1,
    "logging.evaluation_episodes": 0,
    "models.sampling.max_new_tokens": 8,
}


def debate():
    return debate_v0.parallel_env(topics=["Tea is best."], debate_rounds=2, history=1)


def tool_use():
    options = yaml_file.load(CONFIGS / "tool_use.yaml").environment.options
    return tool_use_v0.parallel_env(**options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "smaller"),
    [
        ("debate.yaml", debate, {}),
        ("tool_use.yaml", tool_use, {"sft.episodes": 8, "sft.min_return": None, "sft.epochs": 1}),
    ],
)
def test_weights_change(name, make, smaller, tmp_path, glimpse):
    start = glimpse(make)
    config = yaml_file.load(CONFIGS / name, {**SMALLER, **smaller, "models.base": str(start)})
    Trainer(config, tmp_path / "run").fit()
    before = load_file(start / "model.safetensors")
    for folder in (tmp_path / "run" / "models").iterdir():
        after = load_file(folder / "model.safetensors")
        assert before.keys() == after.keys()
        assert any(not torch.equal(before[key], after[key]) for key in before)


@pytest.mark.slow
def test_one_model_trains_on_three_tasks(tmp_path, glimpse):
    with any_sandbox() as sandbox:
        level = sandbox.protections().level
    here = {"environment.options.environments.programs.options.sandbox_minimum": level}
    options = yaml_file.load(CONFIGS / "several_tasks.yaml", here).environment.options
    smaller = {
        "models.base": str(glimpse(lambda: make("multitask_v0", **options))),
        "rollout.group_size": 2,
        "rollout.groups_per_round": 9,
        "logging.evaluation_episodes": 0,
        "models.sampling.max_new_tokens": 16,
        "rounds": 1,
    }
    Trainer(yaml_file.load(CONFIGS / "several_tasks.yaml", here | smaller), tmp_path / "run").fit()
    [row] = load(tmp_path / "run").rows
    told = row["by_environment"]
    assert set(told) == {"sums", "programs", "tools"}
    assert sum(one["episodes"] for one in told.values()) == row["environment"]["episodes"] == 18
    assert all(one["success"] is not None for one in told.values())
    assert row["environment"]["failed_episodes"] == 0
    assert row["models"]["model_0"]["weight_change"] > 0
