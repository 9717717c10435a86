"""Training of one model by Core SRL's Trainer, from Python objects or from a configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
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
from mrlm.environments.task import REGISTERED, RemoteEnvironment, TaskEnvironment
from mrlm.games import NamedEnvironment, is_plain, named_environment
from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.loading import references
from srl_envs.tasks.tool_use.toolbox import TOOLS
from srl_train.config.run import RunConfig
from srl_train.distributed import processes
from srl_train.engine.run_files import RunFiles
from srl_train.errors import ConfigError
from srl_train.metrics import Progress
from srl_train.players.load import load_backend
from srl_train.players.trained_models import Loading
from srl_train.trainer import Trainer

log = logging.getLogger("mrlm")

FINAL = "final"
"""Link in the run's folder to the trained model."""
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "code": {
        "max_turns": "max_cycles",
        "dataset": "path",
        "difficulty_range": "difficulty",
        "timeout": "wall",
    },
    "math": {"max_turns": "max_cycles", "dataset": "path", "difficulty_range": "difficulty"},
    "tool": {"max_turns": "max_cycles"},
    "debate": {"max_turns": "max_turns"},
    "custom": {},
}
"""Environment type -> setting in a configuration -> option of the environment."""


class PolicyTrainer:
    """Trainer of the model of `policy_env` on episodes of `eval_envs`.

    Each episode is one of a random environment. Equal environments are drawn in proportion to their
    number. The model object itself is trained.

    Args:
        policy_env: Policy in SERVER mode.
        eval_envs: Environments.
        config: Settings of the experiment.

    Raises:
        EnvConfigError: The policy is frozen.
    """

    algorithm: ClassVar[str]

    def __init__(
        self,
        policy_env: LLMEnvironment,
        eval_envs: Sequence[SimulatedEnvironment],
        config: ExperimentConfig | None = None,
    ) -> None:
        if not isinstance(policy_env, LLMEnvironment):
            raise EnvConfigError(f"policy_env must be an LLMEnvironment, got {policy_env!r:.80}")
        if policy_env.mode is not EnvironmentMode.SERVER:
            raise EnvConfigError(
                f"policy_env must be in server mode, got {policy_env.mode} mode, which is frozen"
            )
        self.policy_env, self.eval_envs = policy_env, list(eval_envs)
        self.config = config or ExperimentConfig()

    def prepare(self, config: ExperimentConfig, folder: Path) -> ExperimentConfig:
        """Write data for the run into its folder; return the settings of the run."""
        return config

    def train(self, num_iterations: int | None = None) -> dict[str, Any]:
        """Train the policy from its current weights, in the experiment's folder.

        A run that the folder already contains is moved to a folder next to it.

        Args:
            num_iterations: Number of iterations; by default, as configured.

        Returns:
            Results of Trainer.fit, such as `evaluation` and `training_metrics`.
        """
        training: dict[str, Any] = {"algorithm": self.algorithm}
        if num_iterations is not None:
            training["num_iterations"] = num_iterations
        config = self.config.replaced(training=self.config.training.replaced(**training))
        folder = folder_of(config)
        config = self.prepare(config, _empty(folder))
        environment = _environment(config, self.eval_envs)
        policy = self.policy_env
        on_cpu = next(policy.model.parameters()).device.type == "cpu"
        if policy.device is None and on_cpu and torch.cuda.is_available():
            policy.model.to(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
        return _train(
            run_config(config, environment, policy.generation_config),
            folder,
            config.training.eval_every,
            environment,
            models={"model_0": (policy.model, policy.tokenizer)},
        )


def train_configured(
    config: ExperimentConfig, checkpoint: Path | None = None
) -> tuple[Path, dict[str, Any]]:
    """Train as an experiment describes, from the start or from a checkpoint.

    Args:
        config: Settings of the experiment.
        checkpoint: Folder of a checkpoint. The run continues in the checkpoint's run folder,
            unless `config.output_dir` names another.

    Returns:
        Folder of the run, and the results of Trainer.fit.

    Raises:
        CheckpointNotFound: There is no such checkpoint.
        ConfigError: Settings are missing or not allowed.
    """
    environments = [
        _configured(section, f"eval_envs[{index}]")
        for index, section in enumerate(config.eval_envs)
    ]
    environment = _environment(config, environments)
    run = run_config(config, environment)
    if checkpoint is not None and config.output_dir is None:
        folder = checkpoint.resolve().parents[1]
    else:
        folder = folder_of(config)
    if checkpoint is None:
        _empty(folder)
    sinks = (Progress(run.rounds, log_every=run.logging.every),) if processes.is_main() else ()
    every = config.training.eval_every
    return folder, _train(run, folder, every, environment, checkpoint=checkpoint, sinks=sinks)


def load_policy(
    name: str,
    environments: Sequence[SimulatedEnvironment],
    generation_config: GenerationConfig | None = None,
) -> LLMEnvironment:
    """Load a model as a policy in SERVER mode, on an accelerator if there is one.

    Args:
        name: Folder, hub name, or "tiny": the embedded model, prepared for `environments`.
        environments: Environments that the policy will play.
        generation_config: Sampling settings.

    Raises:
        BackendError: The model cannot be loaded.
    """
    registered, options = named_environment(environments)
    backend = load_backend(name, partial(registry.make, registered, **options), Loading())
    model, tokenizer = backend.model, backend.tokenizer
    return LLMEnvironment(model, tokenizer, EnvironmentMode.SERVER, generation_config)


def folder_of(config: ExperimentConfig) -> Path:
    """Return the run's folder of an experiment."""
    return Path(config.output_dir or f"outputs/{config.training.algorithm}")


def _empty(folder: Path) -> Path:
    """Move a run that the folder already contains to a folder next to it."""
    if processes.is_main():
        moved = RunFiles(folder, folder / "checkpoints").set_aside()
        if moved is not None:
            log.warning("the run in %s was moved to %s", folder, moved)
    return folder


def _environment(
    config: ExperimentConfig, environments: Sequence[SimulatedEnvironment]
) -> NamedEnvironment | None:
    if config.training.algorithm == "dpo" and not environments:
        return None
    return named_environment(environments, config.training.max_episode_length)


def _train(
    config: RunConfig,
    folder: Path,
    eval_every: int,
    environment: NamedEnvironment | None,
    *,
    checkpoint: Path | None = None,
    **trainer_arguments: Any,
) -> dict[str, Any]:
    """Train all rounds, with an evaluation every `eval_every` rounds."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # The threads cost more than they save
    make_env: Callable[[], Any] | None = None
    if environment is not None and not is_plain(environment[1]):
        make_env = partial(registry.make, environment[0], **environment[1])
    checkpoints = None if checkpoint is None else checkpoint.resolve().parent
    with Trainer(
        config, folder, make_env=make_env, checkpoint_dir=checkpoints, **trainer_arguments
    ) as trainer:
        if checkpoint is not None:
            trainer.load_checkpoint(checkpoint.name)
        while eval_every and trainer.run.next_round < config.rounds:
            trainer.train_round()
            done = trainer.run.next_round
            if done % eval_every == 0 and done < config.rounds:
                trainer.evaluate(f"round_{done}")
        results = trainer.fit()
    if processes.is_main():
        final = folder / FINAL
        final.unlink(missing_ok=True)
        final.symlink_to(Path("models", "model_0"), target_is_directory=True)
    return results


def _configured(section: EvalEnvironmentConfig, path: str) -> SimulatedEnvironment:
    """Make the environment of a section at `path` of the configuration."""
    kind, server = section.env_type, section.server_address
    read = OPTIONS[kind]
    every = ("max_turns", "dataset", "difficulty_range", "timeout")
    given = {name: getattr(section, name) for name in every if getattr(section, name) is not None}
    unread = [name for name in given if name not in read]
    if kind == "custom" and server is not None:
        unread.append("server_address")
    if unread:
        raise ConfigError(f"{path}.{unread[0]}: not allowed for env_type {kind!r}: remove it")
    if section.custom_class is not None:
        made = references.code(section.custom_class)(**section.custom_kwargs)
        if not isinstance(made, SimulatedEnvironment):
            raise ConfigError(
                f"{path}.custom_class: must make a SimulatedEnvironment, got {made!r:.80}"
            )
        return made
    options = {read[name]: value for name, value in given.items()}
    if kind == "debate":
        return DebateEnvironment(server_address=server, **options)
    if server is not None:
        return RemoteEnvironment(kind, server, **options)
    if kind == "tool":
        options["tools"] = TOOLS
    return TaskEnvironment(REGISTERED[kind], options)
