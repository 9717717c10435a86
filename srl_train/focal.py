"""Who is evaluated: a name, a model or a trained run, as policies for a scenario's focal seats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

import yaml

from srl_agents.classic.table import POLICIES, classic_policy
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import Policy
from srl_envs.scenarios import Scenario
from srl_train import config_file
from srl_train.config import ModelsConfig
from srl_train.errors import ConfigError

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_MODEL = re.compile(r"model_(\d+)")
SAMPLING = Sampling(max_new_tokens=32)  # for models that no run says anything of


@dataclass(frozen=True)
class Answering:
    """How models answer; None takes the run's own setting, or the default where there is no run."""

    temperature: float | None = None
    max_new_tokens: int | None = None
    constrained: bool | None = None
    device: str = "auto"

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
        return [classic_policy(self.name, scenario.make())]

    def record(self) -> dict[str, Any]:
        """Its kind."""
        return {"kind": "classic"}


class ModelFocal:
    """Models, loaded when the first scenario wants them."""

    def __init__(
        self, models: ModelsConfig, folders: dict[str, str], answering: Answering, kind: str
    ) -> None:
        self._folders = folders  # name -> folder, hub name, or "tiny"
        self._kind = kind
        self._sampling = answering.sampling(models.sampling)
        own = answering.constrained
        self._constrained = models.constrained if own is None else own
        self._load = (answering.device, models.dtype if kind == "run" else "auto")
        self._loaded: list[tuple[str, Any, str | None]] | None = None

    def policies(self, scenario: Scenario) -> list[Policy]:
        """One per model; raises BackendError for a model that cannot be loaded."""
        from srl_agents.llm.text_policy import TextPolicy

        view = scenario.make().unwrapped.text_view
        return [
            TextPolicy(
                backend,
                view,
                sampling=self._sampling,
                adapter=adapter,
                constrained=self._constrained,
                name=name,
            )
            for name, backend, adapter in self._backends(scenario.make)
        ]

    def record(self) -> dict[str, Any]:
        """Which models, and how they answer."""
        return {
            "kind": self._kind,
            "models": self._folders,
            "sampling": asdict(self._sampling),
            "constrained": self._constrained,
            "dtype": self._load[1],
        }

    def _backends(self, make_env: Callable[[], Any]) -> list[tuple[str, Any, str | None]]:
        from srl_train.backends import load_all

        if self._loaded is None or self._kind == "tiny":  # which is another one in every game
            device, dtype = self._load
            self._loaded = load_all(self._folders, make_env, device=device, dtype=dtype)
        return self._loaded


def focal(who: str, answering: Answering | None = None) -> Focal:
    """Who `who` is: a classic policy's name, 'tiny', a folder with a model (a Hugging Face folder
    or a PEFT adapter), a hub name, a run's folder, or 'RUN:model_2' for one model of it.

    Raises ConfigError for nobody.
    """
    answering = answering or Answering()
    if who in POLICIES:
        return ClassicFocal(who)
    if who == "tiny":
        return ModelFocal(ModelsConfig(sampling=SAMPLING), {"tiny": "tiny"}, answering, "tiny")
    place, wanted = Path(who), None
    if not place.exists() and ":" in who:
        head, _, wanted = who.rpartition(":")
        place = Path(head)
    if (place / "models").is_dir():
        return _run(place, wanted, answering)
    if wanted is None and _is_model(place):
        name = place.resolve().name
        return ModelFocal(ModelsConfig(sampling=SAMPLING), {name: who}, answering, "folder")
    if wanted is None and not place.exists() and _HUB_NAME.fullmatch(who):
        return ModelFocal(
            ModelsConfig(sampling=SAMPLING), {who.rpartition("/")[2]: who}, answering, "hub"
        )
    close = get_close_matches(who, POLICIES, n=1, cutoff=0.6)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    raise ConfigError(
        f"nobody is called {who!r}{guess}: give 'tiny', a model's folder or hub name, a run's "
        f"folder (RUN or RUN:model_0), or one of {', '.join(POLICIES)}"
    )


def _is_model(folder: Path) -> bool:
    return any((folder / file).is_file() for file in ("config.json", "adapter_config.json"))


def _run(folder: Path, wanted: str | None, answering: Answering) -> ModelFocal:
    there = {
        path.name: str(path)
        for path in sorted((folder / "models").iterdir(), key=_number)
        if _is_model(path)
    }
    if not there:
        raise ConfigError(
            f"{folder}/models holds no model: has the run ended? srl train --resume --out {folder}"
        )
    if wanted is not None:
        if wanted not in there:
            raise ConfigError(f"{folder} has no model {wanted!r}, only {', '.join(there)}")
        there = {wanted: there[wanted]}
    return ModelFocal(_models_section(folder / "config.yaml"), there, answering, "run")


def _number(path: Path) -> tuple[int, str]:
    """model_10 comes after model_9."""
    found = _MODEL.fullmatch(path.name)
    return (int(found[1]) if found else 0, path.name)


def _models_section(path: Path) -> ModelsConfig:
    """How the run's models answer. Only that section is read: the others may name parts that the
    run was handed as objects."""
    if not path.is_file():
        raise ConfigError(f"{path} is missing: a run's folder holds its configuration")
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path} is not YAML: {error}") from error
    models = tree.get("models") if isinstance(tree, dict) else None
    return config_file.from_tree({"models": models or {}}).models
