"""Settings of an experiment: training, model, environments, processes and output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from mrlm.config.algorithms import (
    Count,
    DPOConfig,
    GRPOConfig,
    NotNegative,
    Positive,
    PPOConfig,
    SFTConfig,
)
from mrlm.config.documented import Documented
from mrlm.core.types import GenerationConfig
from srl_train.config.section import Names
from srl_train.errors import ConfigError

ONLY_SAMPLED = "answers are sampled token by token: temperature, top_p and top_k shape them"
BY_TORCHRUN = "torchrun starts the processes and says where they are: give it as torchrun's option"


class TrainingConfig(Documented):
    """How long, how fast, and on how much."""

    algorithm: Literal["ppo", "grpo", "dpo", "sft"] = "ppo"
    """What the model learns by; a trainer's class decides in Python."""
    num_epochs: Count = 100
    """Iterations, where `num_iterations` is not given; of dpo and sft, passes over the data."""
    num_iterations: Count | None = None
    """Iterations."""
    batch_size: Count = 32
    """Episodes per optimizer step, or samples in dpo and sft."""
    mini_batch_size: Count | None = None
    """Episodes per forward and backward pass, a divisor of batch_size: the same step in less
    memory."""
    gradient_accumulation_steps: Count = 1
    """The same said otherwise: passes per optimizer step."""
    learning_rate: Positive = 3e-4
    """Of AdamW."""
    max_grad_norm: Positive = 0.5
    """L2 norm that gradients are clipped to."""
    optimizer: Literal["adamw"] = "adamw"
    """The only one."""
    weight_decay: NotNegative = 0.01
    """AdamW's."""
    adam_beta1: float = 0.9
    """AdamW's, read by ppo and grpo."""
    adam_beta2: float = 0.999
    """AdamW's, read by ppo and grpo."""
    adam_epsilon: Positive = 1e-8
    """AdamW's, read by ppo and grpo."""
    lr_scheduler: Literal["constant", "linear", "cosine"] | None = None
    """Of the learning rate, over all iterations; null is constant."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps of linear rise to the learning rate."""
    num_rollouts_per_iteration: Annotated[int, Field(ge=2)] = 128
    """Episodes played per iteration; in sft, in all."""
    max_episode_length: Count = 512
    """Turns after which an episode is cut off, where the environment allows more."""
    eval_every: Annotated[int, Field(ge=0)] = 10
    """Iterations between two evaluations; 0 for none but before and after."""
    eval_episodes: Annotated[int, Field(ge=0)] = 10
    """Episodes of an evaluation; 0 for no evaluation at all."""
    save_every: Annotated[int, Field(ge=0)] = 10
    """Iterations between two checkpoints; 0 saves only the last."""
    checkpoint_dir: str | None = None
    """Folder of the checkpoints; null is `checkpoints` in output_dir."""
    save_total_limit: Count | None = None
    """The newest checkpoints that are kept; null keeps all."""
    log_every: Count = 1
    """Iterations between two lines of progress."""
    log_dir: str = "./logs"
    """Folder of TensorBoard's files; metrics.jsonl is in output_dir always."""
    wandb_project: str | None = None
    """Project of Weights & Biases that is told of the run; null tells none."""
    wandb_entity: str | None = None
    """Its user or team; null is your default."""
    wandb_run_name: str | None = None
    """What trackers call the run; null is the name of its folder."""
    use_tensorboard: bool = False
    """Whether TensorBoard's files are written."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """All randomness comes from it; null is 0."""
    use_fp16: bool = False
    """Weights in 16 bits: taken as bfloat16, which needs no scaling of the loss."""
    use_bf16: bool = False
    """Weights in bfloat16."""

    @model_validator(mode="after")
    def _check(self) -> TrainingConfig:
        if self.use_fp16 and self.use_bf16:
            raise ConfigError("use_fp16: got true where use_bf16 is true: give one of them")
        if not self.use_tensorboard and self.log_dir != "./logs":
            raise ConfigError(
                f"log_dir: got {self.log_dir!r}: it is read where use_tensorboard is true: set it "
                "too; metrics.jsonl is in output_dir"
            )
        if self.wandb_entity is not None and self.wandb_project is None:
            raise ConfigError("wandb_entity: got one without wandb_project: give that too")
        size = self.batch_size
        if self.mini_batch_size is not None and size % self.mini_batch_size:
            raise ConfigError(
                f"mini_batch_size: got {self.mini_batch_size}: give a divisor of batch_size {size}"
            )
        if self.mini_batch_size is not None and self.gradient_accumulation_steps > 1:
            raise ConfigError(
                "mini_batch_size: got one beside gradient_accumulation_steps: give one of them"
            )
        return self

    @property
    def iterations(self) -> int:
        """How many there are."""
        return self.num_iterations or self.num_epochs

    @property
    def accumulation(self) -> int:
        """Passes forward and backward per optimizer step."""
        if self.mini_batch_size is None:
            return self.gradient_accumulation_steps
        return self.batch_size // self.mini_batch_size


class ModelConfig(Documented):
    """The model that learns, for `mrlm train`; in Python it is the policy's."""

    ELSEWHERE: ClassVar = {
        "model_type": ("causal_lm", "models are causal language models"),
        "tokenizer_name_or_path": (None, "a model is loaded with its own tokenizer"),
        "trust_remote_code": (False, "code of a model's repository is not run: use a model that "
                              "transformers knows"),
        "num_beams": (1, ONLY_SAMPLED),
        "repetition_penalty": (1.0, ONLY_SAMPLED),
        "length_penalty": (1.0, ONLY_SAMPLED),
        "device_map": (None, "give device"),
    }  # fmt: skip

    model_name_or_path: str = "gpt2"
    """Hub name or folder; it needs a chat template."""
    torch_dtype: Literal["auto", "float32", "bfloat16", "float16"] | None = None
    """Of the weights; float16 is taken as bfloat16, null and auto as float32."""
    use_flash_attention: bool = False
    """FlashAttention 2."""
    gradient_checkpointing: bool = False
    """Compute activations again in the backward pass, to save memory; read by ppo and grpo."""
    load_in_8bit: bool = False
    """Hold the base in 8 bits, under adapters."""
    load_in_4bit: bool = False
    """Hold the base in 4 bits, under adapters."""
    use_lora: bool = False
    """Train a LoRA adapter in place of the whole model."""
    lora_r: Count = 8
    """Rank of the adapter."""
    lora_alpha: Positive = 16.0
    """Scale of the adapter."""
    lora_dropout: Annotated[float, Field(ge=0, le=0.99)] = 0.05
    """Dropout of the adapter's input in training."""
    lora_target_modules: Names | None = None
    """Layers to adapt; null adapts all linear ones."""
    max_new_tokens: Count = 256
    """Tokens of an answer, at most."""
    temperature: Positive = 1.0
    """Divides the logits."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    """The smallest set of tokens with this share of probability stays."""
    top_k: Annotated[int, Field(ge=0)] = 50
    """This many most likely tokens stay; 0 keeps all."""
    do_sample: Literal[True] = True
    """A model that learns has to sample."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes an accelerator where there is one."""

    @model_validator(mode="before")
    @classmethod
    def _join_generation(cls, tree: Any) -> Any:
        """A nested section `generation` says the same as its settings would beside it."""
        if not isinstance(tree, Mapping) or not isinstance(tree.get("generation"), Mapping):
            return tree
        rest = {name: value for name, value in tree.items() if name != "generation"}
        return {**rest, **tree["generation"]}

    @property
    def generation(self) -> GenerationConfig:
        """How answers are sampled."""
        return GenerationConfig(self.max_new_tokens, self.temperature, self.top_p, self.top_k)


