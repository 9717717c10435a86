"""Documented trainer: a srl_train.Trainer behind MultiModelConfig, episode by episode if wanted."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from core_srl.config import MultiModelConfig, TrainingMode
from core_srl.environments import EnvironmentType, MultiModelTrainingEnvironment
from core_srl.errors import as_documented, loading
from core_srl.models import TINY
from core_srl.monitoring import StartedMonitors
from srl_agents.episode import Episode
from srl_agents.errors import RolloutError
from srl_agents.evaluation.episode_stats import cooperation_rate, mean
from srl_envs import registry
from srl_envs.wrappers import RewardFunction
from srl_train import checkpoints as checkpoint
from srl_train import summaries
from srl_train.build import resolved
from srl_train.engines import Engine
from srl_train.errors import ConfigError, TrainingError
from srl_train.plan import PlannedGames
from srl_train.processes import is_main
from srl_train.round import RoundResult, plan_round
from srl_train.run import Run
from srl_train.trainer import Trainer

CHECKPOINT_DIR = "./checkpoints/multimodel"
UNCHANGED_AFTER = (TimeoutError, TrainingError, ConfigError, RolloutError, asyncio.CancelledError)
"""Errors before an update, after which the run continues where it is."""
log = logging.getLogger(__name__)


class MultiModelTrainer:
    """Trainer for MultiModelConfig, which writes all files into `config.checkpoint_dir`.

    A new run moves an older one in that folder to a folder next to it. `config` and `environment`
    may change until training begins. Settings on which past rounds do not depend, such as
    batch_size, may change between two rounds. After an error in an update, the next call continues
    from the last checkpoint or the beginning. Models are loaded at the first use.

    Args:
        config: Settings of the run; None selects the default MultiModelConfig.
    """

    def __init__(self, config: MultiModelConfig | None = None) -> None:
        self.config = config or MultiModelConfig()
        self._environment: MultiModelTrainingEnvironment | None = None
        self._replaced = False
        self._trainer: Trainer | None = None
        self._built_from: tuple[Any, ...] = ()
        self._engine: _EpisodeEngine | None = None
        self._folder: Path | None = None
        """Folder that belongs to this run."""
        self._broken = False
        """True after an error that may have changed some of the models."""

    @property
    def environment(self) -> MultiModelTrainingEnvironment:
        """Environment of episodes: coop_compete_v0, built when read, or an assigned ParallelEnv.

        Every episode has a copy, whose `max_cycles`, if any, is the config's episode_length.
        `environment.reward_function = f` replaces the rewards by `f(model_output, context)`, also
        in an environment that is assigned later and has no such function. Assignment raises
        TrainingError after training began, and EnvConfigError for no ParallelEnv.
        """
        config, found = self.config, self._environment
        size = (config.num_models, config.episode_length)
        if found is None or (
            not self._replaced and size != (found.num_models, found.unwrapped.max_cycles)
        ):
            section = config.to_run_config().environment
            env = registry.make(section.name, **section.options)
            kind = EnvironmentType.COOP_COMPETE
            found = MultiModelTrainingEnvironment(env, kind, self._reward_function)
            self._environment = found
        return found

    @environment.setter
    def environment(self, environment: Any) -> None:
        played = self._engine.episodes if self._engine is not None else []
        if self._trainer is not None and (played or self._trainer.run.position > (0, 0)):
            raise TrainingError("the environment was replaced after training began")
        if not isinstance(environment, MultiModelTrainingEnvironment):
            environment = MultiModelTrainingEnvironment(environment)
        environment.reward_function = environment.reward_function or self._reward_function
        self._environment, self._replaced = environment, True

    @property
    def trainer(self) -> Trainer:
        """srl_train.Trainer of the run, built at first use, and after new settings or a failure.

        A trainer that is replaced is closed, after a checkpoint unless an update failed. Episodes
        of an incomplete round are lost.

        Raises:
            CheckpointError: For a setting that past rounds depend on, changed after them.
            BackendError: "Model loading failed". ConfigError: For incompatible settings.
        """
        if self._trainer is not None and self._trainer.is_training:
            return self._trainer
        environment = self._environment if self._replaced else None
        wanted = (self.config.model_copy(deep=True), environment, self._reward_function)
        if self._trainer is not None and (self._broken or wanted != self._built_from):
            if not self._broken and self._trainer.run.position > (0, 0):
                self._trainer.save_checkpoint()
            self._trainer.close()
            self._trainer = None  # First, because two runs may not fit into memory.
        if self._trainer is None:
            self._trainer, self._built_from = self._build(), wanted
        return self._trainer

    @property
    def run(self) -> Run:
        """Run of `trainer` (built at first use), with models, samplers and settings."""
        return self.trainer.run

    @property
    def current_episode(self) -> int:
        """Number of episodes played, so the next one's number; builds `trainer` at first use."""
        run = self.run
        played = len(self._engine.episodes) if self._engine else 0
        return run.next_round * run.config.rollout.episodes + played

    async def train(self) -> dict[str, Any]:
        """Train all remaining rounds in a worker thread.

        A cancellation, SIGINT or SIGTERM ends training, saves a checkpoint of the complete rounds,
        and raises CancelledError, KeyboardInterrupt or SystemExit. Also raises the errors of
        `trainer` and srl_train.Trainer.fit.

        Returns:
            training_completed (False after `shutdown`), total_episodes, training_time (seconds),
            training_metrics (lists with an entry per round since `trainer` was built, and update
            counts by model), evaluation ("before", "after" -> result; empty without
            enable_monitoring), stages, final_model_states and checkpoints_saved (oldest first).
        """
        trainer = await asyncio.to_thread(self._begin)
        with self._documented(trainer):
            results = await trainer.train()
        saved = list_available_checkpoints(self.config.checkpoint_dir)
        states = self.get_model_performance_summary()
        return results | {"final_model_states": states, "checkpoints_saved": saved[::-1]}

    def train_round(self) -> RoundResult:
        """Play the rest of the next round, update, and save a checkpoint if due.

        Returns `row` (metrics) and `episodes`. Raises TrainingError if no round is left or the
        round fails, EpisodeTimeout, and the errors of `trainer`.
        """
        trainer = self._begin()
        with self._documented(trainer):
            return trainer.train_round()

    async def train_multi_model_episode(self, episode_num: int) -> dict[str, Any]:
        """Play the next episode, update after a round's last one; sets enable_areal to False.

        Args:
            episode_num: Number of the next episode, `current_episode`, from 0.

        Returns:
            episode (its number), rewards (model that learns -> mean raw reward per step, or None
            without steps), cooperation_ratio (of all actions; None in games without cooperation),
            updates (model that learns -> True if it was updated), metrics (row of a round that
            ended, else {}) and failure (error of the episode or None).

        Raises:
            TrainingError: For another number than the next episode's, after max_episodes, or if too
                many episodes of the round failed.
            EpisodeTimeout: If the episode exceeds `episode_timeout`.
        """
        return await asyncio.to_thread(self._train_episode, episode_num)

    def load_checkpoint(self, checkpoint_id: str | None = None) -> bool:
        """Load a checkpoint's models and progress, drop an incomplete round, and return True.

        Args:
            checkpoint_id: Name of the checkpoint's folder; None selects the last saved.

        Raises:
            CheckpointNotFound: If there is none (a FileNotFoundError).
            CheckpointError: If the checkpoint is damaged, or of a run with other settings.
            ConfigError: If the folder is in use.
        """
        loaded = self.trainer.load_checkpoint(checkpoint_id)
        self._folder = Path(self.config.checkpoint_dir)
        if self._engine is not None:
            self._engine.episodes.clear()
        return loaded

    def get_training_status(self) -> dict[str, Any]:
        """Return the status of the run; builds `trainer` at first use.

        The keys are is_training, current_episode, max_episodes, progress (0 to 1), training_time
        (seconds), model_states (`get_model_performance_summary()`), checkpoints_count and config.
        """
        status = self.trainer.get_training_status()
        played, (rounds, episodes, _) = self.current_episode, self.config.rounds()
        return status | {
            "current_episode": played,
            "max_episodes": self.config.max_episodes,
            "progress": min(1.0, played / (rounds * episodes)),
            "model_states": self.get_model_performance_summary(),
            "config": self.config,
        }

    def get_model_performance_summary(self) -> dict[str, dict[str, Any]]:
        """Return statistics of all rounds by model id; builds `trainer` at first use.

        The keys are model_type, model_name, kind ("full", "adapter" or "frozen"), seats (agents),
        avg_reward (raw, per step), win_rate (0 to 1), total_episodes (once per agent),
        update_count, cooperation_score (0 to 1) and gpu_id. Values without data are None.
        Groups with a failed episode do not count.
        """
        trainer, kinds = self.trainer, self.config.types_by_model()
        summary = trainer.get_model_performance_summary() | summaries.frozen_states(trainer.run)
        for name, entry in summary.items():
            learner = trainer.run.learners.get(name)
            device = next(iter(learner.weights().values())).device if learner else None
            entry |= {"model_type": kinds[name], "gpu_id": device.index if device else None}
        return summary

    async def shutdown(self) -> None:
        """Stop after the current round, save a checkpoint unless an update failed, and close."""
        if self._trainer is not None and not self._broken:
            await self._trainer.shutdown()
        self.close()

    def close(self) -> None:
        """Close files and end the model servers of the run, without saving a checkpoint."""
        if self._trainer is not None:
            self._trainer.close()

    async def _save_checkpoint(self, episode: int) -> str:
        """Save the complete rounds; TrainingError unless `episode` is `current_episode`."""
        trainer = self._begin()
        if episode != self.current_episode:
            raise TrainingError(
                f"episode must be {self.current_episode}, the current one, got {episode}"
            )
        return trainer.save_checkpoint()

    def _train_episode(self, number: int) -> dict[str, Any]:
        if self.run.config.engine.play_ahead:
            self.config.enable_areal = False  # Episodes one at a time cannot be played ahead.
        trainer, run, engine = self._begin(), self.run, self._engine
        assert engine is not None
        if number != self.current_episode or number >= self.config.max_episodes:
            raise TrainingError(
                f"episode_num must be {self.current_episode}, the next of "
                f"{self.config.max_episodes}, got {number}"
            )
        began = time.perf_counter()
        with self._documented(trainer):
            episode = engine.play_next(run)
        run.seconds += time.perf_counter() - began
        last = len(engine.episodes) == run.config.rollout.episodes
        row = self.train_round().row if last else {}
        steps = {
            model: [step for agent in episode.agents_of(model) for step in episode.steps_of(agent)]
            for model in run.learners
        }
        return {
            "episode": number,
            "rewards": {model: mean([step.reward for step in own]) for model, own in steps.items()},
            "cooperation_ratio": cooperation_rate([s for turn in episode.turns for s in turn]),
            "updates": {model: last and row["models"][model]["updated"] for model in run.learners},
            "metrics": row,
            "failure": episode.failure,
        }

    def _begin(self) -> Trainer:
        trainer, folder = self.trainer, Path(self.config.checkpoint_dir)
        trainer.lock()
        if self._folder != folder and is_main() and (place := trainer.files.set_aside()):
            log.warning("%s held a run: it is in %s now", folder, folder.with_name(place.name))
        self._folder = folder
        return trainer

    @contextmanager
    def _documented(self, trainer: Trainer) -> Iterator[None]:
        try:
            with as_documented():
                yield
        except BaseException as error:
            ahead = trainer.run.config.engine.play_ahead
            self._broken = ahead or not isinstance(error, UNCHANGED_AFTER)
            raise

    @property
    def _reward_function(self) -> RewardFunction | None:
        return self._environment.reward_function if self._environment is not None else None

    def _build(self) -> Trainer:
        config, agents, make_env = self.config, None, None
        if self._replaced or self._reward_function is not None:
            make_env = partial(_copy_of, self.environment, config.episode_length)
            agents = list(self.environment.possible_agents)
        run_config = config.to_run_config(agents)
        if notes := config.here().notes:
            log.warning("%s", "; ".join(notes))
        rounds, episodes, _ = config.rounds()
        if rounds * episodes != config.max_episodes:
            log.warning("max_episodes is no multiple of a round: %d are trained", rounds * episodes)
        folder, watched = Path(config.checkpoint_dir), config.enable_monitoring
        with loading(ConfigError):
            run_config = resolved(run_config)
        trainer = Trainer(
            run_config,
            folder,
            make_env=make_env,
            sinks=(StartedMonitors(str(folder)),) if watched else (),
            progress=watched,
            checkpoint_dir=folder,
            record_metrics=watched,
        )
        with loading():
            run = trainer.run
        self._engine = _EpisodeEngine(run.engine)
        run.engine = cast(Engine, self._engine)
        if self._folder == folder:  # An earlier trainer of this run wrote there.
            found = list_available_checkpoints(folder)
            if self._broken:
                log.warning("an update failed: continuing from %s", [*found, "the beginning"][0])
            if found:
                trainer.load_checkpoint(found[0])
            else:
                self._folder = None
        self._broken = False
        return trainer


