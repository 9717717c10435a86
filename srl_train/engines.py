"""Engines of a run: they play episodes and call learners, in one or in all torchrun processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from srl_agents.episode import Episode
from srl_agents.policy import Policy
from srl_agents.rollout import PlaySettings, SpeaksFirst, play_many, play_many_async
from srl_envs.text import TextView
from srl_train import processes
from srl_train.opponent_pool import OpponentPool
from srl_train.plan import PlannedGames
from srl_train.publisher import WeightPublisher

T = TypeVar("T")


@dataclass(frozen=True)
class RolloutSettings:
    """Settings that all episodes of a run share: environment, leaders and limits."""

    make_env: Callable[[], Any]
    view: TextView
    speaks_first: SpeaksFirst
    """Leader to the agents that receive its message before they act."""
    timeout: float | None
    """Seconds in which episodes of one call of `Engine.play` must end; None is no limit."""
    in_flight: int | None
    """Maximum number of concurrent episodes; None is no limit."""


@dataclass(frozen=True)
class ModelText:
    """Data of a backend with which conversations are converted to tokens without its model."""

    name: str
    """Name of the backend in records."""
    chat: Any
    """Chat format of the model (srl_agents.llm.chat_format.ChatFormat)."""
    positions: int | None
    """Longest context in tokens, if the model has a limit."""


@dataclass(frozen=True)
class Players:
    """Loaded models of a run: backends, modules in training, opponent pools and publisher."""

    backends: Mapping[str, Any]
    """Name of a model in training, local frozen model or opponent pool -> its sampling backend."""
    modules: Mapping[str, Any]
    """Model -> module that its learner trains, if it trains in this process."""
    pools: Mapping[str, OpponentPool]
    publisher: WeightPublisher
    adapters: frozenset[str]
    """Names in `backends` that sample with the adapter of the same name."""
    texts: Mapping[str, ModelText]
    """Conversion of the conversations of each name in `backends`."""
    close: Callable[[], None]
    """Function that ends the servers or actors of the run."""
    chat_models: Mapping[str, Any] = field(default_factory=dict)
    """Frozen models behind an API, by name."""


class Engine:
    """Engine that plays the episodes of a run and calls its learners, in one process.

    Args:
        settings: Settings of all episodes.
        policies_of: Function that builds agent to policy from agent to player name.
        players: Loaded models of the run.
    """

    def __init__(
        self,
        settings: RolloutSettings,
        policies_of: Callable[[Mapping[str, str]], Mapping[str, Policy]],
        players: Players,
    ) -> None:
        self.settings = settings
        self.policies_of, self._players = policies_of, players

    def play(self, games: PlannedGames) -> list[Episode]:
        """Play the planned episodes; return one record each, also of failed ones, in their order.

        Raises EpisodeTimeout if they take longer than `settings.timeout` and a model plays.
        """
        settings = self._play_settings(games, self.settings.in_flight)
        policies = games.policies(self.policies_of, self.settings.view)
        return play_many(self.settings.make_env, policies, games.env_seeds, **settings)

    async def play_async(
        self, games: PlannedGames, in_flight: asyncio.Semaphore | None
    ) -> list[Episode]:
        """Play the planned episodes as `play`, in the running event loop.

        `in_flight` replaces `settings.in_flight`: it limits the concurrent episodes of all calls
        that share it; None is no limit.
        """
        settings = self._play_settings(games, in_flight)
        policies = games.policies(self.policies_of, self.settings.view)
        return await play_many_async(self.settings.make_env, policies, games.env_seeds, **settings)

    def _play_settings(
        self, games: PlannedGames, in_flight: int | asyncio.Semaphore | None
    ) -> PlaySettings:
        return {
            "policy_seeds": games.policy_seeds,
            "reset_options": games.options,
            "names": games.seatings,
            "extra": games.extra,
            "record_states": games.record_states,
            "speaks_first": self.settings.speaks_first,
            "timeout": self.settings.timeout,
            "in_flight": in_flight,
        }

    def each(self, function: Callable[[str], T], models: Iterable[str]) -> dict[str, T]:
        """Call `function` with each name in `models`, in order; return name to result."""
        return {model: function(model) for model in models}

    def api_usage(self) -> dict[str, Any]:
        """Return name -> Usage (tokens) since loading, for each frozen model behind an API."""
        return {name: one.usage for name, one in self._players.chat_models.items()}


class ProcessesEngine(Engine):
    """Engine of one of several torchrun processes, which must all call the same methods.

    Args:
        arguments: Arguments of `Engine`.
        sharded: If True, models are sharded over the processes (FSDP), and each process plays all
            episodes. Otherwise each process plays a part of them.
    """

    def __init__(self, *arguments: Any, sharded: bool) -> None:
        super().__init__(*arguments)
        self._sharded = sharded

    def play(self, games: PlannedGames) -> list[Episode]:
        """Play the planned episodes in all processes; return all, in order, in each process."""
        if self._sharded:
            return processes.gather(super().play(games))[: len(games)]  # those of the main process
        share = games.part(processes.share_of(range(len(games))))
        return processes.gather(super().play(share))
