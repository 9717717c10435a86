"""several_tasks.yaml runs, smaller: one model, three tasks, and numbers for each."""

from pathlib import Path

import pytest

from srl_envs import make
from srl_train.config import yaml_file
from srl_train.metrics.run_folder import load
from srl_train.trainer import Trainer
from tests.srl_envs.sandbox.sandboxes import any_sandbox

CONFIG = Path(__file__).parents[2] / "examples" / "configs" / "several_tasks.yaml"


@pytest.mark.slow
def test_one_model_trains_on_three_tasks(tmp_path, glimpse):
    with any_sandbox(workers=1) as sandbox:
        level = sandbox.protections().level
    here = {"environment.options.environments.programs.options.sandbox_minimum": level}
    options = yaml_file.load(CONFIG, here).environment.options
    smaller = {
        "models.base": str(glimpse(lambda: make("multitask_v0", **options))),
        "rollout.group_size": 2,
        "rollout.groups_per_round": 9,
        "logging.evaluation_episodes": 0,
        "models.sampling.max_new_tokens": 16,
        "rounds": 1,
    }
    Trainer(yaml_file.load(CONFIG, here | smaller), tmp_path / "run").fit()
    [row] = load(tmp_path / "run").rows
    told = row["by_environment"]
    assert set(told) == {"sums", "programs", "tools"}
    assert sum(one["episodes"] for one in told.values()) == row["environment"]["episodes"] == 18
    assert all(one["success"] is not None for one in told.values())
    assert row["environment"]["failed_episodes"] == 0
    assert row["models"]["model_0"]["weight_change"] > 0
