"""Resolver from player specs to policies, for training, evaluation, play and collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.errors import PolicyError
from srl_agents.llm.backends.chat_backend import ChatModel
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import Policy
from srl_agents.rollout.mixture import Mixture
from srl_agents.scripted.registry import classic_policy
from srl_envs.text import TextView
from srl_train.checkpoints.manifest import is_checkpoint
from srl_train.errors import ConfigError
from srl_train.players.api_models import refuse_constrained
from srl_train.players.player_spec import TINY, PlayerSpec
from srl_train.players.trained_models import ModelSettings, notes_of, settings_of_run

if TYPE_CHECKING:
    from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
    from srl_agents.llm.text_policy import TextPolicy
    from srl_train.players.opponent_pool import OpponentPool

USUAL = Sampling(max_new_tokens=32)  # of models that no run says anything of
USUAL_OF_APIS = Sampling(max_new_tokens=2048)  # where reasoning that is not shown counts as well


@dataclass(frozen=True)
class SamplingOverrides:
    """What is asked of models' answers; None leaves it as they trained, or as is usual."""

    temperature: float | None = None
    max_new_tokens: int | None = None
    constrained: bool | None = None

    def on(self, given: ModelSettings) -> ModelSettings:
        """`given`, with what is set here for all agents. Raises ConfigError out of range."""
        own = {
            name: value
            for name in ("temperature", "max_new_tokens")
            if (value := getattr(self, name)) is not None
        }
        try:
            return replace(
                given,
                sampling=replace(given.sampling, **own),
                per_agent={agent: replace(one, **own) for agent, one in given.per_agent.items()},
                constrained=given.constrained if self.constrained is None else self.constrained,
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error


@dataclass
class Resolver:
    """Policies for players. A model is loaded, or asked, by one object however often it plays."""

    settings: ModelSettings | None = None
    """How models answer that no run trained; None: as is usual."""
    overrides: SamplingOverrides = field(default_factory=SamplingOverrides)
    device: str = "auto"
    trusted: bool = False
    """Whether the code that a checkpoint's configuration names (the environment that 'tiny' was
    built for) is imported where a model needs it."""
    full_names: bool = False
    """Policies are called by what was loaded, not by the model's name in its run."""
    scripted: Callable[[str, Any], Policy] = classic_policy
    """(name, environment) -> the scripted policy."""
    chat_models: dict[str, ChatModel] = field(default_factory=dict)
    """Player -> the model behind an API that was asked for it."""
    _loaded: dict[str, list[tuple[str, HuggingFaceBackend, str | None]]] = field(
        default_factory=dict
    )
    _pools: dict[str, tuple[OpponentPool, dict[str, tuple[HuggingFaceBackend, str | None]]]] = (
        field(default_factory=dict)
    )

    def policies(
        self, player: PlayerSpec, make_env: Callable[[], Any], agents: Iterable[str] | None = None
    ) -> list[Policy]:
        """The player's policies for `agents` (all) of the environment: one, or one per model where
        it stands for several.

        Raises PolicyError for a scripted policy that cannot play the game and for a 'module:Class'
        that is no policy, BackendError for a model
        that cannot be loaded or asked, and ConfigError for one that cannot play this game.
        """
        with closing(make_env()) as env:
            if player.kind == "scripted":
                return [self.scripted(player.name, env)]
            settings = self.settings_of(player)
            view, notes = env.unwrapped.text_view, notes_of(settings.notes, env, player.run)
        if player.kind == "api":
            return [self._asked(player, settings, view, notes, agents)]
        from srl_agents.llm.text_policy import TextPolicy  # only here: it takes torch

        def writer(
            name: str, backend: HuggingFaceBackend, adapter: str | None, own: ModelSettings
        ) -> TextPolicy:
            return TextPolicy(
                backend,
                view,
                sampling=own.sampling,
                per_agent=own.per_agent,
                adapter=adapter,
                constrained=own.constrained,
                notes=notes,
                name=name,
            )

        called = player.sources if self.full_names else {name: name for name in player.sources}
        if player.kind == "pool":
            pool, versions = self._versions(player, settings)
            [name] = called.values()
            drawn = {one: writer(one, *version, settings) for one, version in versions.items()}
            return [Mixture(name, drawn, pool.chances())]
        return [
            writer(called[name], backend, adapter, settings.as_trained(player.run, name))
            for name, backend, adapter in self._backends(player, settings, make_env, notes)
        ]

    def by_agent(
        self, players: Mapping[str, PlayerSpec], make_env: Callable[[], Any]
    ) -> dict[str, Policy]:
        """Agent -> policy. Agents of one player share it; several models of a run are dealt to
        theirs in turn. Raises as `policies`."""
        agents_of: dict[str, list[str]] = {}
        for agent, player in players.items():
            agents_of.setdefault(player.name, []).append(agent)
        built: dict[str, Policy] = {}
        for agents in agents_of.values():
            found = self.policies(players[agents[0]], make_env, agents)
            built |= zip(agents, cycle(found), strict=False)
        return {agent: built[agent] for agent in players}

    def settings_of(self, player: PlayerSpec) -> ModelSettings:
        """How its models are loaded and answer; raises ConfigError for what cannot be."""
        if player.run is not None:
            given = settings_of_run(player.run).on_device(self.device)
        elif self.settings is not None:
            given = self.settings
        else:
            sampling = USUAL_OF_APIS if player.kind == "api" else USUAL
            given = ModelSettings(sampling).on_device(self.device)
        settings = self.overrides.on(given)
        if player.kind == "api" and settings.constrained:
            asked_by = "--constrained" if self.overrides.constrained else "models.constrained"
            refuse_constrained(player.name, asked_by)
        return settings

    def record(self, player: PlayerSpec) -> dict[str, Any]:
        """Who it is and how it answers, as plain data; of an API, what was asked of it so far."""
        if not player.sources:
            return {"kind": player.kind}
        settings = self.settings_of(player)
        if player.kind == "api":
            usage = asdict(self.chat_models[player.name].usage)
            return {"kind": "api", "sampling": asdict(settings.sampling), "usage": usage}
        drawn = {}
        if player.kind == "pool":
            pool, versions = self._versions(player, settings)
            drawn = {"chances": dict(zip(versions, pool.chances(), strict=True))}
        return {
            "kind": player.kind,
            "models": dict(player.sources),
            **drawn,
            "sampling": asdict(settings.sampling),
            "agent_sampling": {agent: asdict(own) for agent, own in settings.per_agent.items()},
            "constrained": settings.constrained,
            "opponent_notes": settings.notes,
            "dtype": settings.loading.dtype,
            "quantization": settings.loading.quantization,
        }

    def _asked(
        self,
        player: PlayerSpec,
        settings: ModelSettings,
        view: TextView,
        notes: PartnerNotes | None,
        agents: Iterable[str] | None,
    ) -> Policy:
        if player.name not in self.chat_models:
            [source] = player.sources.values()
            self.chat_models[player.name] = api_model(source)
        asked = self.chat_models[player.name]
        sampling, per_agent = settings.sampling, settings.per_agent
        try:
            if agents is None:
                return ChatPolicy(asked, view, sampling=sampling, per_agent=per_agent, notes=notes)
            # What is set for others is nothing to it.
            own = {agent: per_agent.get(agent, sampling) for agent in agents}
            return ChatPolicy(asked, view, per_agent=own, notes=notes)
        except PolicyError as error:
            raise ConfigError(f"{error} (models.agent_sampling, or --temperature)") from error

    def _versions(
        self, player: PlayerSpec, settings: ModelSettings
    ) -> tuple[OpponentPool, dict[str, tuple[HuggingFaceBackend, str | None]]]:
        # Only here: they take torch.
        from srl_train.checkpoints.checkpoint import warn_of_those_not_whole
        from srl_train.players.checkpoint_models import checkpoint_pool

        if player.name not in self._pools:
            [name], place = player.sources, player.run
            assert place is not None
            if not is_checkpoint(Path(player.name.removesuffix(f":{name}")).expanduser()):
                warn_of_those_not_whole(place.parent)  # a run was named: its newest is read
            device = settings.loading.device
            self._pools[player.name] = checkpoint_pool(place, name, device, self.trusted)
        return self._pools[player.name]

    def _backends(
        self,
        player: PlayerSpec,
        settings: ModelSettings,
        make_env: Callable[[], Any],
        notes: PartnerNotes | None,
    ) -> list[tuple[str, HuggingFaceBackend, str | None]]:
        from srl_train.players.load_all import load_all  # only here: it takes torch

        # The embedded model is another one in every game.
        if player.name not in self._loaded or TINY in player.sources.values():
            self._loaded[player.name] = load_all(
                player.sources, make_env, settings.loading, notes=notes, trusted=self.trusted
            )
        return self._loaded[player.name]
