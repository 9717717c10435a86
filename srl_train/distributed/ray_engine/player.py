"""Player worker: environments, policies and the weights that they sample from. No TRL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from srl_agents.episode import Episode, ModelVersion
from srl_agents.llm.backends.chat_backend import Usage
from srl_agents.rollout import PlaySettings, play_many
from srl_train.config.run import RunConfig
from srl_train.loading import build_backends
from srl_train.modes import MODES
from srl_train.plan import PlannedGames
from srl_train.players import build_sampling, matchmaking_of, policies_by_seats
from srl_train.run import ModelText

if TYPE_CHECKING:
    from srl_extensions.vllm.backend import VLLMBackend
    from srl_train.distributed.ray_engine.server_access import ServerAccess


@dataclass(frozen=True)
class Introduction:
    """What a run needs to know of models that others hold."""

    texts: Mapping[str, ModelText]
    """Model, frozen model or pool -> how it reads and writes."""
    adapters: frozenset[str]
    """Those that are adapters of their backend's model."""


class PlayerWorker:
    """Plays games with weights that are published to it."""

    def __init__(
        self,
        config: RunConfig,
        make_env: Callable[[], Any],
        in_flight: int | None = None,
        servers: ServerAccess | None = None,
    ) -> None:
        """Load every model that plays, but for those that `servers` hold; `in_flight` is the most
        games under way at once. Raises as `assemble` does."""
        torch.set_num_threads(config.threads)
        with closing(make_env()) as env:
            matchmaking = matchmaking_of(config, env)
            self._view, teams = env.unwrapped.text_view, getattr(env.unwrapped, "teams", None)
        sampling = build_sampling(config, matchmaking)
        self._make_env = make_env
        served = None if servers is None else servers.attach(config)
        self._players = build_backends(config, make_env, trained_here=False, served=served)
        self._seated = policies_by_seats(config, make_env, self._players, self._view, sampling)
        self._seated(matchmaking.usual)  # what cannot be built is told now
        self._in_flight, self._timeout = in_flight, config.rollout.timeout
        mode = MODES[config.mode.name](config.mode)
        self._speaks_first = mode.speaks_first(matchmaking.agents, teams)

    def introduction(self) -> Introduction:
        """Whom it plays with."""
        return Introduction(self._players.texts, self._players.adapters)

    def publish(self, name: str, version: int | str, weights: Mapping[str, Tensor]) -> None:
        """From now on `name` plays with these weights."""
        self._players.publisher.publish(name, version, weights)

    def serve(self, name: str, version: ModelVersion, served_as: str) -> None:
        """From now on `name` plays with this version, which its servers have under that name."""
        self._asking(name).serve(version.adapter, version, served_as)

    def withdraw(self, name: str) -> None:
        """From now on nobody answers for `name`, until it is served again."""
        self._asking(name).withdraw(name if name in self._players.adapters else None)

    def play(self, games: PlannedGames) -> tuple[list[Episode], dict[str, Usage]]:
        """(the games' episodes; frozen model behind an API -> what this worker has asked it so
        far)."""
        settings: PlaySettings = {
            **games.settings(),
            "speaks_first": self._speaks_first,
            "timeout": self._timeout,
            "in_flight": self._in_flight,
        }
        policies = games.policies(self._seated, self._view)
        episodes = play_many(self._make_env, policies, games.env_seeds, **settings)
        return episodes, {name: one.usage for name, one in self._players.chat_models.items()}

    def _asking(self, name: str) -> VLLMBackend:
        return cast("VLLMBackend", self._players.backends[name])
