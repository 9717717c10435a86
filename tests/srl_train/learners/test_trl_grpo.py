"""The GRPO learner: its gradients are the formula's, and a step changes nothing but its own."""

import dataclasses
import inspect
import math
import random
from importlib import metadata

import numpy as np
import pytest
import torch
from trl import GRPOTrainer

from srl_train.config import AdapterConfig, GrpoConfig
from srl_train.errors import TrainingError
from srl_train.learners.constraints import ConstrainedLogProbs
from srl_train.learners.trl_grpo import GrpoLearner, PlayedGRPOTrainer, isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.lora import adapter_models
from tests.srl_train.learners.reference_grpo import (
    END,
    advantages,
    double,
    gradients_of,
    log_probs,
    relative_error,
    sample,
    small_model,
    small_tokenizer,
    some_samples,
)

EXACT = 1e-5  # relative to float64; the learner's own float32 is good for about 1e-6


def learner(model=None, *, temperature=1.0, replays=False, planned_updates=10, **grpo):
    return GrpoLearner(
        "model_0",
        small_model() if model is None else model,
        small_tokenizer(),
        GrpoConfig(**{"group_size": 4, **grpo}),
        temperature=temperature,
        planned_updates=planned_updates,
        replays=replays,
    )


def first_gradients(one, samples, version=0, seed=3):
    one.begin_update(samples, seed, version)
    return one.compute_gradients()


def update(one, samples, version=0, seed=3):
    """A whole update; returns its metrics."""
    for _ in range(one.begin_update(samples, seed, version)):
        one.apply_gradients(one.compute_gradients())
    return one.end_update()