class _EpisodeEngine:
    def __init__(self, engine: Engine) -> None:
        self._inner = engine
        self.episodes: list[Episode] = []
        """Episodes of the next round that were played already."""

    def play_next(self, run: Run) -> Episode:
        planned = plan_round(run, run.next_round).part([len(self.episodes)])
        [episode] = self._inner.play(planned)
        self.episodes.append(episode)
        return episode

    def play(self, games: PlannedGames) -> list[Episode]:
        if "round" not in games.extra:  # Evaluations belong to no round.
            return self._inner.play(games)
        played, self.episodes = self.episodes, []
        rest = range(len(played), len(games))
        return [*played, *(self._inner.play(games.part(rest)) if rest else ())]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _copy_of(environment: MultiModelTrainingEnvironment, episode_length: int) -> Any:
    made = copy.deepcopy(environment)
    made.reward_function = environment.reward_function
    if getattr(made.unwrapped, "max_cycles", episode_length) != episode_length:
        made.unwrapped.max_cycles = episode_length
        made.reset()  # Descriptions of the environment's length are computed in resets.
    return made


def create_multimodel_trainer(
    num_models: int = 4, training_mode: TrainingMode = TrainingMode.MIXED
) -> MultiModelTrainer:
    """Create a trainer with these values and defaults; ConfigError for a value not allowed."""
    return MultiModelTrainer(MultiModelConfig(num_models=num_models, training_mode=training_mode))


