"""Configuration of experiments, in Python and in YAML.

A field declared by `setting` has the value of one setting of Core SRL's RunConfig, which checks the
value. mrlm/algorithms/run_config.py computes the other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from srl_train.config.section import LocalPath, Names, Section
from srl_train.config.yaml_file import read_tree, section_from_tree

Positive = Annotated[int, Field(ge=1)]


def setting(path: str, default: Any) -> Any:
    """Return a pydantic field with a default, whose value becomes RunConfig's setting `path`.

    A first word "learner" of the path means `algorithm` for PPO and GRPO, else `sft` or `dpo`.
    """
    return Field(default, serialization_alias=path)


class TrainingConfig(Section):
    """Length, step size and amount of training."""

    algorithm: Literal["ppo", "grpo", "dpo", "sft"] = "ppo"
    """Algorithm of `mrlm train`; in Python, the class of the trainer selects the algorithm."""
    num_epochs: int = 100
    """Number of iterations. An iteration of DPO and SFT is a pass over the data."""
    batch_size: Positive = 32
    """Maximum episodes per optimizer step; samples per optimizer step in DPO and SFT."""
    gradient_accumulation_steps: Positive = 1
    """Forward and backward passes per optimizer step; must be 1 in DPO and SFT."""
    learning_rate: float = setting("learner.learning_rate", 3e-4)
    max_grad_norm: float = setting("learner.max_grad_norm", 0.5)
    weight_decay: float = setting("learner.weight_decay", 0.01)
    lr_scheduler: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = setting("learner.warmup_steps", 0)
    num_rollouts_per_iteration: Positive = 128
    """Episodes per iteration; in SFT without a file of data, episodes in total."""
    eval_episodes: int = setting("logging.evaluation_episodes", 10)
    """Episodes per evaluation, before and after training; 0 disables evaluations."""
    save_every: int = setting("checkpoints.every", 10)
    """Iterations between two checkpoints; one is also saved every five minutes and at the end."""
    save_total_limit: int = setting("checkpoints.keep", -1)
    """Number of newest checkpoints to keep; -1 keeps all."""
    log_every: int = setting("logging.every", 1)
    seed: int = setting("seed", 0)


class ModelConfig(Section):
    """Model of `mrlm train`; in Python, the trainer receives the model as a policy."""

    model_name_or_path: str = setting("models.base", "gpt2")
    torch_dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Data type of the weights: float16 becomes bfloat16, and auto becomes float32."""
    use_lora: bool = False
    lora_r: int = setting("models.adapters.rank", 8)
    lora_alpha: float = setting("models.adapters.alpha", 16.0)
    lora_dropout: float = setting("models.adapters.dropout", 0.05)
    lora_target_modules: str | Names = setting("models.adapters.target_modules", "all-linear")
    max_new_tokens: int = setting("models.sampling.max_new_tokens", 256)
    temperature: float = setting("models.sampling.temperature", 1.0)
    top_p: float = setting("models.sampling.top_p", 0.9)
    top_k: int = setting("models.sampling.top_k", 50)
    device: str = setting("models.device", "auto")


class PPOConfig(Section):
    """Proximal policy optimization, with a critic on the model's own backbone."""

    clip_range: float = setting("algorithm.clip_range", 0.2)
    clip_range_vf: float | None = setting("algorithm.value_clip", None)
    """Maximum change of a value before its loss is clipped; null disables clipping."""
    gamma: float = setting("rollout.discount", 0.99)
    gae_lambda: float = setting("algorithm.gae_lambda", 0.95)
    num_ppo_epochs: int = setting("algorithm.num_iterations", 4)
    value_loss_coef: float = setting("algorithm.value_coefficient", 0.5)
    entropy_coef: float = setting("algorithm.entropy_coef", 0.01)
    """Weight of the entropy bonus, in nats per token."""
    normalize_advantages: bool = True


class GRPOConfig(Section):
    """Group relative policy optimization: episodes from the same start are compared."""

    group_size: Annotated[int, Field(ge=2)] = 4
    gamma: float = setting("rollout.discount", 0.99)
    normalize_rewards: bool = True
    """Divide advantages by the standard deviation of returns."""
    reward_normalization: Literal["group", "batch"] = "group"
    """Samples of the standard deviation: those of the group or of the batch."""
    temperature: float = setting("models.sampling.temperature", 1.0)
    """Sampling temperature of the run, instead of that of the model or policy."""
    clip_range: float = setting("algorithm.clip_range", 0.2)
    num_grpo_epochs: int = setting("algorithm.num_iterations", 1)


class DPOConfig(Section):
    """Direct preference optimization, from pairs of a better and a worse answer."""

    beta: float = setting("dpo.beta", 0.1)
    loss_type: str = setting("dpo.loss", "sigmoid")
    """Loss by TRL's name, such as sigmoid, hinge, ipo or robust."""
    label_smoothing: float = setting("dpo.label_smoothing", 0.0)
    data: str | None = None
    """File of pairs from PreferenceDataset.to_json: required by `mrlm train`, else ignored."""


class SFTConfig(Section):
    """Supervised learning from episodes."""

    mode: Literal["behavioral_cloning", "world_model", "combined"] = "combined"
    """Tokens to learn: the answers, the environment's messages, or both."""
    bc_weight: float = 0.5
    """Weight of the answers in the loss; unused in mode world_model."""
    world_model_weight: float = 0.5
    """Weight of the environment's messages in the loss; unused in behavioral_cloning."""
    min_reward_threshold: float | None = setting("sft.min_return", None)
    """Learn only from episodes with at least this return; null selects all."""
    data: str | None = None
    """File of `mrlm collect` to learn from, instead of episodes of the model itself."""


class EvalEnvironmentConfig(Section):
    """Environment in which `mrlm train` trains and evaluates."""

    env_type: str
    """code, math, debate or tool, or a name NAME_v0 of srl_envs' registry, with one agent."""
    mode: Literal["client"] = "client"
    max_turns: Positive | None = None
    server_address: str | None = None
    """Address ("host:port") of the server that runs the environment; null runs it here."""
    options: Mapping[str, Any] = {}
    """Other options: those of the environment in srl_envs, or of DebateEnvironment."""


class DistributedConfig(Section):
    """Use of several processes, which torchrun starts."""

    enabled: bool = False
    """Apply `strategy` if torchrun started several processes; false replicates the model."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """Replicate the model in each process (ddp) or shard the model (fsdp)."""


class ExperimentConfig(Section):
    """Experiment: model, environments, algorithm and output."""

    experiment_name: str = "mrlm_experiment"
    training: TrainingConfig = TrainingConfig()
    model: ModelConfig = ModelConfig()
    ppo: PPOConfig = PPOConfig()
    grpo: GRPOConfig = GRPOConfig()
    dpo: DPOConfig = DPOConfig()
    sft: SFTConfig = SFTConfig()
    eval_envs: Annotated[tuple[EvalEnvironmentConfig, ...], Field(strict=False)] = ()
    distributed: DistributedConfig = DistributedConfig()
    output_dir: LocalPath | None = None
    """Folder of the run; null is outputs/<algorithm>."""


def load_config(path: str | Path) -> ExperimentConfig:
    """Read an ExperimentConfig from a YAML file; what the file lacks has its default.

    Raises ConfigError for an unreadable file and for unknown, mistyped or invalid settings. Some
    values are checked only when training starts.
    """
    tree = read_tree(path)
    return section_from_tree(ExperimentConfig, {} if tree is None else tree, "")
