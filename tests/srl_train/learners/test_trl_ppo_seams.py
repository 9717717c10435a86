"""TRL still has the seams that PPO hangs on."""

import inspect

import torch
from trl import GRPOTrainer

from srl_train.learners.trl_ppo import PlayedPPOTrainer
from srl_train.learners.upstream_warnings import quiet_upstream
from tests.srl_train.learners.reference.ppo import played, ppo_learner


def overrides():
    return {
        name
        for name, thing in vars(PlayedPPOTrainer).items()
        if inspect.isfunction(thing) and hasattr(GRPOTrainer, name)
    }


def test_nothing_else_of_trl_is_overridden():
    assert overrides() == {
        "__init__",
        "create_optimizer",
        "_generate_and_score_completions",
        "_compute_loss",
    }


def test_trl_calls_the_optimizer_before_the_schedule():
    one = ppo_learner(schedule="linear", value_learning_rate=0.5, learning_rate=0.1)
    rates = [group["lr"] for group in one._trainer.optimizer.param_groups]
    assert rates == [0.1, 0.1, 0.5]
    assert one._trainer.lr_scheduler.base_lrs == rates
    critic = one._trainer.optimizer.param_groups[-1]
    assert critic["weight_decay"] == 0.0
    assert {id(p) for p in critic["params"]} == {id(p) for p in one._critic.values()}


def generated(one, samples):
    one.begin_update(samples, 0, 0)
    one._trainer.model.train()
    with quiet_upstream():
        return one._trainer._generate_and_score_completions(one._inputs())


def test_our_tensors_have_a_row_per_sample_and_are_shuffled_and_split_with_the_others():
    samples = played()
    batch = generated(ppo_learner(critic="central"), samples)
    own = ["returns", "old_values", "value_weights", "value_positions", "states"]
    assert batch["advantages"].shape == batch["completion_ids"].shape
    assert all(batch[name].shape[:2] == (8, 3) for name in own)

    one = ppo_learner(critic="central", minibatches=2)
    one.begin_update(samples, 1, 0)
    one.compute_gradients()
    buffered = one._trainer._buffered_inputs
    assert len(buffered) == 2
    rows = {tuple(r[m.bool()].tolist()): number for number, (r, m) in enumerate(
        zip(batch["completion_ids"], batch["completion_mask"], strict=True))}  # fmt: skip
    order = []
    for part in buffered:
        for row in range(4):
            ids, mask = part["completion_ids"][row], part["completion_mask"][row]
            order.append(rows[tuple(ids[mask.bool()].tolist())])
            for name in ["advantages", *own]:
                scale = 2 if name == "value_weights" else 1  # shares of two steps
                torch.testing.assert_close(part[name][row], batch[name][order[-1]] * scale)
    assert sorted(order) == list(range(8)) != order
