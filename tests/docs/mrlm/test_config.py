"""Every documented setting is read, or is refused with what to do."""

import pytest

from mrlm.algorithms.run_config import run_config
from mrlm.config import ConfigParser, ExperimentConfig, ModelConfig, TrainingConfig, load_config
from mrlm.core import GenerationConfig
from srl_train.errors import ConfigError
from tests.docs.mrlm.conftest import SOURCES

DEFAULTS = {
    "experiment_name": "mrlm_experiment",
    "training": {
        "algorithm": "ppo", "num_epochs": 100, "num_iterations": None, "batch_size": 32,
        "mini_batch_size": None, "learning_rate": 3e-4, "max_grad_norm": 0.5,
        "optimizer": "adamw", "weight_decay": 0.01, "adam_beta1": 0.9, "adam_beta2": 0.999,
        "adam_epsilon": 1e-8, "lr_scheduler": None, "warmup_steps": 0,
        "num_rollouts_per_iteration": 128, "max_episode_length": 512, "eval_every": 10,
        "eval_episodes": 10, "save_every": 10, "save_total_limit": None, "log_every": 1,
        "log_dir": "./logs", "wandb_project": None, "use_tensorboard": False, "seed": None,
        "use_fp16": False, "use_bf16": False, "gradient_accumulation_steps": 1,
    },
    "ppo": {
        "clip_range": 0.2, "clip_range_vf": None, "gamma": 0.99, "gae_lambda": 0.95,
        "num_ppo_epochs": 4, "value_loss_coef": 0.5, "entropy_coef": 0.01, "target_kl": None,
        "normalize_advantages": True,
    },
    "grpo": {
        "group_size": 4, "gamma": 0.99, "normalize_rewards": True,
        "reward_normalization": "group", "temperature": 1.0,
    },
    "dpo": {
        "beta": 0.1, "reference_free": False, "label_smoothing": 0.0, "loss_type": "sigmoid",
    },
    "sft": {
        "mode": "combined", "bc_weight": 0.5, "world_model_weight": 0.5,
        "filter_low_reward": False, "min_reward_threshold": 0.0, "collect_every": 1,
        "max_trajectories": 1000,
    },
    "model": {
        "model_name_or_path": "gpt2", "model_type": "causal_lm", "tokenizer_name_or_path": None,
        "trust_remote_code": False, "use_flash_attention": False,
        "gradient_checkpointing": False, "load_in_8bit": False, "load_in_4bit": False,
        "use_lora": False, "lora_r": 8, "lora_alpha": 16, "lora_dropout": 0.05,
        "lora_target_modules": None, "max_new_tokens": 256, "temperature": 1.0, "top_p": 0.9,
        "top_k": 50, "do_sample": True, "num_beams": 1, "repetition_penalty": 1.0,
        "length_penalty": 1.0, "device": "auto", "device_map": None,
    },
    "distributed": {
        "enabled": False, "backend": "nccl", "num_gpus": 1, "gpu_ids": None, "num_nodes": 1,
        "node_rank": 0, "master_addr": "localhost", "master_port": 29500, "strategy": "ddp",
        "fsdp_sharding_strategy": "full_shard", "fsdp_cpu_offload": False,
        "deepspeed_config": None, "zero_stage": 2,
    },
}  # fmt: skip
"""As documented, but for checkpoint_dir and output_dir, which are in the run's folder here."""


def test_the_documented_defaults_are_ours():
    assert ExperimentConfig(**DEFAULTS) == ExperimentConfig()


def run_of(algorithm="ppo", held=False, data=None, **sections):
    config = ExperimentConfig(**sections)
    return run_config(
        config,
        algorithm,
        5,
        environment=("math_v0", {}),
        model=None if held else config.model,
        generation=GenerationConfig(),
        data=data,
    )


def test_ppo_as_a_run():
    run = run_of(
        training={
            "batch_size": 16, "mini_batch_size": 8, "num_rollouts_per_iteration": 64,
            "lr_scheduler": "cosine", "warmup_steps": 3, "adam_beta1": 0.8, "seed": 4,
            "save_total_limit": 2, "eval_episodes": 6,
        },
        ppo={"clip_range_vf": 0.3, "num_ppo_epochs": 2, "gamma": 0.9, "target_kl": 0.1},
        model={
            "use_lora": True, "lora_r": 4, "load_in_4bit": True,
            "generation": {"max_new_tokens": 7},
        },
    )  # fmt: skip
    algorithm, models = run.algorithm, run.models
    assert (algorithm.minibatches, algorithm.gradient_accumulation_steps) == (4, 2)
    assert (run.rollout.group_size, run.rollout.groups_per_round) == (8, 8)
    assert (algorithm.num_iterations, algorithm.value_clip, algorithm.target_kl) == (2, 0.3, 0.1)
    assert (algorithm.schedule, algorithm.warmup_steps, algorithm.trl) == (
        "cosine", 3, {"adam_beta1": 0.8},
    )  # fmt: skip
    assert (run.rollout.discount, run.seed, run.rounds) == (0.9, 4, 5)
    assert (run.checkpoints.keep, run.logging.evaluation_episodes) == (2, 6)
    assert (models.adapters.rank, models.quantization, models.base) == (4, "nf4", "gpt2")


