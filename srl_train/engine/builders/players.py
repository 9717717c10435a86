"""Builders of those who play, from a run's configuration: backends, sampling and policies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.chat_backend import ChatModel
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.registry import api_model, is_api_name
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import Policy
from srl_agents.rollout.matchmaking import Matchmaking
from srl_train.config.backend import VLLMBackendConfig
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError
from srl_train.players.learning_models import ModelObject, learning_models
from srl_train.players.load import load_backend
from srl_train.players.opponent_pool import OpponentPool
from srl_train.players.player_spec import PlayerSpec
from srl_train.players.publisher import InProcessPublisher, WeightPublisher
from srl_train.players.resolver import Resolver
from srl_train.players.trained_models import Loading, ModelSettings, configured_notes

if TYPE_CHECKING:
    from srl_extensions.vllm.backend import VLLMBackend
    from srl_extensions.vllm.models import ServedModels

SeatedPolicies = Callable[[Mapping[str, str]], Mapping[str, Policy]]
KEPT_SEATINGS = 256


@dataclass(frozen=True)
class ModelText:
    """How conversations become a model's tokens, and how many it takes."""

    name: str
    """As its backend is called."""
    chat: ChatFormat
    positions: int | None
    """The longest context in tokens; None where the model names none."""


@dataclass(frozen=True)
class Players:
    """Everyone with weights who takes part."""

    backends: Mapping[str, HuggingFaceBackend | VLLMBackend]
    """Model, frozen model or pool -> what samples for it."""
    modules: Mapping[str, Any]
    """Model -> the module that its learner trains."""
    pools: Mapping[str, OpponentPool]
    publisher: WeightPublisher
    """Brings models' weights, and pools' snapshots, to what samples for them."""
    adapters: frozenset[str]
    """Those among `backends` that are adapters of their backend's model, by their own name."""
    texts: Mapping[str, ModelText]
    """Everyone with weights -> how it reads and writes."""
    close: Callable[[], None]
    """Ends the servers, or the actors, that were started for this run, if there are any."""
    chat_models: Mapping[str, ChatModel] = field(default_factory=dict)
    """Frozen model -> who is asked for it, for those behind an API."""


def build_backends(
    config: RunConfig,
    make_env: Callable[[], Any],
    server_logs: Path | None = None,
    *,
    trained_here: bool = True,
    served: ServedModels | None = None,
    given: Mapping[str, ModelObject] = MappingProxyType({}),
) -> Players:
    """Load every model once; raises BackendError where one cannot be loaded or asked.

    `server_logs` is where servers that are started write (None: the cache folder). Where models
    are not `trained_here`, publications bring their weights. `served` are models whose servers
    another process manages. `given` are taken instead of loaded.
    """
    models = config.models
    chat_models = {
        n: api_model(base) for n, base in models.frozen_models.items() if is_api_name(base)
    }
    bases = models.bases
    still = {n: base for n, base in models.frozen_models.items() if n not in chat_models}
    publisher: WeightPublisher
    backends: dict[str, HuggingFaceBackend | VLLMBackend]
    trees: Mapping[str, Any]
    with ExitStack() as ends:
        if isinstance(config.backend, VLLMBackendConfig):
            # Only here: it takes the client of servers, which is an extra.
            from srl_extensions.vllm.models import serve_models

            if served is None:
                served = serve_models(config, config.backend, make_env, bases, still, server_logs)
            ends.callback(served.close)
            backends = {**served.backends}
            trees, publisher = served.modules, served.publisher
            still = {name: base for name, base in still.items() if name not in backends}
            adapters = frozenset(backends) if models.adapters is not None else frozenset()
        else:
            bases |= {name: bases[pool.of[0]] for name, pool in config.opponent_pools.items()}
            ahead = config.engine.play_ahead and trained_here
            own, trees, played = learning_models(
                models, bases, make_env, config.seed, play_copies=ahead, given=given
            )
            published = config.opponent_pools if trained_here and not ahead else played
            snapshots = {name: played[name] for name in published}
            for tree in snapshots.values():
                tree.requires_grad_(False)
            adapters = frozenset(own) if models.adapters is not None else frozenset()
            for loaded in own.values():
                loaded.batched = config.backend.batched
                loaded.caches.most_tokens = config.backend.kept_tokens
            publisher, backends = InProcessPublisher(own, snapshots, adapters), {**own}
        notes = configured_notes(models, make_env)
        for name, base in still.items():
            loaded = load_backend(base, make_env, Loading.of(models), name=name, notes=notes)
            loaded.model.requires_grad_(False)
            backends[name] = loaded
        pools = {
            name: OpponentPool(name, own, publisher) for name, own in config.opponent_pools.items()
        }
        modules = {name: trees[name] for name in models.names if name in trees}
        texts = {n: ModelText(one.name, one.chat, one.positions) for n, one in backends.items()}
        close = ends.pop_all().close
    return Players(backends, modules, pools, publisher, adapters, texts, close, chat_models)


def build_sampling(config: RunConfig, matchmaking: Matchmaking) -> dict[str, Sampling]:
    """Agent -> how its answers are sampled; raises ConfigError where a model cannot train so."""
    models, agents = config.models, matchmaking.agents
    for agent in models.agent_sampling:
        if agent not in agents:
            raise ConfigError(
                f"models.agent_sampling names {agent!r}: the agents are {', '.join(agents)}"
            )
    sampling = {agent: models.sampling_of(agent).build() for agent in agents}
    for name in models.names:
        own = {sampling[agent].temperature for agent in matchmaking.agents_of(name)}
        if len(own) > 1 or own == {0.0}:
            raise ConfigError(
                f"{name} samples at temperatures {sorted(own)}: a model that trains needs one "
                "temperature above 0 for all its agents"
            )
    return sampling


def policies_by_seats(
    config: RunConfig,
    make_env: Callable[[], Any],
    players: Players,
    view: Any,
    sampling: Mapping[str, Sampling],
) -> SeatedPolicies:
    """Agent -> who plays it, to agent -> policy; the policies of a seating are built once, one
    object per backend, so that its agents are answered in one batch."""

    notes = configured_notes(config.models, make_env)
    settings = dataclasses.replace(ModelSettings.of(config.models), per_agent=sampling)

    @lru_cache(maxsize=KEPT_SEATINGS)
    def build(pairs: tuple[tuple[str, str], ...]) -> dict[str, Policy]:
        seats = dict(pairs)
        adapters = {agent: who for agent, who in seats.items() if who in players.adapters}
        writers = {
            id(backend): TextPolicy(
                backend,
                view,
                per_agent=sampling,
                adapter={s: w for s, w in adapters.items() if players.backends.get(w) is backend}
                or None,
                constrained=config.models.constrained,
                notes=notes,
            )
            for backend in players.backends.values()
        }
        others = {
            agent: PlayerSpec(who, "api", {who: config.models.frozen_models[who]})
            if who in players.chat_models
            else PlayerSpec(who, "scripted")
            for agent, who in seats.items()
            if who not in players.backends
        }
        try:
            resolver = Resolver(settings, chat_models=dict(players.chat_models))
            built = resolver.by_agent(others, make_env)
        except PolicyError as error:
            raise ConfigError(f"seats: {error}") from error
        return {
            agent: built[agent] if agent in built else writers[id(players.backends[who])]
            for agent, who in seats.items()
        }

    return lambda seats: build(tuple(seats.items()))