class EnvironmentConfig(Documented):
    """An environment that is trained in; null settings are the environment's own."""

    OF_REWARDS: ClassVar = "make a custom environment of its rewards (custom_class)"
    ELSEWHERE: ClassVar = {
        "problems": (None, "write them to a file and give dataset"),
        "reward_scale": (1.0, OF_REWARDS),
        "reward_clip": (None, OF_REWARDS),
        "reward_bias": (0.0, OF_REWARDS),
    }

    env_type: Literal["code", "math", "debate", "tool", "custom"]
    """Which."""
    mode: Literal["client"] = "client"
    """Nothing in an environment learns."""
    remote: bool = False
    """Play it on the server at `server_address` (`mrlm serve`)."""
    server_address: str | None = None
    """"host:port"."""
    dataset: str | None = None
    """File of problems, of code and math."""
    difficulty_range: Annotated[tuple[int, int], Field(strict=False)] | None = None
    """The easiest and the hardest problems, 1 to 5, of code and math."""
    timeout: Positive | None = None
    """Seconds of a program, of code."""
    max_attempts: Count | None = None
    """Turns of an episode."""
    max_turns: Count | None = None
    """The same said otherwise."""
    custom_class: str | None = None
    """'module:Class' of an environment of yours."""
    custom_kwargs: Mapping[str, Any] = {}
    """Its arguments."""

    @model_validator(mode="after")
    def _check(self) -> EnvironmentConfig:
        if self.remote != (self.server_address is not None):
            raise ConfigError("server_address: it goes with remote: give both, or leave both out")
        if (self.env_type == "custom") != (self.custom_class is not None):
            raise ConfigError("custom_class: it goes with env_type custom: give both, or neither")
        if self.max_attempts is not None and self.max_turns is not None:
            raise ConfigError("max_attempts: got one beside max_turns, which is the same: give one")
        return self


