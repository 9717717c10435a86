"""The configurations with debates and tools train as they stand, in small."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from srl_envs import debate_v0, tool_use_v0
from srl_train.config import yaml_file
from srl_train.trainer import Trainer

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGS = EXAMPLES / "configs"
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
