"""Who is evaluated: a name, a model or a trained run, as policies for a scenario's focal seats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import Policy
from srl_agents.scripted.registry import POLICIES, classic_policy
from srl_envs.scenarios.scenario import Scenario
from srl_train.config.models import USUAL_SAMPLING, ModelsConfig
from srl_train.errors import ConfigError
from srl_train.players.api_models import chat_policy, refuse_constrained
from srl_train.players.model_specs import named_models
from srl_train.players.trained_models import as_trained, models_section, notes_of

SAMPLING = USUAL_SAMPLING  # for models that no run says anything of
API_SAMPLING = Sampling(max_new_tokens=2048)  # where reasoning that is not shown counts as well


@dataclass(frozen=True)
class Answering:
    """How models answer; None takes the run's own setting, or the default where there is no run."""

    temperature: float | None = None
    max_new_tokens: int | None = None
    constrained: bool | None = None
    device: str = "auto"
    trusted: bool = False
    """Whether code that a checkpoint's configuration names is imported, where it is needed."""

    def sampling(self, given: Sampling) -> Sampling:
        """`given`, with what is set here in its place. Raises ConfigError out of range."""
        own = {
            name: value
            for name in ("temperature", "max_new_tokens")
            if (value := getattr(self, name)) is not None
        }
        try:
            return replace(given, **own)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def models(self, given: ModelsConfig) -> ModelsConfig:
        """`given`, with what is set here in all seats. Raises ConfigError out of range."""
        return replace(
            given,
            constrained=given.constrained if self.constrained is None else self.constrained,
            sampling=self.sampling(given.sampling),
            seat_sampling={seat: self.sampling(own) for seat, own in given.seat_sampling.items()},
        )


class Focal(Protocol):
    """Somebody who can be evaluated."""

    def policies(self, scenario: Scenario) -> list[Policy]:
        """Those to deal to the scenario's focal seats, in order."""
        ...

    def record(self) -> dict[str, Any]:
        """How it plays, as plain data."""
        ...


@dataclass(frozen=True)
class ClassicFocal:
    """A classic policy."""

    name: str

    def policies(self, scenario: Scenario) -> list[Policy]:
        """One, for all focal seats; raises PolicyError where it cannot play the game."""
        with closing(scenario.make()) as env:
            return [classic_policy(self.name, env)]

    def record(self) -> dict[str, Any]:
        """Its kind."""
        return {"kind": "classic"}


class ApiFocal:
    """A model behind an API."""

    def __init__(self, name: str, answering: Answering) -> None:
        """Raises BackendError where its SDK or key is missing."""
        if answering.constrained:
            refuse_constrained(name, "--constrained")
        self._model = api_model(name)
        self._sampling = answering.sampling(API_SAMPLING)

    def policies(self, scenario: Scenario) -> list[Policy]:
        """One, for all focal seats; raises ConfigError for settings that its API does not know."""
        with closing(scenario.make()) as env:
            return [chat_policy(self._model, env.unwrapped.text_view, self._sampling)]

    def record(self) -> dict[str, Any]:
        """How it answers, and what was asked of it so far."""
        return {
            "kind": "api",
            "sampling": asdict(self._sampling),
            "usage": asdict(self._model.usage),
        }


class ModelFocal:
    """Models, loaded when the first scenario wants them."""

    def __init__(
        self,
        models: ModelsConfig,
        folders: Mapping[str, str],
        answering: Answering,
        kind: str,
        run: Path | None = None,
    ) -> None:
        """`models` says how they answer, which are those of `run` where they are a run's."""
        self._folders = dict(folders)  # name -> folder, hub name, or "tiny"
        self._kind = kind
        self._run = run
        self._models = answering.models(models)
        self._load = (answering.device, models.dtype if kind == "run" else "auto")
        self._trusted = answering.trusted
        self._loaded: list[tuple[str, Any, str | None]] | None = None

    def policies(self, scenario: Scenario) -> list[Policy]:
        """One per model; raises BackendError for a model that cannot be loaded, and ConfigError
        for the embedded one in a game that it cannot be started on, and for a run's in one that
        the partner notes they trained with cannot be read off."""
        from srl_agents.llm.text_policy import TextPolicy

        with closing(scenario.make()) as env:
            view, notes = env.unwrapped.text_view, notes_of(self._models, env, self._run)
        policies: list[Policy] = []
        for name, backend, adapter in self._backends(scenario.make):
            own = self._models if self._run is None else as_trained(self._run, self._models, name)
            policies.append(
                TextPolicy(
                    backend,
                    view,
                    sampling=own.sampling,
                    per_seat=own.seat_sampling,
                    adapter=adapter,
                    constrained=own.constrained,
                    notes=notes,
                    name=name,
                )
            )
        return policies

    def record(self) -> dict[str, Any]:
        """Which models, and how they answer."""
        return {
            "kind": self._kind,
            "models": self._folders,
            "sampling": asdict(self._models.sampling),
            "seat_sampling": {s: asdict(own) for s, own in self._models.seat_sampling.items()},
            "constrained": self._models.constrained,
            "partner_notes": self._models.partner_notes,
            "dtype": self._load[1],
            "quantization": self._models.quantization,
        }

    def _backends(self, make_env: Callable[[], Any]) -> list[tuple[str, Any, str | None]]:
        from srl_train.players.load import Loading, load_all

        if self._loaded is None or self._kind == "tiny":  # which is another one in every game
            device, dtype = self._load
            self._loaded = load_all(
                self._folders,
                make_env,
                replace(
                    Loading.of(self._models), device=device, dtype=dtype, trusted=self._trusted
                ),
            )
        return self._loaded


def focal(who: str, answering: Answering | None = None) -> Focal:
    """Who `who` is: a classic policy's name, or models as in `named_models`.

    Raises ConfigError for nobody.
    """
    if who in POLICIES:
        return ClassicFocal(who)
    named = named_models(who)
    if named.kind == "api":
        return ApiFocal(who, answering or Answering())
    models = ModelsConfig(sampling=SAMPLING)
    if named.run is not None:
        models = models_section(named.run)
    return ModelFocal(models, named.sources, answering or Answering(), named.kind, named.run)