def copied(tensors):
    return {name: tensor.clone() for name, tensor in tensors.items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def optimizer_tensors(one):
    state = one.optimizer_state()["state"]
    return {f"{i}.{k}": torch.as_tensor(v).clone() for i, e in state.items() for k, v in e.items()}


# ---- the gradient --------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("loss", ["dapo", "grpo"])
def test_the_gradient_is_that_of_the_formula(loss, scale):
    model = small_model()
    exact = double(model)
    samples = some_samples()
    # TRL's "grpo" loss averages over the samples of a minibatch; all eight are in one here.
    one = learner(model, loss=loss, scale_rewards=scale)
    found = first_gradients(one, samples)
    expected, loss_value = gradients_of(
        exact, samples, advantages(samples, 4, scale), kind=loss
    )
    assert relative_error(found, expected) < EXACT
    for name in expected:
        assert relative_error({name: found[name]}, {name: expected[name]}) < 3 * EXACT, name
    assert one.end_update()["loss"] == pytest.approx(loss_value, abs=1e-5)


def test_the_gradient_at_another_temperature():
    model = small_model()
    exact = double(model)
    samples = some_samples()
    found = first_gradients(learner(model, temperature=0.7), samples)
    expected, _ = gradients_of(exact, samples, advantages(samples, 4, "group"), temperature=0.7)
    assert relative_error(found, expected) < EXACT
    other, _ = gradients_of(exact, samples, advantages(samples, 4, "group"))
    assert relative_error(found, other) > 0.1


def test_replaying_learners_are_the_same_where_nothing_is_replayed():
    samples = some_samples()
    plain = first_gradients(learner(), samples)
    replaying = first_gradients(learner(replays=True), samples)
    assert equal(plain, replaying)


@pytest.mark.parametrize("shift", [0.05, 0.5])  # within the clip of 0.2, and beyond it
def test_samples_from_older_weights_are_weighed_against_how_they_were_sampled(shift):
    model = small_model()
    exact = double(model)
    rng = np.random.default_rng(0)
    samples, old = [], []
    for one in some_samples(version=4):
        now = log_probs(exact, one).detach().numpy()
        logprobs = now + shift * rng.choice([-1.0, 1.0], size=len(now))
        old.append(torch.tensor(logprobs))
        samples.append(dataclasses.replace(one, logprobs=tuple(logprobs.tolist())))
    on_policy, _ = gradients_of(exact, samples, advantages(samples, 4, "group"))
    expected, _ = gradients_of(exact, samples, advantages(samples, 4, "group"), old=old)

    one = learner(model, replays=True)
    found = first_gradients(one, samples, version=5)
    assert relative_error(found, expected) < EXACT
    assert relative_error(found, on_policy) > 0.02
    clipped = one.end_update()["clip_ratio/region_mean"]
    assert (clipped > 0) is (shift > 0.2)
    # The same samples at the version they were drawn at: nothing to correct.
    assert relative_error(first_gradients(one, samples, version=4), on_policy) < EXACT


def test_one_old_sample_among_new_ones_is_enough():
    samples = some_samples(version=5)
    samples[2] = dataclasses.replace(samples[2], version=4)
    one = learner(replays=True)
    one.begin_update(samples, 0, 5)
    assert one._trainer.from_older_weights
    one.begin_update(some_samples(version=5), 0, 5)
    assert not one._trainer.from_older_weights


def test_what_the_environment_wrote_has_no_gradient():
    # A masked last token is no target, and no later token reads it: nothing may change with it.
    def played(told):
        return [
            sample((1, 2), (10, END, told), 1.0, mask=(1, 1, 0)),
            sample((1, 2), (11, END, told), 0.0, mask=(1, 1, 0)),
        ]

    found = first_gradients(learner(group_size=2), played(4))
    assert sum(float(g.abs().sum()) for g in found.values()) > 0
    assert equal(found, first_gradients(learner(group_size=2), played(20)))
    own = [dataclasses.replace(s, mask=(1, 1, 1)) for s in played(20)]
    assert not equal(found, first_gradients(learner(group_size=2), own))


def test_equal_rewards_teach_nothing():
    samples = [dataclasses.replace(s, reward=2.0) for s in some_samples()]
    found = first_gradients(learner(), samples)
    assert all(not gradient.any() for gradient in found.values())


def test_the_divergence_from_the_start_is_held_by_a_frozen_reference(tmp_path):
    start = tmp_path / "start"
    small_model().save_pretrained(start)
    model = type(small_model()).from_pretrained(start)
    exact = double(model)
    one = learner(model, beta=0.3)
    update(one, some_samples())
    moved = double(model)
    assert one.end_update() == {}
    samples = some_samples()
    found = first_gradients(one, samples)

    loss = torch.zeros((), dtype=torch.float64)
    for s, advantage in zip(samples, advantages(samples, 4, "group"), strict=True):
        mask = torch.tensor(s.mask)
        now, then = log_probs(moved, s), log_probs(exact, s).detach()
        divergence = (then - now).exp() - (then - now) - 1  # Schulman's k3
        ratio = (now - now.detach()).exp()  # TRL weighs the divergence with it too
        loss = loss - (ratio * (advantage - 0.3 * divergence) * mask).sum()
    loss = loss / sum(sum(s.mask) for s in samples)
    names, parameters = zip(*moved.named_parameters(), strict=True)
    expected = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
    assert relative_error(found, expected) < EXACT


# ---- steps ---------------------------------------------------------------------------------------


def test_an_update_is_minibatches_times_iterations_steps():
    one = learner(minibatches=2, iterations=3)
    assert one.begin_update(some_samples(), 0, 0) == one.steps_per_update == 6
    before = [copied(one.weights())]
    for _ in range(6):
        one.apply_gradients(one.compute_gradients())
        before.append(copied(one.weights()))
    assert all(not equal(a, b) for a, b in zip(before, before[1:], strict=False))
    assert one.counters()["global_step"] == 6
    assert {int(e["step"]) for e in one.optimizer_state()["state"].values()} == {6}


def test_minibatches_are_parts_of_the_whole():
    samples = some_samples()
    whole = first_gradients(learner(), samples)
    one = learner(minibatches=2)
    parts = []
    for _ in range(one.begin_update(samples, 3, 0)):
        parts.append(one.compute_gradients())
        one.apply_gradients(None)
    assert not equal(parts[0], parts[1])
    mean = {name: (parts[0][name].double() + parts[1][name].double()) / 2 for name in whole}
    assert relative_error(whole, mean) < EXACT


def test_a_second_pass_is_weighed_against_the_first():
    model = small_model()
    start = double(model)
    samples = some_samples()
    one = learner(model, iterations=2, learning_rate=0.02)
    one.begin_update(samples, 3, 0)
    first = one.compute_gradients()
    scaled = advantages(samples, 4, "group")
    assert relative_error(first, gradients_of(start, samples, scaled)[0]) < EXACT
    one.apply_gradients(first)
    second = one.compute_gradients()
    moved = double(model)
    old = [log_probs(start, s).detach() for s in samples]
    expected, _ = gradients_of(moved, samples, scaled, old=old)
    assert relative_error(second, expected) < EXACT
    assert relative_error(second, gradients_of(moved, samples, scaled)[0]) > 0.05


def test_gradients_belong_to_the_caller():
    one = learner()
    found = first_gradients(one, some_samples())
    kept = copied(found)
    assert all(p.grad is None for p in one._trainer.model.parameters())
    one.apply_gradients(found)
    assert equal(found, kept), "clipping wrote into a gradient that models may share"
    assert all(p.grad is None for p in one._trainer.model.parameters())


@pytest.mark.parametrize("limit", [0.01, 1e6])
def test_a_step_is_adamw_on_the_gradient_clipped_once(limit):
    model = small_model()
    names = [n for n, _ in model.named_parameters()]
    own = [p.detach().clone().requires_grad_() for p in model.parameters()]
    adamw = torch.optim.AdamW(own, lr=3e-3, weight_decay=0.1, betas=(0.9, 0.999), eps=1e-8)
    one = learner(model, max_grad_norm=limit, weight_decay=0.1, learning_rate=3e-3)
    for factor in (1.0, 5.0):  # any gradients will do: an average of several models' for one
        gradients = {n: factor * torch.ones_like(p) for n, p in zip(names, own, strict=True)}
        one.apply_gradients(gradients)
        norm = math.sqrt(sum(p.numel() for p in own)) * factor
        for parameter in own:
            parameter.grad = factor * torch.ones_like(parameter) * min(1.0, limit / norm)
        adamw.param_groups[0]["params"] = own
        decayed = {n for n in names if "norm" not in n}
        for n, p in zip(names, own, strict=True):  # transformers decays no norms
            if n not in decayed:
                p.data /= 1 - 3e-3 * 0.1
        adamw.step()
        metrics = one.end_update()
        assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-5)
        assert metrics["learning_rate"] == pytest.approx(3e-3)
    for (name, weight), expected in zip(one.weights().items(), own, strict=True):
        torch.testing.assert_close(weight, expected.detach(), rtol=1e-5, atol=1e-6, msg=name)


