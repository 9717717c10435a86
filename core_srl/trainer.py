"""Public API for training: the trainer and its checkpoints."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from math import ceil
from pathlib import Path
from typing import Any

from core_srl.config import MultiModelConfig, TrainingMode
from srl_train import trainer
from srl_train.checkpoints import checkpoint
from srl_train.engine.assemble import assemble
from srl_train.engine.builders.environment import build_env
from srl_train.engine.records import summaries
from srl_train.engine.records.recorder import Recorder
from srl_train.engine.run_files import RunFiles
from srl_train.engine.state import Run
from srl_train.errors import ConfigError, TrainingError
from srl_train.metrics import Progress
from srl_train.updates import UpdateStrategy

_LOG = logging.getLogger(__name__)

CHECKPOINT_DIR = "./checkpoints/multimodel"


class MultiModelTrainer(trainer.Trainer):
    """The trainer for documented settings; everything it writes lies in their checkpoint_dir.

    A run that lies there already is moved beside it, unless a checkpoint of it is loaded first.
    `config` and `environment` may be changed until training begins. An episode is one game,
    except in `train_multi_model_episode`, which trains one round.
    """

    config: MultiModelConfig  # type: ignore[assignment]  # the documented object stays visible

    def __init__(
        self, config: MultiModelConfig | None = None, *, strategy: UpdateStrategy | None = None
    ) -> None:
        super().__init__(strategy=strategy)
        if config is not None and not isinstance(config, MultiModelConfig):
            raise ConfigError(
                f"config is a {type(config).__name__}: give a MultiModelConfig, or a RunConfig to "
                "srl_train.Trainer"
            )
        self.config = config or MultiModelConfig()
        self._shown: Any = None
        self._replaced = False

    @property
    def environment(self) -> Any:
        """What is played: coop_compete_v0 as the config says, until it is replaced.

        Give a PettingZoo ParallelEnv, which is copied for every game, or a constructor without
        arguments. Games end after the config's episode_length where the environment has
        `max_cycles`, else by its own rules.
        """
        if not self._replaced:
            self._shown = build_env(self.config.to_run_config())
        return self._shown

    @environment.setter
    def environment(self, environment: Any) -> None:
        if self._run is not None and self._has_begun(self._run):
            raise TrainingError("the environment was replaced after training began")
        self._shown, self._replaced, self._run = environment, True, None

    @property
    def current_episode(self) -> int:
        """Games played so far."""
        return min(summaries.episodes_played(self.run), self.config.max_episodes)

    def get_training_status(self) -> dict[str, Any]:
        """Progress so far, counted in games; `training_time` in seconds."""
        return super().get_training_status() | {
            "current_episode": self.current_episode,
            "max_episodes": self.config.max_episodes,
            "config": self.config,
        }

    def get_model_performance_summary(self) -> dict[str, dict[str, Any]]:
        """Model -> model_type, model_name, avg_reward (raw, per turn), win_rate, ..., gpu_id."""
        summary = super().get_model_performance_summary()
        for (name, entry), kind in zip(summary.items(), self.config.dealt_types(), strict=True):
            device = next(iter(self.run.learners[name].weights().values())).device
            entry |= {"model_type": kind, "gpu_id": device.index}
        return summary

    async def _save_checkpoint(self, episode: int, final: bool = False) -> str:
        """Save now; `episode` must be `current_episode`. Returns the checkpoint's id."""
        if episode != self.current_episode:
            raise TrainingError(f"episode is {episode}: only {self.current_episode} can be saved")
        return self.save_checkpoint(final=final)

    async def train_multi_model_episode(self, episode_num: int) -> dict[str, Any]:
        """The next round; `episode_num` must be its number.

        Returns episode, rewards (model -> mean raw reward), cooperation_ratio, updates (model ->
        whether its weights changed) and metrics (the round's row).
        """
        if episode_num != self.run.next_round:
            raise TrainingError(
                f"episode_num is {episode_num}, the next is {self.run.next_round}: rounds build on "
                "each other and are trained in order"
            )
        row = (await asyncio.to_thread(self.train_round)).row
        models = row["models"]
        return {
            "episode": episode_num,
            "rewards": {name: model["raw_reward"] for name, model in models.items()},
            "cooperation_ratio": row["environment"]["cooperation_rate"],
            "updates": {name: model["updated"] for name, model in models.items()},
            "metrics": row,
        }

    def _claim(self) -> None:
        """Keep another run of the same folder, beside this one: the documents' programs share
        their folders' default name."""
        if self._writes and not self._claimed and (place := self.files.set_aside()):
            _LOG.warning("%s held a run: it is in %s now", self.files.folder, place)
        super()._claim()

    def _assemble(self) -> Run:
        config = self.config
        make_env = None
        if self._replaced:
            make_env = _maker(self._shown, config.episode_length)
        elif hasattr(self._shown, "reward_function"):
            raise ConfigError(_NO_REWARD_FUNCTION)
        seats = config.num_models
        if make_env is not None:
            with closing(make_env()) as env:
                seats = len(env.possible_agents)
        run_config = config.to_run_config(ceil(seats / config.num_models))
        watched = config.enable_monitoring
        every = run_config.logging.every
        sinks = (Progress(run_config.rounds, log_every=every),) if watched else ()
        folder = Path(config.checkpoint_dir)
        self.files = RunFiles(folder, folder)
        self._recorder = Recorder(self.files, sinks, keep_rows=watched)
        return assemble(run_config, make_env, self._strategy)


