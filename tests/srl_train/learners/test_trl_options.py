"""What the `trl` section lets through reaches the loss; everything else is refused by name."""

import copy
import dataclasses

import pytest
import torch
from trl import GRPOConfig

from srl_train.config.learners import GrpoConfig, PpoConfig
from srl_train.errors import ConfigError
from srl_train.learners.trl_options import HANDED_ON, OF_THE_LOOP, OURS, check_trl_options
from tests.srl_train.learners.reference.grpo import relative_error, small_model, some_samples
from tests.srl_train.learners.small_learner import EXACT, equal, first_gradients, learner, update


def test_every_field_of_trl_has_been_thought_about():
    fields = {field.name for field in dataclasses.fields(GRPOConfig)}
    assert fields == {*OURS, *HANDED_ON, *OF_THE_LOOP}
    assert len(fields) == len(OURS) + len(HANDED_ON) + len(OF_THE_LOOP)


@pytest.mark.parametrize(
    "options, told",
    [
        ({"epsilon_hihg": 0.3}, "trl.epsilon_hihg is no field.*did you mean 'epsilon_high'"),
        ({"attn_implementation": "eager"}, "is no field .*: it is set by models.attn_implement"),
        ({"beta": 0.1}, "trl.beta is set by grpo.beta"),
        ({"report_to": "wandb"}, "trl.report_to is set by the run itself: .*metrics.jsonl"),
        ({"epsilon_high": -3.0}, "trl.epsilon_high is -3.0: give 0 or more"),
        ({"epsilon_high": float("nan")}, "trl.epsilon_high is nan: give a finite number"),
        ({"delta": 0}, "trl.delta is 0.0: give more than 0"),
        ({"num_generations": 4}, "trl.num_generations is set by rollout.group_size"),
        ({"use_vllm": True}, "trl.use_vllm is read only by TRL's own"),
        ({"fp16": True}, "trl.fp16 is read only by"),
        ({"epsilon_high": "big"}, "trl.epsilon_high is 'big': give float or null"),
        ({"entropy_coef": True}, "trl.entropy_coef is True: give float"),
        ({"use_adaptive_entropy": 1}, "trl.use_adaptive_entropy is 1: give bool"),
        ({"importance_sampling_level": "word"}, "is 'word': give one of token, sequence"),
    ],
)
def test_what_cannot_be_handed_on(options, told):
    with pytest.raises(ConfigError, match=told):
        check_trl_options(options)


SAPO = GrpoConfig(loss="sapo")


@pytest.mark.parametrize(
    "options, section, told",
    [
        ({"sapo_temperature_neg": 2.0}, GrpoConfig(), "read by the losses sapo only, .* is dapo"),
        ({"vespo_k_pos": 1.0}, SAPO, "read by the losses vespo only, the loss is sapo"),
        ({"epsilon_high": 0.3}, SAPO, "luspo, cispo only, the loss is sapo"),
        ({"delta": 1.5}, GrpoConfig(loss="cispo"), "luspo only, the loss is cispo"),
        ({"importance_sampling_level": "sequence"}, GrpoConfig(loss="vespo"), "the loss is vespo"),
        ({"max_completion_length": 8}, GrpoConfig(), "read by the losses dr_grpo only"),
        ({"entropy_target": 0.5}, GrpoConfig(), "only with trl.use_adaptive_entropy"),
        ({"gradient_checkpointing_kwargs": {}}, GrpoConfig(), "only with trl.activation_check"),
        ({"use_bias_correction_kl": False}, GrpoConfig(), "only where beta is above 0"),
        ({"lr_scheduler_kwargs": {"power": 2.0}}, GrpoConfig(), "no schedule of constant"),
    ],
)
def test_what_nothing_would_read_is_refused(options, section, told):
    with pytest.raises(ConfigError, match=told):
        check_trl_options(options, [section])


def test_it_is_enough_that_some_model_reads_an_option_or_that_it_changes_nothing():
    check_trl_options({"sapo_temperature_neg": 2.0}, [SAPO, PpoConfig()])
    check_trl_options({"sapo_temperature_neg": 1.05, "delta": None}, [PpoConfig()])
    check_trl_options({"use_bias_correction_kl": False}, [GrpoConfig(beta=0.1)])
    check_trl_options({"entropy_target": 0.5, "use_adaptive_entropy": True}, [GrpoConfig()])


@pytest.mark.parametrize(
    "trl, settings, told",
    [
        ({"lr_scheduler_kwargs": {"nonsense": 1}}, {"schedule": "linear"}, "linear .*'nonsense'"),
        ({}, {"schedule": "cosine_with_min_lr"}, "cosine_with_min_lr with trl.* min_lr_rate"),
        ({}, {"schedule": "warmup_stable_decay"}, "warmup_stable_decay with .*num_decay_steps"),
        ({"optim_args": "foo=1"}, {}, "trl.optim_args is not read by the optimizer adamw"),
        ({"optim": "sgd", "adam_beta1": 0.5}, {}, "adam_beta1 is not read by the optimizer sgd"),
        ({"gradient_checkpointing_kwargs": {"reentrant": True}}, {}, "'reentrant': give .*use_re"),
    ],
)
def test_what_the_schedule_or_the_optimizer_does_not_read_is_refused(trl, settings, told):
    with pytest.raises(ConfigError, match=told) as error:
        learner(trl=trl, **settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "schedule, options",
    [
        ("cosine_with_min_lr", {"min_lr_rate": 0.1}),
        ("warmup_stable_decay", {"num_decay_steps": 2}),
        ("polynomial", {"power": 2.0}),
        ("cosine_with_restarts", {"num_cycles": 2}),
    ],
)
def test_schedules_are_given_their_settings(schedule, options):
    one = learner(schedule=schedule, planned_updates=4, trl={"lr_scheduler_kwargs": options})
    rates = [update(one, some_samples())["learning_rate"] for _ in range(4)]
    assert rates[0] == pytest.approx(3e-3) and rates[-1] < rates[0]