def test_without_a_gradient_nothing_moves():
    one = learner()
    update(one, some_samples())  # momentum, which would carry a step with a zero gradient on
    weights, moments, counters = copied(one.weights()), optimizer_tensors(one), one.counters()
    one.begin_update(some_samples(), 1, 1)
    one.compute_gradients()
    one.apply_gradients(None)
    one.end_update()
    assert equal(weights, one.weights())
    assert equal(moments, optimizer_tensors(one))
    assert counters == one.counters()
    one.apply_gradients({name: torch.zeros_like(w) for name, w in weights.items()})
    assert not equal(weights, one.weights()), "the test cannot see momentum"


def test_a_frozen_model_is_no_less_frozen_after_a_step():
    base = small_model()
    models = adapter_models(base, ["model_0"], AdapterConfig(rank=2), 0)
    before = copied(dict(base.named_parameters()))
    one = learner(models["model_0"])
    update(one, some_samples())
    update(one, some_samples(), seed=4)
    assert all("lora_" in name for name in one.weights())
    assert equal(before, dict(base.named_parameters()))


# ---- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "count, grpo, says",
    [
        (0, {}, "model_0 has 0 samples.*grpo.group_size"),
        (6, {}, r"model_0 has 6 samples.*multiple of grpo.group_size \(4\)"),
    ],
)
def test_samples_that_make_no_update(count, grpo, says):
    with pytest.raises(TrainingError, match=says):
        learner(**grpo).begin_update(some_samples()[:count], 0, 0)