_NO_REWARD_FUNCTION = (
    "environment.reward_function is set: custom reward functions are not part of this release; "
    "write them into an environment of your own (docs/environments/games.md)"
)


def _maker(environment: Any, episode_length: int) -> Callable[[], Any]:
    """Makes one more of what was given, its games cut at `episode_length`."""
    if hasattr(environment, "reward_function"):
        raise ConfigError(_NO_REWARD_FUNCTION)

    def make() -> Any:
        made = environment() if callable(environment) else copy.deepcopy(environment)
        if not hasattr(made, "possible_agents"):
            raise ConfigError(
                f"the trainer's environment is {made!r}: give a PettingZoo ParallelEnv, or a "
                "constructor of one without arguments"
            )
        if getattr(made.unwrapped, "max_cycles", episode_length) != episode_length:
            made.unwrapped.max_cycles = episode_length
            made.reset()  # what an environment says of its length is only true from here on
        return made

    return make


def create_multimodel_trainer(
    num_models: int = 4,
    training_mode: TrainingMode = TrainingMode.MIXED,
    model_types: Sequence[str] | None = None,
) -> MultiModelTrainer:
    """A trainer whose other settings may be changed through its `config`."""
    config = MultiModelConfig(num_models=num_models, training_mode=training_mode)
    if model_types is not None:
        config.model_types = list(model_types)
    return MultiModelTrainer(config)


def create_cooperative_multimodel_trainer(num_models: int = 4) -> MultiModelTrainer:
    """A trainer in cooperative mode."""
    return create_multimodel_trainer(num_models, TrainingMode.COOPERATIVE)


def create_competitive_multimodel_trainer(num_models: int = 4) -> MultiModelTrainer:
    """A trainer in competitive mode."""
    return create_multimodel_trainer(num_models, TrainingMode.COMPETITIVE)


async def quick_start_multimodel_training(
    num_models: int = 4, max_episodes: int = 100, *, checkpoint_dir: str = CHECKPOINT_DIR
) -> dict[str, Any]:
    """Train the embedded model's copies together, at a learning rate that suits them.

    Returns training_results (see `MultiModelTrainer.fit`), model_performance and status,
    "completed" or "stopped".
    """
    trainer_ = MultiModelTrainer(
        MultiModelConfig(
            num_models=num_models,
            max_episodes=max_episodes,
            update_frequency=max(2, min(10, max_episodes)),
            learning_rate=3e-3,
            checkpoint_dir=checkpoint_dir,
        )
    )
    results = await trainer_.train()
    return {
        "training_results": results,
        "model_performance": trainer_.get_model_performance_summary(),
        "status": "completed" if results["training_completed"] else "stopped",
    }


def list_available_checkpoints(checkpoint_dir: str | Path = CHECKPOINT_DIR) -> list[str]:
    """Ids of the complete checkpoints in a folder, the newest first."""
    return checkpoint.list_checkpoints(Path(checkpoint_dir))


def load_checkpoint_metadata(
    checkpoint_id: str, checkpoint_dir: str | Path = CHECKPOINT_DIR
) -> dict[str, Any]:
    """What a checkpoint says of itself; raises CheckpointNotFound, a FileNotFoundError."""
    return checkpoint.load_metadata(Path(checkpoint_dir), checkpoint_id)
