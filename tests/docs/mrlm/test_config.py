"""Every setting of an experiment has its effect on the run, or is refused."""

import pytest

from mrlm.algorithms.run_config import run_config
from mrlm.algorithms.trainer import train_configured
from mrlm.config import ExperimentConfig, load_config
from mrlm.core import GenerationConfig
from srl_envs.errors import EnvConfigError
from srl_train.errors import ConfigError
from tests.docs.mrlm.conftest import SOURCES


def run_of(algorithm="ppo", sampling=None, training=None, **sections):
    training = {"algorithm": algorithm, "num_epochs": 5, **(training or {})}
    config = ExperimentConfig(training=training, **sections)
    return run_config(config, ("math_v0", {}), sampling)


def test_ppo_as_a_run():
    run = run_of(
        training={
            "batch_size": 16, "gradient_accumulation_steps": 2, "num_rollouts_per_iteration": 64,
            "lr_scheduler": "cosine", "warmup_steps": 3, "seed": 4, "save_total_limit": 2,
            "eval_episodes": 6, "learning_rate": 1e-5,
        },
        ppo={"clip_range_vf": 0.3, "num_ppo_epochs": 2, "gamma": 0.9},
        model={
            "use_lora": True, "lora_r": 4, "max_new_tokens": 7,
        },
    )  # fmt: skip
    algorithm, models = run.algorithm, run.models
    assert (algorithm.minibatches, algorithm.gradient_accumulation_steps) == (4, 2)
    assert (run.rollout.group_size, run.rollout.groups_per_round) == (8, 8)
    assert (algorithm.num_iterations, algorithm.value_clip) == (2, 0.3)
    assert (algorithm.schedule, algorithm.warmup_steps) == ("cosine", 3)
    assert (algorithm.critic, algorithm.learning_rate) == ("shared", 1e-5)
    assert (run.rollout.discount, run.seed, run.rounds) == (0.9, 4, 5)
    assert (run.checkpoints.keep, run.logging.evaluation_episodes) == (2, 6)
    assert (models.adapters.rank, models.base) == (4, "gpt2")
    assert (models.sampling.max_new_tokens, models.sampling.top_k) == (7, 50)
    assert run.environment.name == "math_v0"


def test_grpo_as_a_run():
    run = run_of("grpo", grpo={"group_size": 8, "temperature": 0.7, "normalize_rewards": False})
    assert (run.rollout.group_size, run.rollout.groups_per_round) == (8, 16)
    assert run.algorithm.scale_rewards == "none" and run.models.sampling.temperature == 0.7
    given = run_of("grpo", GenerationConfig(max_new_tokens=9), model={"max_new_tokens": 5})
    assert (given.models.sampling.max_new_tokens, given.models.base) == (9, "tiny")


def test_stages_as_runs():
    sft = run_of("sft", sft={"mode": "world_model", "min_reward_threshold": 0.5}).sft
    assert (sft.answer_weight, sft.observation_weight, sft.min_return) == (0.0, 0.5, 0.5)
    assert (sft.episodes, sft.epochs, sft.batch_size) == (128, 5, 32)
    sft = run_of("sft", sft={"data": "x.jsonl"}, training={"warmup_steps": 2}).sft
    assert (sft.data, sft.schedule) == (("x.jsonl",), "constant_with_warmup")
    dpo = run_of("dpo", dpo={"beta": 0.3, "loss_type": "ipo", "data": "pairs.jsonl"}).dpo
    assert (dpo.beta, dpo.loss, dpo.data) == (0.3, "ipo", ("pairs.jsonl",))


MATH = {"env_type": "math"}


@pytest.mark.parametrize(
    ("sections", "setting"),
    [
        ({"training": {"lerning_rate": 1.0}}, "training.lerning_rate: .*'learning_rate'"),
        ({"training": {"batch_size": 48}}, "training.batch_size: got 48"),
        ({"training": {"algorithm": "dpo"}}, "dpo.data"),
        (
            {"training": {"algorithm": "sft", "gradient_accumulation_steps": 2}},
            "gradient_accumulation_steps",
        ),
        ({"distributed": {"strategy": "deepspeed"}}, "distributed.strategy: .*'fsdp'"),
        ({"eval_envs": [{**MATH, "mode": "server"}]}, "mode: .*'server'"),
        ({"eval_envs": [{"env_type": "chess"}]}, "chess"),
        ({"eval_envs": [{**MATH, "options": {"speed": 1}}]}, "speed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_are_refused(sections, setting):
    with pytest.raises((ConfigError, EnvConfigError), match=setting):
        train_configured(ExperimentConfig(**{"eval_envs": [MATH], **sections}))


@pytest.mark.parametrize("path", sorted((SOURCES / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_configurations_are_runs(path):
    run_config(load_config(path), None)