def test_a_loss_that_is_no_number_stops_the_run():
    model = small_model()
    one = learner(model)
    with torch.no_grad():
        model.model.embed_tokens.weight[10] = math.nan
    one.begin_update(some_samples(), 0, 0)
    with pytest.raises(TrainingError, match=r"model_0: the loss is nan; lower grpo.learning_rate"):
        one.compute_gradients()


# ---- state and randomness ------------------------------------------------------------------------


def global_generators():
    name, keys, position, *rest = np.random.get_state()
    return (random.getstate(), (name, keys.tolist(), position, *rest), torch.get_rng_state().tolist())


def test_the_global_generators_are_left_alone():
    random.seed(5)
    np.random.seed(6)
    torch.manual_seed(7)
    before = global_generators()
    one = learner(minibatches=2)
    assert global_generators() == before, "by building"
    update(one, some_samples())
    assert global_generators() == before, "by an update"
    with pytest.raises(ZeroDivisionError), isolated_randomness(3):
        random.random()
        np.random.random()
        torch.rand(1)
        raise ZeroDivisionError
    assert global_generators() == before, "by a failure"


def test_all_randomness_is_from_the_seed():
    def shuffled(seed, disturbance):
        torch.manual_seed(disturbance)
        random.seed(disturbance)
        return first_gradients(learner(minibatches=2), some_samples(), seed=seed)

    assert equal(shuffled(3, 0), shuffled(3, 1))
    assert any(not equal(shuffled(3, 0), shuffled(seed, 0)) for seed in range(4, 8))


@pytest.mark.parametrize("grpo", [{}, {"schedule": "linear", "warmup_steps": 3}, {"schedule": "cosine"}])
def test_a_restored_learner_goes_on_to_the_bit(grpo):
    whole = learner(minibatches=2, planned_updates=4, **grpo)
    for seed in range(2):
        update(whole, some_samples(), seed=seed)
    restored = learner(small_model(seed=9), minibatches=2, planned_updates=4, **grpo)
    restored.set_weights(copied(whole.weights()))
    state = whole.optimizer_state()
    saved = {k: {n: torch.as_tensor(t).clone() for n, t in e.items()} for k, e in state["state"].items()}
    restored.load_optimizer_state({"state": saved, "param_groups": state["param_groups"]})
    restored.load_counters(whole.counters())
    for seed in range(2, 4):
        metrics = [update(one, some_samples(), seed=seed) for one in (whole, restored)]
        for one in metrics:
            del one["step_time"], one["num_tokens"]  # of this process; nobody reads them
        assert metrics[0] == metrics[1]
    assert equal(whole.weights(), restored.weights())
    assert equal(optimizer_tensors(whole), optimizer_tensors(restored))
    assert whole.counters() == restored.counters()


def test_the_schedule_spans_the_planned_updates():
    one = learner(schedule="linear", planned_updates=2, minibatches=2, learning_rate=1.0)
    rates = []
    for _ in range(4):
        one.begin_update(some_samples(), 0, 0)
        one.apply_gradients({n: torch.zeros_like(w) for n, w in one.weights().items()})
        rates.append(one.end_update()["learning_rate"])
    assert rates == pytest.approx([1.0, 0.75, 0.5, 0.25])


