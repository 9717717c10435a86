"""Options of the section `trl` reach the loss; unknown options are refused by name."""

import dataclasses

import pytest
from trl import GRPOConfig

from srl_train.config.learning.learners import TRL_OPTIONS, GrpoConfig
from srl_train.errors import ConfigError
from srl_train.learners.trl_arguments import grpo_arguments
from tests.srl_train.learners.reference.grpo import relative_error, small_model, some_samples
from tests.srl_train.learners.small_learner import EXACT, first_gradients, learner


def test_every_option_is_a_field_of_trls():
    assert set(TRL_OPTIONS) <= {f.name for f in dataclasses.fields(GRPOConfig)}


@pytest.mark.parametrize(
    "options, told",
    [
        ({"epsilon_hihg": 0.3}, "trl.epsilon_hihg: unknown option .*did you mean 'epsilon_high'"),
        ({"gradient_checkpointing": True}, "did you mean 'activation_checkpointing'"),
        ({"beta": 0.1}, "trl.beta: .*algorithm.beta"),
    ],
)
def test_unsupported_options_are_refused(options, told):
    with pytest.raises(ConfigError, match=told) as error:
        GrpoConfig(trl=options)
    assert "\n" not in str(error.value)


def test_a_value_of_another_type_than_trls_is_refused():
    with pytest.raises(ConfigError, match=r"trl\.epsilon_high: .*, got '0.3'"):
        grpo_arguments({"output_dir": "unused", "use_cpu": True}, {"epsilon_high": "0.3"})


@pytest.mark.parametrize(
    "trl, settings, told",
    [
        ({"lr_scheduler_kwargs": {"nonsense": 1}}, {"schedule": "linear"}, "'nonsense'"),
        ({"optim": "sgdd"}, {}, "^trl: sgdd is not a valid Optimizer"),
        ({"adam_beta1": 7.0}, {}, "Invalid beta"),
    ],
)
def test_errors_of_trl_and_the_optimizer_name_the_section(trl, settings, told):
    with pytest.raises(ConfigError, match=told) as error:
        learner(trl=trl, **settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"trl": {"importance_sampling_level": "sequence"}},
        {"trl": {"epsilon_high": 5.0}},
        {"loss": "cispo"},
    ],
)
def test_options_change_the_update(settings):
    samples = [
        dataclasses.replace(s, logprobs=tuple(-2.5 for _ in s.logprobs)) for s in some_samples()
    ]  # as if from older weights, so that ratios differ from 1 and are clipped
    plain = first_gradients(learner(), samples, version=1)
    other = first_gradients(learner(**settings), samples, version=1)
    assert relative_error(other, plain) > 1e-3


def test_activation_checkpointing_gives_the_same_gradient():
    plain = first_gradients(learner(), some_samples())
    model = small_model()
    less = first_gradients(learner(model, trl={"activation_checkpointing": True}), some_samples())
    assert model.model.gradient_checkpointing, "it was not switched on"
    assert relative_error(less, plain) < EXACT


def test_accumulation_gives_the_same_step():
    samples = some_samples()
    whole = first_gradients(learner(), samples)
    parts = first_gradients(learner(gradient_accumulation_steps=4), samples)
    assert relative_error(parts, whole) < EXACT
    fewer = first_gradients(learner(minibatches=2, gradient_accumulation_steps=2), samples)
    assert relative_error(fewer, whole) > 0.1, "the first of two steps has half of the samples"
