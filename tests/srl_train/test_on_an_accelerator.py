"""Training on an accelerator: `make bench-gpu` runs these where there is one."""

import pytest
import torch

from srl_train.build import build_run
from srl_train.round import train_round
from srl_train.trainer import Trainer
from tests.srl_train.run_state import everything, resumed_and_whole, weights
from tests.srl_train.test_round_with_models import sampled_and_recomputed

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
WAYS = {
    "grpo": {},
    "ppo": {"algorithm__name": "ppo"},
    "a central critic": {"algorithm__name": "ppo", "algorithm__critic": "central"},
    "adapters": {"models__adapters": {"rank": 4}},
    "federated": {"updates": {"strategy": "federated"}},
    "synchronized": {"updates": {"strategy": "synchronized"}},
    "against past selves": {
        "opponent_pools": {"past": {"models": ["model_0"], "every": 1}},
        "seats": {"agent_0": "model_0", "agent_1": "past"},
        "models__count": 1,
    },
    "demonstrations first": {"sft": {"data_policy": "always_cooperate", "episodes": 8}},
}


@pytest.mark.parametrize("way", WAYS)
def test_models_learn_there(way, short_run, tmp_path):
    trainer = Trainer(short_run(models__device=DEVICE, **WAYS[way]), tmp_path)
    before = weights(trainer.run)
    trainer.fit()
    for model, own in weights(trainer.run).items():
        assert {tensor.device.type for tensor in own.values()} == {DEVICE}
        assert all(torch.isfinite(tensor).all() for tensor in own.values())
        assert any(not torch.equal(tensor, before[model][name]) for name, tensor in own.items())


@pytest.mark.parametrize("adapters", [None, {"rank": 4}], ids=["whole", "adapters"])
@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-3), ("bfloat16", 0.3)])
def test_sampled_and_recomputed_log_probabilities_agree(
    dtype, most, constrained, adapters, short_run
):
    run = build_run(
        short_run(
            models__device=DEVICE,
            models__dtype=dtype,
            models__constrained=constrained,
            models__adapters=adapters,
        )
    )
    train_round(run, 0)
    pairs = sampled_and_recomputed(run, 1)
    assert len(pairs) >= 16
    assert max(abs(told - own) for told, own in pairs) < most


def test_a_run_resumes_from_its_checkpoint(short_run, tmp_path):
    config = short_run(models__device=DEVICE, rounds=3, checkpoints__every=1)
    resumed, whole = resumed_and_whole(config, tmp_path)
    assert everything(resumed.run)["versions"] == everything(whole.run)["versions"]
    other = weights(whole.run)
    for model, own in weights(resumed.run).items():
        for name, tensor in own.items():  # sums on accelerators are not ordered: not to the bit
            torch.testing.assert_close(tensor, other[model][name], rtol=1e-3, atol=1e-4)
