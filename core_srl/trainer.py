"""Public API for training: the trainer and its checkpoints."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pettingzoo import ParallelEnv

from core_srl.config.multi_model import MultiModelConfig, TrainingMode
from core_srl.environments import EnvironmentType, MultiModelTrainingEnvironment
from core_srl.errors import as_documented
from core_srl.models import TINY
from core_srl.monitoring.monitor import StartedMonitors
from srl_agents.episode import Episode
from srl_agents.errors import BackendError
from srl_agents.evaluation.episode_stats import cooperation_rate, mean
from srl_envs.wrappers import CustomRewards, RewardFunction
from srl_train import resume, summaries, trainer
from srl_train.build import build_run, resolved
from srl_train.checkpoints import checkpoint
from srl_train.environment import build_env
from srl_train.errors import ConfigError, TrainingError
from srl_train.metrics import Progress
from srl_train.recorder import Recorder
from srl_train.round import Interruptible, RoundPlan, RoundResult, learn_round, plan_round, play
from srl_train.run import Run
from srl_train.run_files import RunFiles
from srl_train.updates import UpdateStrategy

_LOG = logging.getLogger(__name__)

CHECKPOINT_DIR = "./checkpoints/multimodel"


class EpisodeByEpisode:
    """Schedule that can play a round one episode at a time, and restores the run if a round fails.

    Args:
        run: The run; its next round is the first.
        interruptible: Context in which episodes are played.
    """

    ahead: ClassVar = False

    def __init__(self, run: Run, interruptible: Interruptible = nullcontext) -> None:
        self._run, self._interruptible = run, interruptible
        self._plan: RoundPlan | None = None
        self._episodes: list[Episode] = []
        self._seconds = 0.0

    @property
    def episodes_played(self) -> int:
        """Number of episodes of the current round."""
        return len(self._episodes)

    def play_episode(self) -> Episode:
        """Play the next episode of the round."""
        return self._play(1)[-1]

    def next_round(self) -> RoundResult:
        """Play the rest of the round and learn from all of it; raises as `train_round`."""
        before = resume.held(self._run)
        try:
            with self._interruptible():
                self._play(self._run.config.rollout.episodes - len(self._episodes))
            return learn_round(self._run, self._run.next_round, self._episodes, self._seconds)
        except BaseException:
            resume.put_back(self._run, before)
            raise
        finally:
            self.close()

    def settle(self) -> list[RoundResult]:
        """Return no rounds: nothing is learned between two calls."""
        return []

    def close(self) -> None:
        """Drop the episodes of an incomplete round."""
        self._plan, self._episodes, self._seconds = None, [], 0.0

    def _play(self, count: int) -> list[Episode]:
        began = time.perf_counter()
        self._plan = self._plan or plan_round(self._run, self._run.next_round)
        first = len(self._episodes)
        self._episodes += play(self._run, self._plan, range(first, first + count))
        self._seconds += time.perf_counter() - began
        return self._episodes


class MultiModelTrainer(trainer.Trainer):
    """The trainer for documented settings; everything it writes lies in their checkpoint_dir.

    A run that lies there already is moved beside it, unless a checkpoint of it is loaded first.
    `config` and `environment` may be changed until training begins; those of `FREE` at any time
    between two rounds. A round in which something is raised is undone: `train` plays it again.
    An episode is one game.
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
        self._shown: MultiModelTrainingEnvironment | None = None
        self._shown_for: Any = None
        self._maker: Callable[[], Any] | None = None
        """Makes one more of the environment that was given; None: as the config says."""
        self._paid_by: RewardFunction | None = None
        """The reward function of the run."""
        self._told: list[str] = []
        """What was taken in place of what: once each."""

    @property
    def environment(self) -> MultiModelTrainingEnvironment:
        """What is played: coop_compete_v0 as the config says, until it is replaced.

        Give a PettingZoo ParallelEnv, which is copied for every game, or a constructor without
        arguments. Games end after the config's episode_length where the environment has
        `max_cycles`, else by its own rules. `environment.reward_function = f` replaces the rewards
        by `f(model_output, context)`, and goes on doing so where the environment is replaced by one
        without a function of its own.
        """
        described = (self.config.num_models, self.config.episode_length)
        if self._maker is None and (self._shown is None or self._shown_for != described):
            game = build_env(self.config.to_run_config())
            function = self._shown.reward_function if self._shown is not None else None
            self._shown = MultiModelTrainingEnvironment(
                game, EnvironmentType.COOP_COMPETE, function
            )
            self._shown_for = described
        assert self._shown is not None
        return self._shown

    @environment.setter
    def environment(self, environment: Any) -> None:
        if self._run is not None and self._has_begun(self._run):
            raise TrainingError("the environment was replaced after training began")
        shown = environment() if callable(environment) else environment
        if not isinstance(shown, ParallelEnv):
            raise ConfigError(
                f"the trainer's environment is {shown!r}: give a PettingZoo ParallelEnv, or a "
                "constructor of one without arguments"
            )
        before = self._shown.reward_function if self._shown is not None else None
        if not isinstance(shown, MultiModelTrainingEnvironment):
            shown = MultiModelTrainingEnvironment(shown)
        shown.reward_function = shown.reward_function or before
        self._maker = environment if callable(environment) else partial(copy.deepcopy, shown)
        self._shown, self._run = shown, None

    @property
    def run(self) -> Run:
        """The run, assembled at the first call, and anew where settings have changed; its models
        keep what they learned. Raises as Trainer's."""
        function = self._shown.reward_function if self._shown is not None else None
        if self._run is not None and function is not self._paid_by:
            if self._has_begun(self._run):
                raise TrainingError("the reward function was replaced after training began")
            self._run = None
        if self._run is not None and self._has_begun(self._run) and self._may_go_on():
            before = resume.held(self._run)
            self._close()
            self._end_servers()
            self._run = None  # first, for both may not fit into memory
            self._run = self._assemble()
            resume.put_back(self._run, before)
            self._built_from = self.config.model_copy(deep=True)  # type: ignore[assignment]
        return super().run

    def fit(self) -> dict[str, Any]:
        """See Trainer; where play had gone ahead of a failure, from the last checkpoint on.

        `final_model_states` are as `get_model_performance_summary` gives them.
        """
        self._go_back()
        results = super().fit()
        return results | {"final_model_states": self.get_model_performance_summary()}

    def _go_back(self) -> None:
        """Where models have learned ahead of what is told of: back to the last checkpoint, or to
        the beginning."""
        if not self._torn:
            return
        last = self.checkpoints_saved[-1] if self.checkpoints_saved else None
        _LOG.warning("models had learned ahead: going on from %s", last or "the beginning")
        if last is not None:
            self.load_checkpoint(last)
            return
        self._end_servers()
        self._run, self._torn = None, False

    def _may_go_on(self) -> bool:
        """Whether settings have changed, and only such as may. Raises TrainingError for others."""
        before = self._built_from
        assert isinstance(before, MultiModelConfig)
        changed = [name for name, value in self.config if value != getattr(before, name)]
        for name in changed:
            if name not in FREE:
                raise TrainingError(
                    f"{name} was {getattr(before, name)!r} and is {getattr(self.config, name)!r}, "
                    "changed after training began: set it back, or let a new run go on from the "
                    f"trained models, whose folders are in {self.files.models} (model_names)"
                )
        games = before.rounds().games
        if changed and self.config.rounds().games != games:
            raise TrainingError(
                f"max_episodes is {self.config.max_episodes}, changed after training began: the "
                f"models would update after {self.config.rounds().games} games and no longer "
                f"after {games}; give update_frequency={games} from the beginning"
            )
        return bool(changed)

    @property
    def current_episode(self) -> int:
        """Games played so far."""
        played = summaries.episodes_played(self.run)
        if isinstance(self._rounds, EpisodeByEpisode):
            played += self._rounds.episodes_played
        return played

    def get_training_status(self) -> dict[str, Any]:
        """Progress so far, counted in games; `training_time` in seconds."""
        played, rounds = self.current_episode, self.config.rounds()
        return super().get_training_status() | {
            "current_episode": played,
            "max_episodes": self.config.max_episodes,
            "progress": min(1.0, played / (rounds.number * rounds.games)),
            "config": self.config,
        }

    def get_model_performance_summary(self) -> dict[str, dict[str, Any]]:
        """Model -> model_type, model_name, avg_reward (raw, per turn), win_rate, ..., gpu_id.

        Models behind an API have an update_count of 0.
        """
        summary = super().get_model_performance_summary() | summaries.frozen_states(self.run)
        kinds = self.config.dealt_types()
        for name, entry in summary.items():
            learner = self.run.learners.get(name)
            device = next(iter(learner.weights().values())).device if learner else None
            entry |= {"model_type": kinds[name], "gpu_id": device.index if device else None}
        return summary

    async def _save_checkpoint(self, episode: int, final: bool = False) -> str:
        """Save now; `episode` must be `current_episode`. Returns the checkpoint's id.

        Games of a round that is not whole yet are not in it: they are played again.
        """
        if self._torn:  # nothing whole is there to be saved but what was
            self._go_back()
        elif episode != self.current_episode:
            raise TrainingError(f"episode is {episode}: only {self.current_episode} can be saved")
        return self.save_checkpoint(final=final)

    async def train_multi_model_episode(self, episode_num: int) -> dict[str, Any]:
        """The next game, number `episode_num` of the run; the models update after every
        update_frequency of them.

        Games after the last whole round are played and not learned from. Returns episode, rewards
        (model -> mean raw reward per turn), cooperation_ratio (None for games without that choice),
        updates (model -> whether its weights changed), metrics (the round's row where this game was
        its last, else empty) and failure (why the game is not learned from, None where it is).
        Raises TrainingError for another number than the next game's, and as `train` does.
        """
        return await asyncio.to_thread(self._train_game, episode_num)

    def _train_game(self, number: int) -> dict[str, Any]:
        run = self.run
        if number != self.current_episode or number >= self.config.max_episodes:
            raise TrainingError(
                f"episode_num is {number}, the next is {self.current_episode} of "
                f"{self.config.max_episodes}: games are played in order"
            )
        self._begin()
        if not isinstance(self._rounds, EpisodeByEpisode):
            self._settle()
            self._end_rounds()
            self._rounds = EpisodeByEpisode(run)
        began = time.perf_counter()
        episode = self._rounds.play_episode()
        run.seconds += time.perf_counter() - began
        whole = self._rounds.episodes_played == run.config.rollout.episodes
        row = self.train_round().row if whole else {}
        steps = {
            model: [step for agent in episode.agents_of(model) for step in episode.steps_of(agent)]
            for model in run.learners
        }
        return {
            "episode": number,
            "rewards": {model: mean([step.reward for step in own]) for model, own in steps.items()},
            "cooperation_ratio": cooperation_rate(
                [step for turn in episode.turns for step in turn]
            ),
            "updates": {model: whole and row["models"][model]["updated"] for model in run.learners},
            "metrics": row,
            "failure": episode.failure,
        }

    def train_round(self) -> RoundResult:
        """See Trainer; a round in which something is raised is undone."""
        if self._rounds is None and not self.run.config.engine.play_ahead:
            self._rounds = EpisodeByEpisode(self.run, self._interrupts.at_once)
        with as_documented():
            result = super().train_round()
        if isinstance(self._rounds, EpisodeByEpisode):
            self._rounds = None
        return result

    def _claim(self) -> None:
        """Keep another run of the same folder, beside this one: the documents' programs share
        their folders' default name."""
        self.lock()
        if self._writes and not self._claimed and (place := self.files.set_aside()):
            shown = self.files.folder
            _LOG.warning("%s held a run: it is in %s now", shown, shown.with_name(place.name))
        super()._claim()

    def _assemble(self) -> Run:
        config = self.config
        self._paid_by = self._shown.reward_function if self._shown is not None else None
        maker = self._maker
        if maker is None and self._paid_by is not None:
            maker = partial(copy.deepcopy, self.environment)
        make_env = agents = None
        if maker is not None:
            make_env = _one_more(maker, self._paid_by, config.episode_length)
            with closing(make_env()) as env:
                agents = list(env.possible_agents)
        run_config = config.to_run_config(agents)
        told = [line for line in config.here().told if line not in self._told]
        if told:
            _LOG.warning("%s", "; ".join(told))
        self._told += told
        watched = config.enable_monitoring
        every = run_config.logging.every
        folder = Path(config.checkpoint_dir)
        progress = Progress(run_config.rounds, log_every=every)
        sinks = (progress, StartedMonitors(str(folder))) if watched else ()
        self.files = RunFiles(folder, folder)
        self._recorder = Recorder(self.files, sinks, keep_rows=watched)
        try:
            run_config = resolved(run_config)
        except ConfigError as error:  # A base is missing or holds no model.
            raise BackendError(f"Model loading failed: {error}") from error
        with as_documented():
            try:
                return build_run(run_config, make_env, self._strategy)
            except BackendError as error:
                raise BackendError(f"Model loading failed: {error}") from error


FREE = frozenset({
    "batch_size", "kv_cache_size", "episode_timeout", "max_episodes", "save_interval",
    "max_checkpoints", "max_failed_fraction", "enable_monitoring", "log_metrics_interval",
})  # fmt: skip
"""Settings that may be changed between two rounds: they change nothing of what was learned."""


def _one_more(
    maker: Callable[[], Any], function: RewardFunction | None, episode_length: int
) -> Callable[[], Any]:
    """Makes one more of an environment, its games cut at `episode_length` and paid by `function`,
    which is no copy."""

    def make() -> Any:
        made = maker()
        if function is not None:
            if not isinstance(made, CustomRewards):
                made = CustomRewards(made)
            made.reward_function = function
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
    """Train the documented models together, or the embedded one where they are not here.

    Returns training_results (see `MultiModelTrainer.fit`), model_performance and status,
    "completed" or "stopped".
    """
    config = MultiModelConfig(
        num_models=num_models,
        max_episodes=max_episodes,
        checkpoint_dir=checkpoint_dir,
    )
    if set(config.here().kinds) == {TINY}:
        config.learning_rate = 3e-3  # which suits it
    trainer_ = MultiModelTrainer(config)
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
