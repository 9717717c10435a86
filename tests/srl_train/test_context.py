"""Training with models.context: every answer has a separate context."""

import json
import shutil

import pytest
import torch

from srl_train import RunConfig, Trainer
from srl_train.config.yaml_file import from_tree
from srl_train.errors import TrainingError
from srl_train.round import plan_round, play, prepare

SMALL = {"max_position_embeddings": 256, "num_hidden_layers": 1}
LONG = {"name": "bandit_v0", "options": {"num_agents": 1, "max_cycles": 200}}
GAME = {"name": "coop_compete_v0", "options": {"num_agents": 2, "max_cycles": 6}}


def config(context, steps=8, **changes):
    return from_tree(
        {
            "environment": GAME,
            "models": {"count": 1, "constrained": True, "context": context, "context_steps": steps},
            "rollout": {"groups_per_round": 1, "group_size": 4},
            "logging": {"evaluation_episodes": 0},
            "rounds": 2,
        },
        changes,
    )


def first_gradients(tmp_path, context, steps, changes):
    """Return the samples and gradients of the first optimizer step."""
    with Trainer(config(context, steps, **changes), tmp_path / context, progress=False) as trainer:
        run = trainer.run
        samples = prepare(run, 0, play(run, plan_round(run, 0))).samples["model_0"]
        learner = run.learners["model_0"]
        learner.begin_update(samples, 0, 0)
        gradients = {name: one.clone() for name, one in learner.compute_gradients().items()}
    return samples, gradients


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"models.constrained": False},
        {"models.adapters.rank": 2},
        {"algorithm.loss": "dr_grpo"},
        {"credit.name": "agent_turn"},
        {"algorithm.name": "ppo", "algorithm.critic": "shared"},
        {"algorithm.name": "ppo", "algorithm.critic": "separate"},
    ],
)
def test_a_window_over_the_whole_episode_has_the_gradients_of_the_whole_conversation(
    tmp_path, changes
):
    samples, full = first_gradients(tmp_path, "full", 8, changes)
    windows, windowed = first_gradients(tmp_path, "window", 6, changes)
    for one, other in zip(samples, windows, strict=True):
        assert one.contexts is None and len(other.contexts) == 6
        assert one.episode_return == other.episode_return
    assert max(float(one.abs().max()) for one in full.values()) > 1e-4
    for name, gradient in full.items():
        torch.testing.assert_close(windowed[name], gradient, rtol=0, atol=1e-5)


def test_episodes_of_200_steps_train_on_256_tokens(tmp_path, tiny_folder):
    base = shutil.copytree(tiny_folder, tmp_path / "base")
    sizes = json.loads((base / "config.json").read_text()) | SMALL
    (base / "config.json").write_text(json.dumps(sizes))
    changes = {"environment": LONG, "models.base": str(base), "rollout.group_size": 2}
    full = Trainer(config("full", **changes), tmp_path / "full", progress=False)
    with full, pytest.raises(TrainingError, match="context"):
        full.train_round()
    with Trainer(config("window", 2, **changes), tmp_path / "run", progress=False) as trainer:
        episodes = trainer.train_round().episodes
        assert trainer.run.versions["model_0"] == 1
    assert [(len(one.turns), one.failure) for one in episodes] == [(200, None)] * 2


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    weights = []
    for name, rounds in (("whole", [2]), ("resumed", [1, 2])):
        for until in rounds:
            own = config("window", 2, **{"rounds": until, "checkpoints.every": 1})
            with Trainer(own, tmp_path / name, progress=False) as trainer:
                if until == 2 and name == "resumed":
                    trainer.load_checkpoint()
                trainer.fit()
                weights.append(trainer.run.learners["model_0"].weights())
    for key, tensor in weights[0].items():
        assert torch.equal(tensor, weights[2][key])


def test_settings_are_checked():
    with pytest.raises(ValueError, match="context"):
        config("widow")
    with pytest.raises(ValueError, match="context"):
        RunConfig(**{**dict(config("window")), "sft": {"data_policy": "tit_for_tat"}})
