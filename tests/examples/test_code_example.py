"""code.yaml runs, smaller: the path from a tiny model's text through the sandbox to its weights."""

from pathlib import Path

import pytest

from srl_train.cli import main
from tests.srl_envs.sandbox.sandboxes import any_sandbox

CONFIG = Path(__file__).parents[2] / "examples" / "configs" / "code.yaml"


@pytest.mark.slow
def test_code(tmp_path):
    with any_sandbox(workers=1) as sandbox:
        level = sandbox.protections().level
    wanted = (
        "rounds=1",
        "rollout.group_size=4",
        "rollout.groups_per_round=2",
        "logging.evaluation_episodes=4",
        f"environment.options.sandbox_minimum={level}",
    )
    overrides = [word for setting in wanted for word in ("--set", setting)]
    assert main(["train", str(CONFIG), "--out", str(tmp_path / "run"), *overrides]) == 0
    assert (tmp_path / "run" / "models" / "model_0" / "model.safetensors").is_file()