def test_trackers_are_told():
    training = {"wandb_project": "p", "wandb_entity": "e", "use_tensorboard": True, "log_dir": "l"}
    logging = run_of(training=training).logging
    assert (logging.trackers, logging.project) == (("tensorboard", "wandb"), "p")
    assert (logging.wandb.entity, logging.directory) == ("e", "l")


def test_grpo_as_a_run():
    run = run_of("grpo", grpo={"group_size": 8, "temperature": 0.7, "normalize_rewards": False})
    assert (run.rollout.group_size, run.rollout.groups_per_round) == (8, 16)
    assert run.algorithm.scale_rewards == "none" and run.models.sampling.temperature == 0.7


def test_stages_as_runs():
    sft = run_of("sft", sft={"mode": "world_model", "filter_low_reward": True}).sft
    assert (sft.answer_weight, sft.observation_weight, sft.min_return) == (0.0, 0.5, 0.0)
    assert (sft.episodes, sft.epochs, sft.batch_size) == (128, 5, 32)
    dpo = run_of("dpo", data="pairs.jsonl", dpo={"beta": 0.3, "loss_type": "ipo"}).dpo
    assert (dpo.beta, dpo.loss, dpo.data) == (0.3, "ipo", ("pairs.jsonl",))


@pytest.mark.parametrize(
    "wanted",
    [{"model": {"torch_dtype": "float16"}}, {"training": {"use_fp16": True}}],
    ids=["model", "training"],
)
def test_sixteen_bits_are_bfloat16_and_a_line_says_so(wanted, caplog):
    assert run_of(**wanted).models.dtype == "bfloat16"
    assert "in bfloat16" in caplog.text


REFUSED = [
    ({"training": {"lerning_rate": 1.0}}, "training.lerning_rate: .*'learning_rate'"),
    ({"training": {"log_dir": "x"}}, "training.log_dir: got 'x'.*use_tensorboard"),
    ({"training": {"wandb_entity": "x"}}, "wandb_entity"),
    ({"training": {"batch_size": 48}}, "training.batch_size: got 48: give a divisor"),
    ({"training": {"mini_batch_size": 5}}, "mini_batch_size: got 5"),
    ({"training": {"use_fp16": True, "use_bf16": True}}, "use_fp16"),
    ({"model": {"num_beams": 4}}, "model.num_beams: got 4"),
    ({"model": {"do_sample": False}}, "model.do_sample: got False"),
    ({"model": {"load_in_4bit": True}}, "use_lora"),
    ({"distributed": {"strategy": "deepspeed"}}, "distributed.strategy: .*'fsdp'"),
    ({"distributed": {"gpu_ids": [0]}}, "CUDA_VISIBLE_DEVICES"),
    ({"eval_envs": [{"env_type": "chess"}]}, r"eval_envs\[0\].env_type: got 'chess'"),
    ({"eval_envs": [{"env_type": "math", "mode": "server"}]}, "mode: got 'server'"),
    ({"eval_envs": [{"env_type": "math", "remote": True}]}, "server_address"),
    ({"output_dir": "a", "output": {"save_dir": "b"}}, "output_dir"),
]  # fmt: skip


@pytest.mark.parametrize(("sections", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_cannot_be_is_refused(sections, message):
    with pytest.raises(ConfigError, match=message):
        run_of(**sections)


def test_groups_have_to_be_shared_out_evenly():
    with pytest.raises(ConfigError, match="give 128 or 64 or 32"):
        run_of("grpo", training={"batch_size": 8})
    with pytest.raises(ConfigError, match="sft does not read it"):
        run_of("sft", training={"adam_beta1": 0.5})
    with pytest.raises(ConfigError, match="loaded already"):
        run_of(held=True, training={"use_bf16": True})


def test_files_are_read_back(tmp_path):
    config = ExperimentConfig(
        training=TrainingConfig(num_epochs=3), model=ModelConfig(use_lora=True), tags=("a",)
    )
    ConfigParser.save(config, tmp_path / "config.yaml")
    assert ConfigParser.load(tmp_path / "config.yaml") == config


@pytest.mark.parametrize("path", sorted((SOURCES / "configs").glob("*.yaml")), ids=lambda p: p.stem)
def test_shipped_configurations_are_runs(path):
    config = load_config(path)
    algorithm = config.training.algorithm
    run_config(
        config,
        algorithm,
        config.training.iterations,
        environment=None,
        model=config.model,
        generation=config.model.generation,
        data="data.jsonl" if algorithm == "dpo" else None,
    )