def test_what_trl_refuses_itself_is_a_configuration_error():
    with pytest.raises(ConfigError, match=r"^trl: sgdd is not a valid Optimizer"):
        learner(trl={"optim": "sgdd"})


def test_numbers_are_read_as_yaml_writes_them():
    assert check_trl_options({"epsilon_high": "3e-1", "delta": None, "entropy_coef": 1}) == {
        "epsilon_high": 0.3, "delta": None, "entropy_coef": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "trl",
    [
        {"importance_sampling_level": "sequence"},
        {"epsilon_high": 5.0},
        {"entropy_coef": 0.5},
        {"top_entropy_quantile": 0.3},
        {"pad_to_multiple_of": 8},
    ],
)
def test_what_is_handed_on_changes_the_update(trl):
    samples = [
        dataclasses.replace(s, logprobs=tuple(-2.5 for _ in s.logprobs)) for s in some_samples()
    ]  # as if from older weights, so that ratios differ from 1 and are clipped
    plain = first_gradients(learner(replays=True), samples, version=1)
    other = first_gradients(learner(replays=True, trl=trl), samples, version=1)
    if "pad_to_multiple_of" in trl:  # a matter of speed alone
        assert relative_error(other, plain) < EXACT
    else:
        assert relative_error(other, plain) > 1e-3


@pytest.mark.parametrize("loss", ["cispo", "sapo", "vespo"])
def test_other_losses_learn(loss):
    model = small_model()
    before = {n: p.clone() for n, p in model.named_parameters()}
    metrics = update(learner(model, loss=loss), some_samples())
    assert any(not torch.equal(before[n], p) for n, p in model.named_parameters())
    assert metrics["grad_norm"] > 0


def test_activation_checkpointing_gives_the_same_gradient():
    plain = first_gradients(learner(), some_samples())
    model = small_model()
    less = first_gradients(learner(model, trl={"gradient_checkpointing": True}), some_samples())
    assert model.model.gradient_checkpointing, "it was not switched on"
    assert relative_error(less, plain) < EXACT


@pytest.mark.parametrize(
    "trl, told",
    [
        ({"adam_beta1": 7.0}, r"adamw_torch_fused refuses \{'adam_beta1': 7.0\}: Invalid beta"),
        ({"adam_epsilon": -1.0}, "Invalid epsilon value"),
        ({"optim": "rmsprop", "optim_args": "alpha=-3"}, "rmsprop refuses .*Invalid alpha"),
        ({"optim_args": "much"}, "refuses {'optim_args': 'much'}"),
    ],
)
def test_what_the_optimizer_refuses(trl, told):
    with pytest.raises(ConfigError, match=told):
        learner(trl=trl)


def test_bfloat16_autocasts_the_forward_pass():
    plain = first_gradients(learner(), some_samples())
    mixed = first_gradients(learner(trl={"bf16": True}), some_samples())
    assert {g.dtype for g in mixed.values()} == {torch.float32}
    assert 1e-4 < relative_error(mixed, plain) < 0.1


@pytest.mark.parametrize("loss", ["dapo", "bnpo", "dr_grpo", "grpo"])
def test_accumulation_gives_the_same_step(loss):
    # Equal lengths: bnpo and grpo weigh a part by itself, whatever the number of its tokens.
    samples = some_samples()
    short = min(len(s.completion_ids) for s in samples)
    samples = [
        dataclasses.replace(
            s,
            completion_ids=s.completion_ids[:short],
            mask=(1,) * short,
            logprobs=s.logprobs[:short],
            turns=((0, short),),
            rewards=(s.episode_return,),
        )
        for s in samples
    ]
    whole = first_gradients(learner(loss=loss), samples)
    parts = first_gradients(learner(loss=loss, accumulation=4), samples)
    assert relative_error(parts, whole) < EXACT
    fewer = first_gradients(learner(loss=loss, minibatches=2, accumulation=2), samples)
    assert relative_error(fewer, whole) > 0.1, "the first of two steps has half of the samples"


def test_an_adaptive_entropy_bonus_moves_once_a_step_and_is_in_the_checkpoint():
    trl = {"use_adaptive_entropy": True, "entropy_target": 100.0, "entropy_coef_delta": 0.25}
    one = learner(accumulation=2, trl=trl)
    update(one, some_samples())
    assert one._trainer.entropy_coef == 0.25
    other = learner(accumulation=2, trl=trl)
    other.load_counters(one.counters())
    other.set_weights(one.weights())
    other.load_optimizer_state(copy.deepcopy(one.optimizer_state()))
    update(one, some_samples(), seed=4)
    update(other, some_samples(), seed=4)
    assert equal(one.weights(), other.weights())
    assert other._trainer.entropy_coef == 0.5
