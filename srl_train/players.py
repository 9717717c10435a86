"""Policies of players by name, and checks of the players of a training run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.chat_backend import ChatModel
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.matchmaking import Matchmaking
from srl_agents.policy import Policy
from srl_agents.scripted.registry import classic_policy, is_held_out, is_scripted, names
from srl_train.errors import ConfigError
from srl_train.player_names import TINY, ModelSettings, PlayerSpec, settings_of_run

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig
    from srl_train.engines import Players
    from srl_train.loading import LoadedModel

DEFAULT_SAMPLING = Sampling(max_new_tokens=32)
"""Sampling of models without a run."""
API_SAMPLING = Sampling(max_new_tokens=2048)
"""Sampling of models behind an API, whose hidden reasoning counts as new tokens."""
SeatedPolicies = Callable[[Mapping[str, str]], Mapping[str, Policy]]
"""Function from agent -> player name to agent -> policy."""


# From names to policies


@dataclass
class Resolver:
    """Builder of policies from PlayerSpecs; each model is loaded once, except 'tiny'."""

    settings: ModelSettings | None = None
    """Settings of models without a run; by default DEFAULT_SAMPLING, or API_SAMPLING for APIs."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `ModelSettings.overridden`, for all models."""
    trusted: bool = False
    """Permission to import code that the configuration of a run or checkpoint names."""
    full_names: bool = False
    """True to name policies of models by their sources, False by their names in the run."""
    scripted: Callable[[str, Any], Policy] = classic_policy
    """(name, environment) -> scripted policy."""
    chat_models: dict[str, ChatModel] = field(default_factory=dict)
    """Name of an API player -> its opened model. `policies` adds missing entries."""
    _loaded: dict[tuple[Path | None, str], LoadedModel] = field(default_factory=dict)

    def policies(
        self, player: PlayerSpec, make_env: Callable[[], Any], agents: Iterable[str] | None = None
    ) -> list[Policy]:
        """Return a player's policies: one, or one per model of a run, in the order of its sources.

        Models are loaded at their first use, 'tiny' at every call. `agents` limits an API
        model's settings to these agents. Raises PolicyError, BackendError or ConfigError if a
        player cannot play, and the errors of `load_all` and `settings_of`.
        """
        with closing(make_env()) as env:
            if player.kind == "scripted":
                return [self.scripted(player.name, env)]
            view = env.unwrapped.text_view
        settings = self.settings_of(player)
        if player.kind == "api":
            if player.name not in self.chat_models:
                [source] = player.sources.values()
                self.chat_models[player.name] = api_model(source)
            model = self.chat_models[player.name]
            shared: Sampling | None = settings.sampling
            per_agent = settings.per_agent
            if agents is not None:  # This model may not support the settings of other agents.
                per_agent = {a: settings.per_agent.get(a, settings.sampling) for a in agents}
                shared = None
            context = settings.context
            try:
                return [
                    ChatPolicy(model, view, sampling=shared, per_agent=per_agent, context=context)
                ]
            except PolicyError as error:
                raise ConfigError(f"{error} (models.agent_sampling, or --temperature)") from error
        from srl_agents.llm.text_policy import TextPolicy

        # The embedded model is built for one environment, so another one needs a new model.
        missing = {
            name: source
            for name, source in player.sources.items()
            if source == TINY or (player.run, source) not in self._loaded
        }
        if missing:
            from srl_train.loading import load_all  # imports torch

            loaded = load_all(missing, make_env, settings.loading, trusted=self.trusted)
            self._loaded |= {(player.run, missing[one.name]): one for one in loaded}
        models = [self._loaded[player.run, source] for source in player.sources.values()]
        return [
            TextPolicy(
                one.backend,
                view,
                sampling=settings.sampling,
                per_agent=settings.per_agent,
                adapter=one.adapter,
                constrained=settings.constrained,
                context=settings.context,
                name=player.sources[one.name] if self.full_names else one.name,
            )
            for one in models
        ]

    def by_agent(
        self, players: Mapping[str, PlayerSpec], make_env: Callable[[], Any]
    ) -> dict[str, Policy]:
        """Return agent -> policy for `players` (agent -> player), in the same order.

        Agents with the same player share its policy. If the player is a run with several models,
        these agents receive the models in turn. Raises the errors of the method `policies`.
        """
        agents_of: dict[str, list[str]] = {}
        for agent, player in players.items():
            agents_of.setdefault(player.name, []).append(agent)
        built: dict[str, Policy] = {}
        for agents in agents_of.values():
            found = self.policies(players[agents[0]], make_env, agents)
            built |= zip(agents, cycle(found), strict=False)
        return {agent: built[agent] for agent in players}

    def settings_of(self, player: PlayerSpec) -> ModelSettings:
        """Return the settings of a player's models: those of its run or `settings`, then overrides.

        Raises ConfigError for an override that is out of range, and for an API model if answers are
        constrained. Raises the errors of `settings_of_run` for a run.
        """
        sampling = API_SAMPLING if player.kind == "api" else DEFAULT_SAMPLING
        given = self.settings or ModelSettings(sampling)
        if player.run is not None:
            given = settings_of_run(player.run, trusted=self.trusted)
        settings = given.overridden(**self.overrides)
        if player.kind == "api" and settings.constrained:
            raise ConfigError(
                f"models.constrained (--constrained) must be off: the answers of {player.name} "
                "cannot be restricted over its API"
            )
        return settings

    def record(self, player: PlayerSpec) -> dict[str, Any]:
        """Return a player's "kind" and, for models, their sources and settings as plain data.

        An API model has only "kind", "sampling" and "usage" (tokens); call `policies` first.
        """
        if not player.sources:
            return {"kind": player.kind}
        settings = self.settings_of(player)
        if player.kind == "api":
            usage = asdict(self.chat_models[player.name].usage)
            return {"kind": "api", "sampling": asdict(settings.sampling), "usage": usage}
        return {
            "kind": player.kind,
            "models": dict(player.sources),
            "sampling": asdict(settings.sampling),
            "agent_sampling": {
                agent: asdict(sampling) for agent, sampling in settings.per_agent.items()
            },
            "constrained": settings.constrained,
            "dtype": settings.loading.dtype,
            "quantization": settings.loading.quantization,
        }


