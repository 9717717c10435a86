"""Trainer of a policy in environments, whatever it learns by."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from mrlm.algorithms import games
from mrlm.algorithms.run_config import run_config
from mrlm.algorithms.training import Place, train
from mrlm.config.experiment import ExperimentConfig
from mrlm.core.environment import EnvironmentMode, SimulatedEnvironment
from mrlm.core.language_model import LLMEnvironment
from srl_envs.errors import EnvConfigError
from srl_train.errors import ConfigError


class PolicyTrainer:
    """Trains the model of `policy_env`, in SERVER mode, on episodes of `eval_envs`.

    Several environments are played in turn by chance, those of one kind as often as there are of
    them. The model object itself learns. Raises EnvConfigError for a frozen policy and for what is
    no environment.
    """

    algorithm: ClassVar[str]

    def __init__(
        self,
        policy_env: LLMEnvironment,
        eval_envs: Sequence[SimulatedEnvironment],
        config: ExperimentConfig | None = None,
    ) -> None:
        refuse_frozen(policy_env)
        self.policy_env, self.eval_envs = policy_env, list(eval_envs)
        self.config = config or ExperimentConfig()

    def train(self, num_iterations: int | None = None) -> dict[str, Any]:
        """A run of that many iterations (the configured ones where not given) from the policy as it
        is now, into the experiment's folder; a run that lies there is moved beside it.

        Returns results by name, `evaluation` and `training_metrics` among them.
        """
        config, place = self.config, Place.of(self.config, self.algorithm)
        longest, data = config.training.max_episode_length, self.data_in(place)
        named = games.named(self.eval_envs, longest)
        run = run_config(
            config,
            self.algorithm,
            number_of(num_iterations, config),
            environment=named,
            model=None,
            generation=self.policy_env.generation_config,
            data=None if data is None else str(data),
        )
        place.cleared()
        self.write_data(place)
        return train(
            run,
            place,
            evaluate_every=config.every("eval"),
            make_env=games.make_env(self.eval_envs, longest) if named is None else None,
            models=held(self.policy_env),
        )

    def data_in(self, place: Place) -> Path | None:
        """The file in the run's folder that it learns from; None where it plays for that."""
        return None

    def write_data(self, place: Place) -> None:
        """Write that file."""


def held(policy: LLMEnvironment) -> dict[str, tuple[Any, Any]]:
    """The policy's model as a run takes it: on this process's accelerator where there is one,
    unless the policy names a device or its model is on another than the CPU already."""
    on = next(policy.model.parameters()).device.type
    if policy.device is None and on == "cpu" and torch.cuda.is_available():
        policy.model.to(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
    return {"model_0": (policy.model, policy.tokenizer)}


def number_of(iterations: int | None, config: ExperimentConfig) -> int:
    """The iterations asked for; raises ConfigError for none."""
    if iterations is None:
        return config.training.iterations
    if iterations < 1:
        raise ConfigError(f"num_iterations: got {iterations}: give 1 or more")
    return iterations


def refuse_frozen(policy: LLMEnvironment) -> None:
    """Raise EnvConfigError for what cannot be trained."""
    if not isinstance(policy, LLMEnvironment):
        raise EnvConfigError(f"policy_env: got {policy!r:.80}: give an LLMEnvironment")
    if policy.mode is not EnvironmentMode.SERVER:
        raise EnvConfigError(
            f"policy_env: got one in {policy.mode} mode, which is frozen: make it with "
            "mode=EnvironmentMode.SERVER, or set_mode"
        )
