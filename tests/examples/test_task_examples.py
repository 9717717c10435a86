"""The examples about tasks run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from srl_agents.episode import from_json
from srl_train.config import yaml_file
from srl_train.trainer import Trainer

ROOT = Path(__file__).parents[2]


def test_custom_task():
    said = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "custom_task.py")],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout  # fmt: skip
    assert "Put the letters into the order of the alphabet." in said
    assert "Attempt 2 of 2. They are not in order." in said
    assert "(earned +0.95)" in said or "(earned +0.70)" in said


@pytest.mark.parametrize(
    "shown", ["another game", pytest.param("as it comes", marks=pytest.mark.slow)]
)
def test_a_custom_task_is_trained_on_by_its_name(shown, tmp_path, monkeypatch, request):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    name, options = "custom_task:parallel_env", {"difficulty": 1}
    base = request.getfixturevalue("tiny_folder") if shown == "another game" else "tiny"
    config = yaml_file.from_tree(
        {
            "environment": {"name": name, "options": options},
            "models": {"count": 1, "base": base, "sampling": {"max_new_tokens": 16}},
            "rollout": {"group_size": 2, "groups_per_round": 2},
            "logging": {"evaluation_episodes": 0},
            "rounds": 1,
        }
    )
    Trainer(config, tmp_path).fit()
    [kept] = (tmp_path / "episodes").glob("*.jsonl")
    episodes = [from_json(line) for line in kept.read_text("utf-8").splitlines()]
    assert episodes and all(episode.failure is None for episode in episodes)
    answers = [step.decision for e in episodes for turn in e.turns for step in turn]
    if shown == "as it comes":  # the warm start taught the form
        assert sum(answer.parse_failure is None for answer in answers) >= len(answers) - 1
