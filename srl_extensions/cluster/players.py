"""Player actors: environments, policies and published weights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import torch

from srl_agents.episode import Episode, ModelVersion
from srl_agents.llm.backends.chat_backend import Usage
from srl_train.config.run import RunConfig
from srl_train.engines import Engine, ModelText, RolloutSettings
from srl_train.loading import Samplers, SamplerStart, build_backends
from srl_train.modes import MODES
from srl_train.plan import PlannedGames
from srl_train.players import build_sampling, matchmaking_of, policies_by_seats

Publications = Mapping[str, tuple[int, str, Sequence[Any]]]
"""Latest publication of each model, opponent pool and frozen model: number, method of PlayerWorker
(publish or serve), and its arguments."""


class PlayerWorker:
    """Player of a Ray engine: plays planned episodes with published weights, in its actor.

    The constructor loads all models of the run in the actor, or connects to model servers with
    `attach(config)`. `in_flight` limits the concurrent episodes; None is no limit.
    """

    def __init__(
        self,
        config: RunConfig,
        make_env: Callable[[], Any],
        in_flight: int | None = None,
        attach: Callable[[RunConfig], Samplers] | None = None,
    ) -> None:
        torch.set_num_threads(config.threads)
        with closing(make_env()) as env:
            matchmaking = matchmaking_of(config, env)
            view, teams = env.unwrapped.text_view, getattr(env.unwrapped, "teams", None)
        sampling = build_sampling(config, matchmaking)
        samplers = None if attach is None else attach(config)
        self._players = build_backends(config, SamplerStart(make_env, learns_here=False), samplers)
        policies_of = policies_by_seats(config, make_env, self._players, view, sampling)
        policies_of(matchmaking.usual)  # Raises now for a policy that cannot be built.
        speaks_first = MODES[config.mode.name](config.mode).speaks_first(matchmaking.agents, teams)
        settings = RolloutSettings(make_env, view, speaks_first, config.rollout.timeout, in_flight)
        self._engine = Engine(settings, policies_of, self._players)
        self._loaded: dict[str, int] = {}

    def models(self) -> tuple[Mapping[str, ModelText], frozenset[str]]:
        """Return name -> ModelText of models, frozen models and pools, and names of adapters."""
        return self._players.texts, self._players.adapters

    def play(
        self, games: PlannedGames, publications: Publications
    ) -> tuple[list[Episode], dict[str, Usage]]:
        """Apply publications that are new here, then play the planned episodes.

        Returns:
            All episodes in order, also failed ones, and name -> usage of each frozen model behind
            an API in these episodes.
        """
        for name, (number, method, arguments) in publications.items():
            if self._loaded.get(name) != number:
                getattr(self, f"_{method}")(name, *arguments)
                self._loaded[name] = number
        episodes = self._engine.play(games)
        usage = {}
        for name, model in self._players.chat_models.items():
            usage[name], model.usage = model.usage, Usage()
        return episodes, usage

    def _publish(self, name: str, version: int | str, weights: Any) -> None:
        self._players.publisher.publish(name, version, fetched(weights))

    def _serve(self, name: str, version: ModelVersion, served_as: str) -> None:
        backend: Any = self._players.backends[name]
        backend.serve(version.adapter, version, served_as)


def fetched(value: Any) -> Any:
    """Return the value of a Ray reference, and any other value unchanged."""
    ray = sys.modules.get("ray")  # Without Ray, which is an extra, there are no references.
    return ray.get(value) if ray is not None and isinstance(value, ray.ObjectRef) else value
