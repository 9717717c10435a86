"""A stage before the rounds: SFT or DPO on episodes that are read from files or played now.

Each pass over the data is one update of every model, so that all update strategies apply.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from srl_agents.episode import Episode, write_jsonl
from srl_agents.seeding import STAGE_UPDATES
from srl_extensions.offline.collect import play_games, scripted_player, starts_of
from srl_extensions.offline.config import DpoConfig, SftConfig
from srl_extensions.offline.data import (
    References,
    begins_with_episode,
    best_of,
    demonstration,
    parts_of,
    preferences,
    read_episodes,
    read_preferences,
)
from srl_train import processes
from srl_train.config.stages import STAGES
from srl_train.errors import CheckpointError, DataError
from srl_train.plan import PlannedGames
from srl_train.round import update_models
from srl_train.run import Run, UpdateStats
from srl_train.samples import UpdateBatch
from srl_train.updates import RoundContext


class Stage:
    """Running stage `name` ("sft" or "dpo") of a run, for use in a `with` block.

    The constructor reads the data, or plays episodes and writes them to `folder`/NAME.jsonl. A
    resumed stage continues from `run.stages.saved`, and rereads the data or that file. Until
    the block ends, `run.stages.open` is the stage. The end restores the models' forward
    methods. It appends the report to `run.stages.reports`, or sets `run.stages.saved` if passes
    are left.

    Raises DataError for samples, ConfigError for players and learners, TrainingError for failed
    episodes and CheckpointError for a saved state that are not usable.
    """

    def __init__(self, run: Run, name: str, folder: Path) -> None:
        self.name = name
        self.passes = 0
        self._run, self._index = run, STAGES.index(name)
        self._config: Any = run.config.stages[name]
        self._losses: dict[str, list[float]] = {model: [] for model in run.learners}
        saved = run.stages.saved
        self._pairs: list[Any] = []
        self._episodes = self._read(folder, resumed=saved is not None)
        samples = {model: self._samples_of(model) for model in run.learners}
        if not self._pairs and not any(samples.values()):
            raise DataError(
                f"{name}: no part of {len(self._episodes)} episodes is left to learn from; change "
                f"{name}.data, {name}.seats or the filters"
            )
        with ExitStack() as self._exits:
            self._learners = self._built(max(map(len, samples.values())) + len(self._pairs))
            if self._pairs:
                for model, learner in self._learners.items():
                    samples[model] += learner.tokenised(self._pairs)
            for model, own in samples.items():
                text = run.players.texts[model]
                tokens = max((sample.longest for sample in own), default=0)
                if text.positions is not None and tokens > text.positions:
                    raise DataError(
                        f"{name}: a conversation of {tokens} tokens to learn from exceeds the "
                        f"{text.positions} positions of {text.name} ({model}): use games of fewer "
                        "turns (environment.options.max_cycles), shorter texts, or another model"
                    )
            self._references: dict[str, References | None] = dict.fromkeys(samples)
            if isinstance(self._config, DpoConfig) and saved is None:
                self._references = {
                    model: learner.reference_logprobs(samples[model])
                    for model, learner in self._learners.items()
                }
            strategy_state = run.strategy.init(list(run.learners))
            if saved is not None:
                strategy_state = saved["strategy"]
                self._restore(saved)
            for model, references in self._references.items():
                if references is not None:
                    samples[model] = [
                        dataclasses.replace(pair, reference=tuple(map(float, two)))
                        for pair, two in zip(samples[model], references, strict=True)
                    ]
            self._samples = samples
            self._stepped = dataclasses.replace(
                run, learners=self._learners, strategy_state=strategy_state
            )
            self._exits = self._exits.pop_all()
        run.stages.open, run.stages.saved = self, None

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *reason: object) -> None:
        stages = self._run.stages
        if self.finished:
            stages.reports.append(self.report())
        else:
            stages.saved = self.state()
        stages.open = None
        self._exits.close()

    @property
    def finished(self) -> bool:
        """True if all passes are done."""
        return bool(self.passes >= self._config.epochs)

    def train_pass(self) -> dict[str, Any]:
        """Train the models on their data for one pass, and return a row for stages.jsonl.

        The update strategy may skip models, or change some without data. Changed weights are
        published. Raises TrainingError if a loss or weights are not finite.
        """
        began = time.perf_counter()
        updates = {model: UpdateStats() for model in self._learners}
        batches = {model: UpdateBatch(tuple(own), (), ()) for model, own in self._samples.items()}
        closing = self.passes + 1 == self._config.epochs
        # Nothing is played, so all scores are equal.
        context = RoundContext(self.passes, 0, dict.fromkeys(batches, 0.0), closing=closing)
        number = self._run.stages.passes
        update_models(self._stepped, batches, context, STAGE_UPDATES + self._index, updates)
        self.passes += 1
        for model, update in updates.items():
            if "loss" in update.metrics:  # missing for a model without data
                self._losses[model].append(update.metrics["loss"])
        return {
            "round": number,
            "stage": self.name,
            "pass": self.passes - 1,
            "seconds": time.perf_counter() - began,
            "models": {
                model: {
                    "samples": update.samples,
                    "updated": update.updates > 0,
                    "updates": self._run.versions[model],
                    "tokens": sum(sample.tokens for sample in self._samples[model]),
                    "losses": self._learners[model].losses,
                    **update.metrics,
                }
                for model, update in updates.items()
            },
        }

    def report(self) -> dict[str, Any]:
        """Return the stage's entry of summary.json: passes, episodes, models' samples and losses.

        Losses are of the first and last pass; None without passes or data. "games_reward" is the
        mean raw reward per step of an agent; None without episodes.
        """
        parts = parts_of(self._episodes)
        steps = [step for i, agent in parts for step in self._episodes[i].steps_of(agent)]
        return {
            "stage": self.name,
            "passes": self.passes,
            "games": len(self._episodes),
            "games_reward": sum(s.reward for s in steps) / len(steps) if steps else None,
            "models": {
                model: {
                    "samples": len(own),
                    "first_loss": self._losses[model][0] if self._losses[model] else None,
                    "last_loss": self._losses[model][-1] if self._losses[model] else None,
                }
                for model, own in self._samples.items()
            },
        }

    def state(self) -> dict[str, Any]:
        """Return passes, losses, strategy and learner states (no weights), for a checkpoint."""
        return {
            "passes": self.passes,
            "losses": self._losses,
            "strategy": self._stepped.strategy_state,
            "learners": {
                model: {**learner.state(), "prepared": self._references[model]}
                for model, learner in self._learners.items()
            },
        }

    def _restore(self, saved: Mapping[str, Any]) -> None:
        self.passes = saved["passes"]
        self._losses = {model: list(losses) for model, losses in saved["losses"].items()}
        for model, learner in self._learners.items():
            own = saved["learners"][model]
            try:
                learner.refuse_state(own)
            except ValueError as error:
                raise CheckpointError(
                    f"the checkpoint's state of {self.name}: learners.{model}.{error}: load an "
                    "earlier checkpoint"
                ) from error
            learner.load_state(own)
            self._references[model] = own["prepared"]

    def _read(self, folder: Path, *, resumed: bool) -> list[Episode]:
        with closing(self._run.make_env()) as env:
            expected = env.metadata["name"], list(self._run.seats)
        played = folder / f"{self.name}.jsonl"
        if not self._config.data and not resumed:
            episodes = [one for one in self._play() if one.failure is None and one.turns]
            if processes.is_main():
                write_jsonl(played, episodes)
            return episodes
        episodes = []
        for path in self._config.data or (played,):
            if isinstance(self._config, DpoConfig) and not begins_with_episode(path):
                self._pairs += read_preferences(path)
            else:
                episodes += read_episodes(path, *expected)
        return episodes

    def _play(self) -> list[Episode]:
        run, who = self._run, self._config.data_policy
        # Episodes of one start are compared, except by SFT without a ranking.
        compares = not isinstance(self._config, SftConfig) or self._config.top_fraction < 1
        size = run.config.rollout.group_size if compares else 1
        which = {"stage": self._index, "group_size": size}
        games, seed = self._config.episodes, run.config.seed
        if who == "models":
            groups = run.matchmaking.evaluated(-(-games // size))
            seatings = [seats for seats in groups for _ in range(size)][:games]
            planned = PlannedGames(*starts_of(games, seed, **which), seatings, in_words=True)
            played = run.engine.play(planned)
        else:  # every process plays all episodes
            with closing(run.make_env()) as env:
                policies = dict.fromkeys(run.seats, scripted_player(who, env))
            played = play_games(
                run.make_env, policies, games, seed, speaks_first=run.speaks_first, **which
            )
        run.check_failures(played)
        return played

    def _parts_of(self, model: str) -> list[tuple[int, str]]:
        agents = self._run.agents_of(model) if self._config.seats == "own" else None
        parts = parts_of(self._episodes, agents)
        if not isinstance(self._config, SftConfig):
            return parts
        return best_of(
            parts,
            self._episodes,
            lambda one: {agent: sum(own.shaped) for agent, own in self._run.game(one).items()},
            min_return=self._config.min_return,
            top_fraction=self._config.top_fraction,
        )

    def _samples_of(self, model: str) -> list[Any]:
        run, config, parts = self._run, self._config, self._parts_of(model)
        view, chat = run.view, run.players.texts[model].chat
        if isinstance(config, DpoConfig):
            gap = config.min_return_gap
            return preferences(parts, self._episodes, view, chat, run.game, min_return_gap=gap)
        drop = config.drop_parse_failures
        answer, observation = config.answer_weight, config.observation_weight
        found = []
        for index, agent in parts:
            one = demonstration(self._episodes[index], agent, view, chat, drop_parse_failures=drop)
            # The first token of a conversation is never predicted.
            if answer * sum(one.answers[1:]) + observation * sum(one.observations[1:]):
                found.append(one)
        return found

    def _built(self, samples: int) -> dict[str, Any]:
        run, config = self._run, self._config
        make, players = resolve_name(config.LEARNER), run.players
        steps = config.epochs * -(-samples // config.batch_size)
        shared = {"planned_steps": steps, "seed": run.config.seed}
        learners = {}
        for model in run.learners:
            tokenizer = players.backends[model].tokenizer
            learner = make(model, players.modules[model], tokenizer, config, **shared)
            learners[model] = self._exits.enter_context(learner)
        return learners
