"""Trainer of several models: stages, rounds, checkpoints and signals of a whole run."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Self

from srl_agents.errors import RolloutError
from srl_train import checkpoints as checkpoint
from srl_train import processes, resume, summaries
from srl_train.build import build_run
from srl_train.config.run import RunConfig
from srl_train.errors import CheckpointNotFound, ConfigError, TrainingError
from srl_train.evaluation import evaluate
from srl_train.interrupts import Interrupts
from srl_train.metrics import Progress, Sink, round_warnings
from srl_train.pools import grow_pools
from srl_train.recorder import Recorder
from srl_train.round import RoundResult
from srl_train.run import Run
from srl_train.run_files import RunFiles
from srl_train.schedule import Schedule, build_schedule
from srl_train.updates import UpdateStrategy

if TYPE_CHECKING:
    from filelock import BaseFileLock

    from srl_train.loading import ModelObject

log = logging.getLogger(__name__)


class Trainer:
    """Trainer of several models in one environment.

    The models are loaded at the first use of `run`. Under torchrun, every process builds a Trainer
    and calls the same methods (docs/training/processes.md).

    Args:
        config: Configuration of the run; None is the default RunConfig.
        run_dir: Folder of the run's files.
        make_env: Constructor of the environment, which replaces the configured environment.
        strategy: Update strategy, which replaces the configured strategy.
        models: (PreTrainedModel, tokenizer) by model name ("model_0"), which replace the bases.
        sinks: Receivers of the metrics rows of stages and rounds, closed when training ends.
        progress: If true, print progress lines to stderr. None prints them if stderr is a terminal
            and no sink is a Progress.
        checkpoint_dir: Folder of the checkpoints, by default `run_dir`/checkpoints.
        record_metrics: If true, write metrics.jsonl, stages.jsonl, config.yaml and summary.json.
    """

    def __init__(
        self,
        config: RunConfig | None = None,
        run_dir: str | Path = "runs/latest",
        *,
        make_env: Callable[[], Any] | None = None,
        strategy: UpdateStrategy | None = None,
        models: Mapping[str, ModelObject] | None = None,
        sinks: tuple[Sink, ...] = (),
        progress: bool | None = None,
        checkpoint_dir: str | Path | None = None,
        record_metrics: bool = True,
    ) -> None:
        self.config = config or RunConfig()
        folder = Path(os.path.expanduser(run_dir))
        checkpoints = Path(checkpoint_dir or folder / "checkpoints")
        self.files = RunFiles(folder, Path(os.path.expanduser(checkpoints)))
        self.checkpoints_saved: list[str] = []
        self.is_training = False
        self._given = make_env, strategy, self.files.server_logs, models
        if progress is None:
            progress = sys.stderr.isatty() and not any(isinstance(one, Progress) for one in sinks)
        self._recorder = Recorder(self.files, sinks, keep_rows=record_metrics, progress=progress)
        self._writes = processes.is_main()
        self._rounds: Schedule | None = None
        self._models_ahead = False
        """True if training ended after an update with samples of rounds that are not recorded."""
        self._run: Run | None = None
        self._saved, self._claimed = (0, 0), False
        self._lock: BaseFileLock | None = None
        self._stop = threading.Event()
        self._interrupts = Interrupts(self._stop)
        self._saved_at = time.monotonic()
        self._rows: list[dict[str, Any]] = []

    @property
    def run(self) -> Run:
        """State of the run. The first use loads models: errors of `build_run`, or TrackerError."""
        if self._run is None:
            self._recorder.refuse_missing(self.config)
            self._run = build_run(self.config, *self._given)
        return self._run

    async def train(self) -> dict[str, Any]:
        """Call `fit` in a worker thread; return its results or raise its errors.

        If the task is cancelled, or after SIGINT or SIGTERM, training ends after the current round
        or pass, with a checkpoint. Then CancelledError, KeyboardInterrupt or SystemExit is raised.
        """
        self._stop.clear()
        with self._interrupts:
            work = asyncio.create_task(asyncio.to_thread(self.fit))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                self._stop.set()
                await work
                raise

    def fit(self) -> dict[str, Any]:
        """Run the remaining stages and rounds, save the models and evaluate them.

        SIGINT and SIGTERM, unless the program handles them, end training after the current round
        or pass. In a single process without `play_ahead`, they interrupt episodes. The last
        complete round or pass is saved, and KeyboardInterrupt or SystemExit is raised. An error in
        the episodes of a round, such as one of a reward function, is also raised after a save,
        except with `play_ahead` or several processes.

        Returns:
            training_completed, total_episodes, training_time (seconds), training_metrics,
            final_model_states, checkpoints_saved, evaluation and stages.

        Raises:
            TrainingError: If too many episodes failed, weights are not finite, or the disk is full.
            ConfigError: If the folder contains another run or is in use, or a data file is missing.
            DataError, RolloutError: If data is invalid, or all episodes of an evaluation fail.
            EpisodeTimeout: If episodes exceed `rollout.timeout`.
        """
        run = self.run
        self.is_training = True
        with self.files.on_full_disk(), ExitStack() as stack:
            # The callbacks are called in reverse order, also after an error.
            stack.callback(setattr, self, "is_training", False)  # Last, `shutdown` waits for it.
            stack.callback(self._unlock)
            stack.callback(self._recorder.close)
            with self._interrupts:
                self._train_all(run)
                self._save_and_evaluate(run)
        return summaries.results(run, self._rows, self.checkpoints_saved)

    def _train_all(self, run: Run) -> None:
        try:
            self.train_stages()
            while run.next_round < run.config.rounds and not self._stopping:
                self.train_round()
            self._settle()
        except KeyboardInterrupt:
            if len(self._interrupts.received) != 1:
                raise
        finally:
            self._end_rounds()

    def _save_and_evaluate(self, run: Run) -> None:
        completed = run.completed
        # Models are saved before more episodes are played, which may fail.
        if completed:
            self.save_models()
        try:
            if completed:
                grow_pools(run, run.next_round)  # The final checkpoint contains the snapshots.
        finally:
            if run.position > self._saved:
                self.save_checkpoint(final=completed)
        self._recorder.summary(run)
        if completed:
            self.evaluate("after")

    def train_stages(self) -> None:
        """Open the run's files, evaluate a new run, and train the remaining stages (`sft`, `dpo`).

        Due checkpoints are saved. Each stage ends with an evaluation, unless it ends the run.

        Raises:
            TrainingError, ConfigError, DataError, RolloutError, EpisodeTimeout: As `fit`.
        """
        run = self.run
        self._begin()
        for name in run.stages.left(run.config):
            if self._stopping:
                return
            self._train_stage(run, name)

    def _train_stage(self, run: Run, name: str) -> None:
        open_stage = resolve_name(run.config.stages[name].RUNNER)
        began = time.perf_counter()
        with self._recorder.stage(run) as write, open_stage(run, name, self.files.data) as stage:
            while not stage.finished and not self._stopping:
                write(stage.train_pass())
                run.seconds += time.perf_counter() - began
                began = time.perf_counter()
                if self._is_due(run.stages.passes) and not stage.finished:
                    self.save_checkpoint()
        if not stage.finished:
            return
        for model, learner in run.learners.items():
            if run.config.algorithm_of(model).reference != "base":
                learner.set_reference(learner.weights())
        try:
            self._evaluate_stage(run, name)
        finally:  # Save the weights even if the episodes of the evaluation fail.
            if run.config.checkpoints.every:
                self.save_checkpoint()

    def _evaluate_stage(self, run: Run, name: str) -> None:
        last = not run.config.rounds and name == list(run.config.stages)[-1]
        if not last and f"after_{name}" not in run.evaluations:
            self.evaluate(f"after_{name}")

    def train_round(self) -> RoundResult:
        """Run remaining stages and the next round; save a checkpoint if due and rounds are left.

        Raises:
            TrainingError: If no round is left or training was stopped, or as `fit`.
            ConfigError, DataError, RolloutError, EpisodeTimeout: As `fit`.
        """
        run = self.run
        number = run.next_round
        if number >= run.config.rounds:
            raise TrainingError("no round is left")
        if not self._recorder.is_open or run.stages.left(run.config):
            self.train_stages()
            if run.stages.left(run.config):
                raise TrainingError("training was stopped before its first round")
        began = time.perf_counter()
        if self._rounds is None:
            self._settle()
            self._rounds = build_schedule(run, self._saves_after, self._playing)
        result = self._rounds.next_round()
        run.seconds += time.perf_counter() - began
        self._account(run, result)
        if self._is_due(number + 1):
            self._settle()
            if run.next_round < run.config.rounds:
                self.save_checkpoint()
        return result

    @contextmanager
    def _playing(self) -> Iterator[None]:
        """Context for the episodes of a round, which may be interrupted.

        If `fit` ends here with an error, the complete rounds are saved. Several torchrun processes
        save nothing: they would wait for each other.
        """
        try:
            with self._interrupts.at_once():
                yield
        except Exception as error:
            if self.is_training and processes.count() == 1 and self.run.position > self._saved:
                # Logged first, because saving may fail, too.
                log.warning("saving the complete rounds after %s: %s", type(error).__name__, error)
                self.save_checkpoint()
            raise

    def _saves_after(self, number: int) -> bool:
        every, rounds = self.run.config.checkpoints.every, self.run.config.rounds
        return every > 0 and (number + 1) % every == 0 and number + 1 < rounds

    def _is_due(self, done: int) -> bool:
        section = self.run.config.checkpoints
        passed = (time.monotonic() - self._saved_at) / 60
        late = section.every_minutes > 0 and passed >= section.every_minutes
        return (section.every > 0 and done % section.every == 0) or processes.any_of(late)

    def _account(self, run: Run, result: RoundResult) -> None:
        run.next_round += 1
        self._rows.append(result.row)
        self._recorder.round(run, result)

    def _settle(self) -> None:
        if self._models_ahead:
            raise TrainingError(
                f"training ended after updates with samples of rounds after {self.run.next_round}; "
                "build a new Trainer and load the last checkpoint"
            )
        if self._rounds is not None:
            began = time.perf_counter()
            results = self._rounds.settle()
            self.run.seconds += time.perf_counter() - began
            for result in results:
                self._account(self.run, result)

    def save_checkpoint(self, *, final: bool = False) -> str:
        """Save the complete state, delete old checkpoints, and return the new checkpoint's id.

        Args:
            final: If true, the id begins with "final_".

        Raises:
            ConfigError: If the folder contains another run, or is in use.
            TrainingError: If the disk is full, or models have trained on rounds that are lost.
        """
        run = self.run
        self._settle()
        self._claim()
        with self.files.on_full_disk():
            name = resume.save(run, self.files.checkpoints, final=final)
        self._saved, self._saved_at = run.position, time.monotonic()
        if self._writes:
            checkpoint.prune(self.files.checkpoints, run.config.checkpoints.keep)
        processes.wait()
        existing = set(checkpoint.list_checkpoints(self.files.checkpoints))
        saved = [*(c for c in self.checkpoints_saved if c != name), name]
        self.checkpoints_saved = [c for c in saved if c in existing]
        return name

    def resume(self) -> bool:
        """Lock the run's folder, and load its last saved checkpoint.

        Returns:
            True, or False for a run that was stopped before its first checkpoint. Such a run starts
            from the beginning, and its metrics rows are replaced.

        Raises:
            CheckpointError, ConfigError: As `load_checkpoint`.
        """
        with self._locking():
            saved = any(self.files.checkpoints.glob("[!.]*"))
            began = self._run is not None and self._run.position > (0, 0)
            if began or saved or not self.files.config.is_file():
                return self.load_checkpoint()
        self._claimed = True
        return False

    def load_checkpoint(self, checkpoint_id: str | None = None) -> bool:
        """Lock the run's folder, load one of its checkpoints, and return True.

        Args:
            checkpoint_id: Name of the checkpoint's folder, by default the last saved.

        Raises:
            CheckpointNotFound: If there is no such checkpoint.
            CheckpointError: If the checkpoint is damaged, or does not fit the configuration.
            ConfigError: If the folder is in use.
        """
        run = self.run
        with self._locking():
            if checkpoint_id is None:
                found = checkpoint.list_checkpoints(self.files.checkpoints)
                if not found:
                    raise CheckpointNotFound(
                        f"Checkpoint not found in {self.files.checkpoints}; remove "
                        f"{self.files.folder} or choose another folder to start a new run"
                    )
                checkpoint_id = found[0]
            self._end_rounds()
            resume.load(run, self.files.checkpoints, checkpoint_id)
        self._models_ahead = False
        self._saved = run.position
        self._claimed = True
        return True

    def save_models(self) -> Path:
        """Save the current models in RUN/models/NAME, for transformers or PEFT; return RUN/models.

        Raises:
            ConfigError, TrainingError: As `save_checkpoint`.
        """
        self._settle()
        self._claim()
        with self.files.on_full_disk():
            for name, learner in self.run.learners.items():
                learner.save_model(self.files.models / name)
        processes.wait()
        return self.files.models

    def get_training_status(self) -> dict[str, Any]:
        """Return the state of training, which another thread may request while `fit` runs.

        Keys: is_training, current_episode and max_episodes (completed and configured rounds),
        progress (0 to 1), training_time (seconds), model_states, checkpoints_count and config.
        """
        run = self.run
        return {
            "is_training": self.is_training,
            "current_episode": run.next_round,
            "max_episodes": run.config.rounds,
            "progress": run.next_round / run.config.rounds if run.config.rounds else 1.0,
            "training_time": run.seconds,
            "model_states": self.get_model_performance_summary(),
            "checkpoints_count": len(checkpoint.list_checkpoints(self.files.checkpoints)),
            "config": run.config,
        }

    def get_model_performance_summary(self) -> dict[str, dict[str, Any]]:
        """Return the results of each model in training, by model name.

        Keys: kind, model_name (base), seats, avg_reward (raw, per step), cooperation_score,
        update_count, total_episodes (once per agent of the model) and win_rate: the fraction
        of these in which no agent had a higher return, and at least one a lower one.
        Failed episodes and their groups do not count. Means and rates without data are None.
        """
        return summaries.model_states(self.run)

    def evaluate(self, when: str) -> None:
        """Evaluate the models, and store the result as `run.evaluations[when]`.

        Plays logging.evaluation_episodes episodes (0: no evaluation), sends the result to sinks and
        logs new warnings. Writes summary.json if `record_metrics` is true.

        Args:
            when: Key of the result, such as "after".

        Raises:
            RolloutError, EpisodeTimeout: If every episode fails, or any time out.
        """
        run = self.run
        if run.config.logging.evaluation_episodes:
            with self._interrupts.at_once():
                measured, played = evaluate(run, run.config.logging.evaluation_episodes)
            if measured["raw_reward"] is None:
                raise RolloutError(f"all evaluation episodes failed; first: {played[0].failure}")
            run.evaluations[when] = measured
            self._recorder.evaluation(run, when)
            whole = [one for one in played if one.failure is None]
            round_warnings.warn_of_failed_games(run, played)
            round_warnings.warn_of_unreadable_answers(run, whole)
        self._recorder.summary(run)

    async def shutdown(self) -> None:
        """Stop after the current round, save a checkpoint if progress is unsaved, and close.

        No checkpoint is saved if models have trained on rounds that are not recorded.
        """
        self._stop.set()
        while self.is_training:
            await asyncio.sleep(0.01)
        if not self._models_ahead:
            self._settle()
        self._end_rounds()
        if self._run is not None and self._run.position > self._saved and not self._models_ahead:
            self.save_checkpoint()
        self.close()

    def close(self) -> None:
        """Close files, unlock the folder and end model servers, without saving a checkpoint."""
        self._end_rounds()
        self._recorder.close()
        if self._run is not None:
            self._run.players.close()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def _stopping(self) -> bool:
        return processes.any_of(self._stop.is_set())

    def lock(self) -> None:
        """Create and lock the run's folder, in the main process only, until `fit` or `close` ends.

        Raises:
            ConfigError: If another process or Trainer has the lock, or the folder is not writable.
        """
        if self._writes and self._lock is None:
            self._lock = self.files.lock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self.files.remove_if_unused()
            self._lock.release()
            self._lock = None

    @contextmanager
    def _locking(self) -> Iterator[None]:
        with ExitStack() as on_error:
            if self._lock is None:
                on_error.callback(self._unlock)
            self.lock()
            yield
            on_error.pop_all()

    def _claim(self) -> None:
        with self._locking():
            if self._writes and not self._claimed:
                self.files.refuse_to_overwrite()
        self._claimed = True

    def _begin(self) -> None:
        if self._recorder.is_open:
            return
        run = self.run
        for name in run.stages.left(run.config):
            for path in run.config.stages[name].data:
                if not Path(path).is_file():
                    raise ConfigError(f"{name}.data must contain existing files, got {path}")
        self._claim()
        self._saved_at = time.monotonic()
        if not run.completed:
            # After more rounds were configured, the evaluation at the former end is outdated.
            run.evaluations.pop("after", None)
        self._recorder.open(run)
        if run.position == (0, 0):
            self.evaluate("before")
        elif run.next_round == 0 and run.stages.reports and run.stages.saved is None:
            # The evaluation may have failed before the run was resumed.
            self._evaluate_stage(run, run.stages.reports[-1]["stage"])

    def _end_rounds(self) -> None:
        if self._rounds is not None:
            self._rounds.close()
            self._models_ahead = self._models_ahead or self._rounds.ahead
            self._rounds = None
        self._recorder.end_rounds()
