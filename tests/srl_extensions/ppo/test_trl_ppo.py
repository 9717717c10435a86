"""Gradients of the PPO learner are equal to a reference; properties of the critics."""

import copy
import dataclasses
import itertools

import pytest
import torch
from transformers import AutoModelForCausalLM

from srl_extensions.ppo.critics import CRITICS, joint_states
from tests.srl_extensions.ppo.reference import (
    AGENTS,
    Reference,
    adapter_model,
    played,
    ppo_learner,
)
from tests.srl_train.learners.reference.grpo import log_probs, relative_error, small_model
from tests.srl_train.learners.small_learner import (
    EXACT,
    copied,
    equal,
    first_gradients,
    optimizer_tensors,
    update,
)


def parts(gradients):
    critic = {n: g for n, g in gradients.items() if n.startswith("critic.")}
    return {n: g for n, g in gradients.items() if n not in critic}, critic


@pytest.mark.parametrize(
    ("critic", "build"),
    [("shared", small_model), ("separate", adapter_model), ("central", small_model)],
)
def test_policy_and_value_gradients_are_those_of_the_formula(critic, build):
    one = ppo_learner(build(), critic=critic, gae_lambda=0.8)
    samples = played()
    reference = Reference(one).remember(samples)
    expected, loss = reference.gradients(samples)
    found = first_gradients(one, samples)
    for mine, theirs in zip(parts(found), parts(expected), strict=True):
        assert relative_error(mine, theirs) < EXACT
        assert all(g.any() for g in theirs.values())
    metrics = one.end_update()
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert metrics["value_loss"] == pytest.approx(reference.loss(samples)[1].item(), rel=1e-5)
    assert metrics["approx_kl"] == 0.0


@pytest.mark.parametrize(
    "settings",
    [
        {"normalize_advantages": "none"},
        {"normalize_advantages": "update"},
        {"gae_lambda": 0.0},
        {"entropy_coef": 0.3},
        {"value_coefficient": 3.0},
    ],
)
def test_settings_of_the_loss_match_the_reference(settings):
    samples = played()
    one = ppo_learner(**settings)
    expected, _ = Reference(one).remember(samples).gradients(samples)
    found = first_gradients(one, samples)
    assert relative_error(found, expected) < EXACT
    assert relative_error(found, first_gradients(ppo_learner(), samples)) > 0.01


@pytest.mark.parametrize(("critic", "value_clip"), [("shared", 0.02), ("central", 10.0)])
def test_a_second_pass_is_weighed_against_the_first(critic, value_clip):
    samples = played()
    one = ppo_learner(critic=critic, num_iterations=2, learning_rate=0.02, value_clip=value_clip)
    start = Reference(one).remember(samples)
    one.begin_update(samples, 3, 0)
    one.apply_gradients(one.compute_gradients())
    now = Reference(one)
    now.old = start.old
    expected, _ = now.gradients(samples)
    found = one.compute_gradients()
    assert relative_error(found, expected) < EXACT
    loose = Reference(one)
    loose.old, loose.config = start.old, one._config.replaced(value_clip=None)
    assert (relative_error(found, loose.gradients(samples)[0]) > 0.01) is (value_clip == 0.02)

    old, now_logps = start.old[3], [log_probs(now.model, s).detach() for s in samples]
    kl = [((new - then).exp() - 1 - (new - then))[torch.tensor(s.mask).bool()]
          for s, new, then in zip(samples, now_logps, old, strict=True)]  # fmt: skip
    mean = float(torch.cat(kl).mean())
    assert mean > 1e-4
    assert one.end_update()["approx_kl"] == pytest.approx(mean / 2, rel=1e-3)  # 0 at the first


# ---- values in running deviations ----------------------------------------------------------------


def test_normalised_values_learn_by_the_formula():
    samples = played()
    one = ppo_learner(value_normalization="running", gae_lambda=0.8)
    state = one.state()
    state["counters"]["value_scale"] = [1.5, 2.0, 9.0]
    one.load_state(state)
    expected, loss = Reference(one).remember(samples).gradients(samples)
    assert relative_error(first_gradients(one, samples), expected) < EXACT
    assert one.end_update()["loss"] == pytest.approx(loss, abs=1e-5)


def test_large_returns_are_normalized():
    one = ppo_learner(
        critic="central", value_normalization="running", learning_rate=0.03, num_iterations=8
    )
    samples = [
        dataclasses.replace(s, rewards=tuple(1000.0 * r for r in s.rewards)) for s in played()
    ]
    explained = [update(one, samples, seed=seed)["explained_variance"] for seed in range(6)][-1]
    assert explained > 0.5