class DistributedConfig(Documented):
    """Several processes, which torchrun starts."""

    ELSEWHERE: ClassVar = {
        "backend": ("nccl", "it follows the device, nccl for GPUs and gloo for CPUs"),
        "gpu_ids": (None, "set CUDA_VISIBLE_DEVICES for the command"),
        "node_rank": (0, BY_TORCHRUN),
        "master_addr": ("localhost", BY_TORCHRUN),
        "master_port": (29500, BY_TORCHRUN),
        "fsdp_sharding_strategy": ("full_shard", "parameters, gradients and optimizer are sharded"),
        "fsdp_cpu_offload": (False, "shards stay on their devices"),
        "deepspeed_config": (None, "DeepSpeed is not used: give strategy fsdp"),
        "zero_stage": (2, "DeepSpeed is not used: give strategy fsdp"),
    }

    enabled: bool = False
    """Whether `strategy` holds where torchrun started several processes."""
    num_gpus: Count = 1
    """Processes of a node that are meant to be started."""
    num_nodes: Count = 1
    """Nodes that are meant to be started."""
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """Each process holds the model whole, or a slice of it."""


class OutputConfig(Documented):
    """Where results go and how often, for those who look for it here."""

    save_dir: str | None = None
    """In place of output_dir."""
    log_interval: Count | None = None
    """In place of training.log_every."""
    eval_interval: Annotated[int, Field(ge=0)] | None = None
    """In place of training.eval_every."""
    save_interval: Annotated[int, Field(ge=0)] | None = None
    """In place of training.save_every."""


class ExperimentConfig(Documented):
    """One experiment."""

    ELSEWHERE: ClassVar = {
        "policy_env": (None, "the policy is what `model` says"),
    }

    experiment_name: str = "mrlm_experiment"
    """Of the experiment."""
    description: str = ""
    """Of the experiment, for its readers."""
    tags: Names = ()
    """Of the experiment, for its readers."""
    training: TrainingConfig = TrainingConfig()
    """How long, how fast, and on how much."""
    model: ModelConfig = ModelConfig()
    """The model that learns."""
    ppo: PPOConfig = PPOConfig()
    """Read where the algorithm is ppo."""
    grpo: GRPOConfig = GRPOConfig()
    """Read where the algorithm is grpo."""
    dpo: DPOConfig = DPOConfig()
    """Read where the algorithm is dpo."""
    sft: SFTConfig = SFTConfig()
    """Read where the algorithm is sft."""
    eval_envs: Annotated[tuple[EnvironmentConfig, ...], Field(strict=False)] = ()
    """The environments; in Python they are objects."""
    distributed: DistributedConfig = DistributedConfig()
    """Several processes."""
    output_dir: str | None = None
    """The run's folder; null is outputs/<algorithm>."""
    output: OutputConfig = OutputConfig()
    """The same and more, said otherwise."""

    @model_validator(mode="after")
    def _check(self) -> ExperimentConfig:
        if self.output_dir is not None and self.output.save_dir is not None:
            raise ConfigError("output_dir: got one beside output.save_dir, which is the same")
        for said, instead in (
            ("log_interval", "log_every"),
            ("eval_interval", "eval_every"),
            ("save_interval", "save_every"),
        ):
            usual = TrainingConfig.model_fields[instead].default
            if getattr(self.output, said) is not None and getattr(self.training, instead) != usual:
                raise ConfigError(
                    f"output.{said}: got one beside training.{instead}, which is the same: give one"
                )
        return self

    def every(self, what: Literal["log", "eval", "save"]) -> int:
        """Iterations between two of them."""
        given: int | None = getattr(self.output, f"{what}_interval")
        usual: int = getattr(self.training, f"{what}_every")
        return usual if given is None else given