# Players of a training run


def matchmaking_of(config: RunConfig, env: Any) -> Matchmaking:
    """Build the assignment of a run's players to the agents of the environment `env`.

    Raises ConfigError for an unknown agent or player, a policy reserved for evaluation, or a model
    without an agent.
    """
    known = (*config.models.names, *config.models.frozen_models, *config.opponent_pools)
    refuse_partners(config.seats, known, env)
    agents, names, rule = env.possible_agents, config.models.names, config.matchmaking.name
    try:
        return Matchmaking(agents, names, config.seats, rule, seed=config.seed)
    except ValueError as error:
        raise ConfigError(f"seats: {error}") from error


def refuse_partners(seats: Mapping[str, str], models: tuple[str, ...], env: Any) -> None:
    """Raise ConfigError for an unknown player, or a scripted policy reserved for evaluation.

    `seats` is agent -> player; `models` are the names of models, frozen models and opponent pools.
    Any 'module:Class' is accepted. The error lists the scripted policies that can play `env`.
    """
    offered = ", ".join([*sorted({*models, *names(env, holdout=False)}), "MODULE:CLASS"])
    for agent, player in seats.items():
        if player not in models and not is_scripted(player):
            raise ConfigError(f"seats.{agent} must be one of {offered}, got {player!r}")
        if player not in models and is_held_out(player):
            raise ConfigError(
                f"seats.{agent} must not be reserved for evaluation, got {player!r}; allowed: "
                f"{offered}"
            )


def build_sampling(config: RunConfig, matchmaking: Matchmaking) -> dict[str, Sampling]:
    """Return agent -> sampling arguments, for all agents of a run.

    Raises ConfigError if `models.agent_sampling` names an unknown agent, or if a model in training
    has several temperatures or temperature 0.
    """
    models, agents = config.models, matchmaking.agents
    for agent in models.agent_sampling:
        if agent not in agents:
            raise ConfigError(
                f"models.agent_sampling must name agents ({', '.join(agents)}), got {agent!r}"
            )
    sampling = {agent: models.per_agent.get(agent, models.sampling.build()) for agent in agents}
    for name in models.names:
        temperatures = {sampling[agent].temperature for agent in matchmaking.agents_of(name)}
        if len(temperatures) > 1 or temperatures == {0.0}:
            raise ConfigError(
                f"models.agent_sampling: {name} must have one temperature above 0 for all its "
                f"agents, got {sorted(temperatures)}"
            )
    return sampling


def policies_by_seats(
    config: RunConfig,
    make_env: Callable[[], Any],
    players: Players,
    view: Any,
    sampling: Mapping[str, Sampling],
) -> SeatedPolicies:
    """Return a function that builds agent -> policy from agent -> player name, with a cache.

    Agents whose models have the same backend share a policy object, which samples their answers in
    one batch. The function raises ConfigError for a policy that cannot play.
    """
    from srl_agents.llm.text_policy import TextPolicy

    settings = replace(ModelSettings.of(config.models), per_agent=sampling)

    @lru_cache(maxsize=256)
    def build(pairs: tuple[tuple[str, str], ...]) -> dict[str, Policy]:
        seats, backends = dict(pairs), players.backends
        adapters = {agent: player for agent, player in pairs if player in players.adapters}
        text_policies = {
            id(backend): TextPolicy(
                backend,
                view,
                per_agent=sampling,
                adapter={a: n for a, n in adapters.items() if backends[n] is backend} or None,
                constrained=config.models.constrained,
                context=settings.context,
            )
            for backend in backends.values()
        }
        others = {}
        for agent, player in pairs:
            if player not in backends:
                over_api = player in players.chat_models
                others[agent] = PlayerSpec(player, "api" if over_api else "scripted")
        resolver = Resolver(settings, chat_models=dict(players.chat_models))
        try:
            built = resolver.by_agent(others, make_env)
        except PolicyError as error:
            raise ConfigError(f"seats: {error}") from error
        return {
            agent: built[agent] if agent in built else text_policies[id(backends[player])]
            for agent, player in seats.items()
        }

    return lambda seats: build(tuple(seats.items()))