@pytest.mark.parametrize(
    ("critic", "split"),
    [
        ("shared", {"minibatches": 2, "gradient_accumulation_steps": 2}),
        ("central", {"minibatches": 4}),
    ],
)
def test_minibatches_and_accumulation_give_the_same_gradient(critic, split):
    samples = played()
    whole = first_gradients(ppo_learner(critic=critic), samples)
    one = ppo_learner(critic=critic, **split)
    found = []
    for _ in range(one.begin_update(samples, 3, 0)):
        found.append(one.compute_gradients())
        one.apply_gradients(None)
    assert all(not equal(a, b) for a, b in itertools.pairwise(found))
    mean = {n: sum(g[n].double() for g in found) / len(found) for n in whole}
    for mine, theirs in zip(parts(mean), parts(whole), strict=True):
        assert relative_error(mine, theirs) < EXACT


def test_masked_tokens_train_only_the_critic():
    unlikely = [
        dataclasses.replace(s, logprobs=tuple(-50.0 * own for own in s.mask)) for s in played()
    ]
    one = ppo_learner(critic="separate", sampler_correction="mis")
    policy, critic = parts(first_gradients(one, unlikely))
    assert any(gradient.any() for gradient in critic.values())
    assert policy and not any(gradient.any() for gradient in policy.values())


def test_the_value_loss_reaches_the_backbone_of_a_shared_critic_only():
    for critic in CRITICS:
        policy = {}
        for weight in (0.0, 2.0):
            one = ppo_learner(critic=critic, value_coefficient=weight)
            policy[weight] = parts(first_gradients(one, played()))[0]
        assert equal(policy[0.0], policy[2.0]) is (critic != "shared")


# ---- a learner among others ----------------------------------------------------------------------


def test_policy_and_critic_have_separate_clipping_and_learning_rates():
    one = ppo_learner(max_grad_norm=0.5, learning_rate=1e-3, value_learning_rate=1e-1)
    before = copied(one.weights())
    gradients = {n: torch.full_like(w, 3.0) for n, w in before.items()}
    kept = copied(gradients)
    one.apply_gradients(gradients)
    assert equal(gradients, kept)
    for name, after in one.weights().items():  # AdamW's first step is its rate, at any scale
        rate = 1e-1 if name.startswith("critic.") else 1e-3
        torch.testing.assert_close(before[name] - after, torch.full_like(after, rate))
    names = list(one.weights())
    moments = [e["exp_avg"] for e in one.state()["optimizer"]["state"].values()]
    critic = sum(n.startswith("critic.") for n in names)
    for own in (moments[-critic:], moments[:-critic]):
        norm = torch.cat([m.flatten() for m in own]).norm()
        assert float(norm) == pytest.approx(0.1 * 0.5, rel=1e-4)  # (1 - beta1) * max_grad_norm


def test_joint_states_contain_the_agent():
    found = joint_states(played()[3:5], AGENTS)
    assert found.shape == (2, 3, 5)
    torch.testing.assert_close(found[0, 2], torch.tensor([0.3, 2.0, -0.5, 1.0, 0.0]))
    torch.testing.assert_close(found[1, 1], torch.tensor([0.4, 1.0, -0.5, 0.0, 1.0]))
    assert not found[1, 2].any()
    with pytest.raises(ValueError, match="length"):
        joint_states([dataclasses.replace(played()[0], states=((1.0,), (1.0, 2.0)))], AGENTS)


def test_a_restored_learner_continues_to_the_bit():
    settings = {"critic": "central", "minibatches": 2, "num_iterations": 2, "schedule": "linear",
                "value_normalization": "running"}  # fmt: skip
    whole = ppo_learner(planned_updates=4, **settings)
    for seed in range(2):
        update(whole, played(), seed=seed)
    restored = ppo_learner(small_model(seed=9), planned_updates=4, seed=4, **settings)
    restored.load_state(copy.deepcopy(whole.state()))
    for one in (whole, restored):
        update(one, played(), seed=2)
    assert equal(whole.weights(), restored.weights())
    assert equal(optimizer_tensors(whole), optimizer_tensors(restored))


def test_a_saved_model_is_the_policy_without_its_critic(tmp_path):
    one = ppo_learner(critic="separate")
    update(one, played())
    one.save_model(tmp_path)
    assert [p.name for p in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    for name, weight in loaded.named_parameters():
        assert torch.equal(weight, one.weights()[name]), name