def test_metrics_are_means_over_the_update_and_then_forgotten():
    one = learner(minibatches=2)
    metrics = update(one, some_samples())
    assert metrics["reward"] == pytest.approx(9.25 / 8)
    assert {"loss", "grad_norm", "learning_rate", "entropy", "clip_ratio/region_mean"} <= set(metrics)
    assert one.end_update() == {}


@pytest.mark.parametrize("adapters", [False, True])
def test_a_saved_model_is_what_its_users_load(adapters, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = small_model()
    model = base
    if adapters:
        model = adapter_models(base, ["model_0"], AdapterConfig(rank=2), 0)["model_0"]
    # With beta, TRL keeps a reference adapter beside ours; it is nobody's business.
    one = learner(model, **({"beta": 0.1} if adapters else {}))
    update(one, some_samples())
    one.save_model(tmp_path / "saved")
    if adapters:
        assert not (tmp_path / "saved" / "ref").exists()
        with quiet_upstream():
            loaded = PeftModel.from_pretrained(small_model(), tmp_path / "saved")
    else:
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    ids = torch.tensor([[1, 2, 10]])
    with torch.no_grad():
        assert torch.equal(loaded.eval()(ids).logits, model.eval()(ids).logits)
        assert not torch.equal(loaded(ids).logits, small_model()(ids).logits)
    assert AutoTokenizer.from_pretrained(tmp_path / "saved").eos_token_id == END


# ---- the seams in TRL ----------------------------------------------------------------------------


def test_trl_is_the_release_whose_seams_were_read():
    assert metadata.version("trl").startswith("1.16."), "read the seams again, then these tests"


def overrides():
    return [
        (kind, name)
        for kind in (PlayedGRPOTrainer, ConstrainedLogProbs)
        for name, thing in vars(kind).items()
        if inspect.isfunction(thing) and hasattr(GRPOTrainer, name)
    ]


def test_nothing_else_of_trl_is_overridden():
    assert {(kind.__name__, name) for kind, name in overrides()} == {
        ("PlayedGRPOTrainer", "_generate_and_score_completions"),
        ("ConstrainedLogProbs", "_get_per_token_logps_and_entropies"),
    }


@pytest.mark.parametrize("kind, name", overrides(), ids=lambda x: getattr(x, "__name__", x))
def test_an_override_takes_what_trl_gives(kind, name):
    ours = list(inspect.signature(vars(kind)[name]).parameters.values())
    theirs = list(inspect.signature(getattr(GRPOTrainer, name)).parameters.values())
    named = [p.name for p in ours if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert named == [p.name for p in theirs][: len(named)]
    open_ended = {p.kind for p in ours} >= {inspect.Parameter.VAR_POSITIONAL}
    assert open_ended or len(named) == len(theirs)


def test_trl_reads_old_log_probabilities_where_we_put_them():
    source = inspect.getsource(GRPOTrainer._compute_loss)
    assert 'inputs.get("old_per_token_logps")' in source
    one = learner(replays=True)
    trainer = one._trainer
    one.begin_update(some_samples(version=1), 0, 2)
    trainer.model.train()
    with quiet_upstream():
        batch = trainer._generate_and_score_completions([{"prompt": "-"} for _ in range(8)])
    assert torch.equal(batch["old_per_token_logps"], batch["sampling_per_token_logps"])
    expected = torch.zeros(8, 6)
    for row, s in enumerate(some_samples()):
        expected[row, : len(s.logprobs)] = torch.tensor(s.logprobs)
    assert torch.equal(batch["sampling_per_token_logps"], expected), "padding moved"
    masks = batch["completion_mask"] * batch["tool_mask"]
    assert [row.sum().item() for row in masks] == [sum(s.mask) for s in some_samples()]


@pytest.mark.parametrize(
    "name", ["_step", "_buffered_inputs", "_metrics", "current_gradient_accumulation_steps"]
)
def test_trl_keeps_the_state_that_we_step(name):
    assert f"self.{name}" in inspect.getsource(GRPOTrainer)
    assert name in vars(learner()._trainer)
