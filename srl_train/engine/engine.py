"""Engines that carry out a round's heavy work: in this process, or in all that torchrun started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from torch import Tensor

from srl_agents.episode import Episode
from srl_agents.llm.backends.chat_backend import Usage
from srl_agents.rollout import PlaySettings, play_many, play_many_async
from srl_train.config.learning.offline import OfflineConfig
from srl_train.data.planned_games import PlannedGames
from srl_train.data.sample_buffer import UpdateBatch
from srl_train.distributed import processes
from srl_train.engine.state import Run
from srl_train.engine.update import UpdateStats, update_models
from srl_train.learners.learner import StageLearner
from srl_train.updates import RoundContext

T = TypeVar("T")


class Engine:
    """The heavy work of rounds, stages and evaluations, done in this process."""

    def rollout(self, run: Run, games: PlannedGames) -> list[Episode]:
        """The games' episodes, played by the run's policies."""
        policies = games.policies(run.policies_of, run.view)
        settings = _settings(run, games, run.config.engine.in_flight)
        return play_many(run.make_env, policies, games.env_seeds, **settings)

    async def rollout_async(
        self, run: Run, games: PlannedGames, in_flight: asyncio.Semaphore | None
    ) -> list[Episode]:
        """What `rollout` gives, to be awaited in an event loop in which other rounds are played at
        the same time; `in_flight` bounds the games of all of them."""
        policies = games.policies(run.policies_of, run.view)
        settings = _settings(run, games, in_flight)
        return await play_many_async(run.make_env, policies, games.env_seeds, **settings)

    def each(self, function: Callable[[str], T], models: Iterable[str]) -> dict[str, T]:
        """Model -> what `function` gives for it: one model after another."""
        return {model: function(model) for model in models}

    def update(
        self,
        run: Run,
        batches: Mapping[str, UpdateBatch],
        context: RoundContext,
        update_index: int,
        stats: Mapping[str, UpdateStats],
    ) -> dict[str, dict[str, Tensor]]:
        """One update of every model in `batches`, counted in `stats`, published where it changed
        weights; returns copies of their weights before it."""
        return update_models(run, batches, context, update_index, stats)

    def stage_learner(
        self, run: Run, model: str, section: OfflineConfig, planned_steps: int
    ) -> StageLearner:
        """What trains the model in a stage, in a `with` block."""
        # Only now: these trainers cost seconds to import.
        from srl_train.engine.builders.stage_learners import build_stage_learner

        module, tokenizer = run.players.modules[model], run.players.backends[model].tokenizer
        return build_stage_learner(
            section, model, module, tokenizer, planned_steps, run.config.seed
        )

    def api_usage(self, run: Run) -> dict[str, Usage]:
        """Frozen model behind an API -> what it has been asked in this run so far."""
        return {name: one.usage for name, one in run.players.chat_models.items()}

    def publish(self, run: Run, model: str) -> None:
        """Bring the model's weights, as they are, to whoever samples from it."""
        weights = run.learners[model].weights()
        run.players.publisher.publish(model, run.versions[model], weights)


class ProcessesEngine(Engine):
    """One of the processes that torchrun started, all of which call the same methods.

    Updates need nothing here: learners average gradients over the processes themselves (DDP, FSDP).
    """

    def rollout(self, run: Run, games: PlannedGames) -> list[Episode]:
        """See Engine; every process gets all episodes.

        Each plays its share and hands it round, except under fsdp, where no process has a whole
        model: there all play everything, in step. Raises TrainingError where they part.
        """
        if run.config.parallel == "fsdp":
            played = super().rollout(run, games)
            processes.check_same("what was played", [_course(episode) for episode in played])
            return played
        own = games.part(processes.share_of(range(len(games))))
        return processes.gather(super().rollout(run, own))


def _settings(
    run: Run, games: PlannedGames, in_flight: int | asyncio.Semaphore | None
) -> PlaySettings:
    return {
        **games.settings(),
        "speaks_first": run.speaks_first,
        "timeout": run.config.rollout.timeout,
        "in_flight": in_flight,
        "spectator": None if run.playing is None else run.playing.spectator(),
    }


def _course(episode: Episode) -> tuple[Any, ...]:
    """What a game must have in common in all processes."""
    answers = [
        (step.agent, step.decision.text, str(step.decision.action), step.reward)
        for turn in episode.turns
        for step in turn
    ]
    return episode.seed, episode.failure, answers