create_cooperative_multimodel_trainer = partial(
    create_multimodel_trainer, training_mode=TrainingMode.COOPERATIVE
)
create_competitive_multimodel_trainer = partial(
    create_multimodel_trainer, training_mode=TrainingMode.COMPETITIVE
)


async def quick_start_multimodel_training(
    num_models: int = 4, max_episodes: int = 100
) -> dict[str, Any]:
    """Train `num_models` documented models, each replaced by 'tiny' if this machine lacks it.

    Whole rounds of 10 episodes are trained; one shorter round if `max_episodes` is below 10.
    Files are in CHECKPOINT_DIR, from which an older run is moved to a folder next to it.

    Returns:
        training_results (see `MultiModelTrainer.train`), model_performance (see
        `MultiModelTrainer.get_model_performance_summary`), and status: "completed" or "stopped".
    """
    config = MultiModelConfig(num_models=num_models, max_episodes=max_episodes)
    if set(config.here().kinds) == {TINY}:
        config.learning_rate = 3e-3  # The embedded model needs a higher rate.
    trainer = MultiModelTrainer(config)
    results = await trainer.train()
    return {
        "training_results": results,
        "model_performance": trainer.get_model_performance_summary(),
        "status": "completed" if results["training_completed"] else "stopped",
    }


def list_available_checkpoints(checkpoint_dir: str | Path = CHECKPOINT_DIR) -> list[str]:
    """Return the ids of a run's complete checkpoints, last saved first; empty without a folder."""
    return checkpoint.list_checkpoints(Path(os.path.expanduser(checkpoint_dir)))


def load_checkpoint_metadata(
    checkpoint_id: str, checkpoint_dir: str | Path = CHECKPOINT_DIR
) -> dict[str, Any]:
    """Return the metadata of a run's checkpoint, such as `episode` and `global_metrics`.

    Raises CheckpointNotFound, a FileNotFoundError, if there is none; CheckpointError if damaged.
    """
    return checkpoint.load_metadata(Path(os.path.expanduser(checkpoint_dir)), checkpoint_id)
