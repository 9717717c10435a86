"""Training of one model by Core SRL's Trainer, from Python objects or from a configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from mrlm.algorithms.run_config import run_config
from mrlm.config import EvalEnvironmentConfig, ExperimentConfig
from mrlm.core.environment import EnvironmentMode, SimulatedEnvironment
from mrlm.core.language_model import LLMEnvironment
from mrlm.core.types import GenerationConfig
from mrlm.environments.debate import DebateEnvironment
from mrlm.environments.task import RemoteEnvironment, TaskEnvironment, registered_name
from mrlm.games import is_plain, named_environment
from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.builtin_tools import TOOLS
from srl_train import processes
from srl_train.loading import load_backend
from srl_train.player_names import Loading
from srl_train.run_files import RunFiles
from srl_train.trainer import Trainer

log = logging.getLogger("mrlm")

FINAL = "final"
"""Link in the run's folder to the trained model."""


class PolicyTrainer:
    """Trainer of the model of `policy_env` on episodes of `eval_envs`.

    PPO and GRPO draw an environment per group of episodes from one start, SFT per episode. Equal
    tasks count once. The model object itself is trained, without the policy's system prompt.

    Args:
        policy_env: Policy in SERVER mode.
        eval_envs: Environments to train and evaluate in; one or more, except for DPO.
        config: Settings, of which `model` and `eval_envs` are ignored; None selects the defaults.

    Raises:
        EnvConfigError: The policy is in CLIENT mode.
    """

    algorithm: ClassVar[str]

    def __init__(
        self,
        policy_env: LLMEnvironment,
        eval_envs: Sequence[SimulatedEnvironment],
        config: ExperimentConfig | None = None,
    ) -> None:
        if policy_env.mode is not EnvironmentMode.SERVER:
            raise EnvConfigError(
                f"policy_env must be in server mode, got {policy_env.mode} mode, which is frozen"
            )
        self.policy_env, self.eval_envs = policy_env, list(eval_envs)
        self.config = config or ExperimentConfig()

    def train(self, num_iterations: int | None = None) -> dict[str, Any]:
        """Train the policy from its current weights; return a dict of results (Trainer.fit).

        The run is written to `config.output_dir`, or else outputs/ALGORITHM. A run that the folder
        already contains is moved to a folder next to it. `num_iterations`, unless None, replaces
        `training.num_epochs`. A policy on the CPU is moved to a GPU if there is one.

        Errors are those of `train_configured`.
        """
        training: dict[str, Any] = {"algorithm": self.algorithm}
        if num_iterations is not None:
            training["num_epochs"] = num_iterations
        config = self.config.replaced(training=self.config.training.replaced(**training))
        policy = self.policy_env
        on_cpu = next(policy.model.parameters()).device.type == "cpu"
        if on_cpu and torch.cuda.is_available():
            policy.model.to(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
        return _train(config, self.eval_envs, policy=policy)[1]


def train_configured(
    config: ExperimentConfig, checkpoint: Path | None = None
) -> tuple[Path, dict[str, Any]]:
    """Train the model of a config; return the run's folder and the results of Trainer.fit.

    Args:
        config: Settings of the experiment.
        checkpoint: Folder of a checkpoint from which its run continues, in `config.output_dir` if
            given; None starts a new run in `config.output_dir` or outputs/ALGORITHM, from which
            an older run is moved to a folder next to it.

    Raises:
        CheckpointError: The checkpoint is missing, damaged, or of other settings.
        BackendError, ConfigError, EnvError: Model, settings or environments are not usable.
        TrainingError, RolloutError: As Trainer.fit.
    """
    environments = [_configured(section) for section in config.eval_envs]
    return _train(config, environments, checkpoint=checkpoint)


def load_policy(
    name: str,
    environments: Sequence[SimulatedEnvironment],
    generation_config: GenerationConfig | None = None,
) -> LLMEnvironment:
    """Load a model as a policy in SERVER mode, on a GPU if there is one.

    Args:
        name: Folder, hub name, or "tiny": the embedded model, made for `environments`.
        environments: Environments that the policy will play, one or more.
        generation_config: Sampling settings; None selects GenerationConfig's defaults.

    Raises:
        BackendError, ConfigError, PolicyError: The model is not usable.
        EnvConfigError: There are no environments.
    """
    registered, options = named_environment(environments)
    backend = load_backend(name, partial(registry.make, registered, **options), Loading())
    model, tokenizer = backend.model, backend.tokenizer
    return LLMEnvironment(model, tokenizer, EnvironmentMode.SERVER, generation_config)


def _train(
    config: ExperimentConfig,
    environments: Sequence[SimulatedEnvironment],
    *,
    policy: LLMEnvironment | None = None,
    checkpoint: Path | None = None,
) -> tuple[Path, dict[str, Any]]:
    environment = make_env = None
    if environments or config.training.algorithm != "dpo":
        environment = named_environment(environments)
        if not is_plain(environment[1]):
            make_env = partial(registry.make, environment[0], **environment[1])
    run = run_config(config, environment, None if policy is None else policy.generation_config)
    folder = Path(config.output_dir or f"outputs/{config.training.algorithm}")
    if checkpoint is not None:
        checkpoint = checkpoint.resolve()
        folder = Path(config.output_dir or checkpoint.parents[1])
    elif processes.is_main():
        moved = RunFiles(folder, folder / "checkpoints").set_aside()
        if moved is not None:
            log.warning("the run in %s was moved to %s", folder, moved)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # The threads cost more than they save
    with Trainer(
        run,
        folder,
        make_env=make_env,
        models=None if policy is None else {"model_0": (policy.model, policy.tokenizer)},
        progress=True,
        checkpoint_dir=None if checkpoint is None else checkpoint.parent,
    ) as trainer:
        if checkpoint is not None:
            trainer.load_checkpoint(checkpoint.name)
        results = trainer.fit()
    if processes.is_main():
        final = folder / FINAL
        final.unlink(missing_ok=True)
        final.symlink_to(Path("models", "model_0"), target_is_directory=True)
    return folder, results


def _configured(section: EvalEnvironmentConfig) -> SimulatedEnvironment:
    kind, server, options = section.env_type, section.server_address, dict(section.options)
    if section.max_turns is not None:
        options["max_turns" if kind == "debate" else "max_cycles"] = section.max_turns
    if kind == "debate":
        return DebateEnvironment(server_address=server, **options)
    if server is not None:
        return RemoteEnvironment(kind, server, **options)
    if kind == "tool":
        options.setdefault("tools", TOOLS)
    return TaskEnvironment(registered_name(kind), options)
