"""Parsing of players' names, and the settings with which their models are loaded and sampled.

Names have the same meaning in the seats of a training run and in the commands of `srl`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from srl_agents.llm.backends.registry import is_api_name
from srl_agents.llm.context import ContextFunction, context_function
from srl_agents.llm.model_folders import is_gguf
from srl_agents.llm.sampling import Sampling
from srl_agents.scripted.registry import POLICIES, alternatives, is_scripted
from srl_envs import loading
from srl_envs.errors import UntrustedError
from srl_train.errors import ConfigError
from srl_train.run_files import is_checkpoint

if TYPE_CHECKING:
    from srl_train.config.models import ModelsConfig

TINY = "tiny"
"""Name of the embedded model, warm-started for its environment."""
PLAYERS = (
    "a scripted policy, MODULE:CLASS (a policy of your own), 'tiny' (the embedded model), a "
    "model's folder or hub name, a run's folder or a checkpoint's, RUN:model_0, "
    "or openai:MODEL and the like"
)
"""Names of players, for help texts."""
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True)
class PlayerSpec:
    """Parsed name of a player: a scripted policy, or models with their sources."""

    name: str
    """Name as it was written."""
    kind: Literal["scripted", "tiny", "folder", "hub", "run", "api"]
    """Kind of the player; a checkpoint has the kind "run", a GGUF file "folder"."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Model -> 'tiny', folder, hub name, 'CHECKPOINT:model_0' or BACKEND:MODEL. Empty for a
    scripted policy; several models only for a run or checkpoint."""
    run: Path | None = None
    """Folder of the run or checkpoint; None for other kinds."""


def parse_player(name: str) -> PlayerSpec:
    """Parse the name of a player, without importing a policy or searching the hub.

    A name is one of these; a run's folder takes precedence over a module of the same name:

    - a scripted policy, or 'module:Class', the user's policy; of 'a|b', each episode draws one
    - 'tiny'
    - a folder with a model or PEFT adapter, a GGUF file, or a hub name OWNER/NAME[@REVISION]
    - a folder of a run or of one of its checkpoints; 'RUN:model_2' is one model of either
    - BACKEND:MODEL, such as 'openai:gpt-5-mini'

    Raises ConfigError for any other name, a missing folder, or a run without this model. Within
    `srl_envs.loading.closed`, raises UntrustedError except for names in POLICIES and 'tiny'.
    """
    if all(one in POLICIES for one in alternatives(name)):
        return PlayerSpec(name, "scripted")
    if name == TINY:
        return PlayerSpec(name, "tiny", {TINY: TINY})
    if loading.is_closed():
        raise UntrustedError(
            f"{name!r:.200} is a player that a record names, and is not loaded: {loading.WAY_OUT}"
        )
    if is_api_name(name):
        return PlayerSpec(name, "api", {name: name})
    path, wanted = name, None
    if not Path(os.path.expanduser(path)).exists() and ":" in name:
        path, _, wanted = name.rpartition(":")
    place = Path(os.path.expanduser(path))
    if (place / "models").is_dir() or (place / "config.yaml").is_file():
        there = models_of_run(place)
        if wanted is not None and wanted not in there:
            raise ConfigError(f"{place} has no model {wanted!r}, only {', '.join(there)}")
        chosen = there if wanted is None else {wanted: there[wanted]}
        return PlayerSpec(name, "run", chosen, place)
    if wanted is not None and is_scripted(name):
        return PlayerSpec(name, "scripted")
    refuse_missing_folder(path)
    if wanted is None:
        if _is_model(place):
            return PlayerSpec(name, "folder", {place.resolve().name: str(place)})
        if is_gguf(place):
            return PlayerSpec(name, "folder", {place.stem: str(place)})
        if not place.exists() and _HUB_NAME.fullmatch(name):
            return PlayerSpec(name, "hub", {name.rpartition("/")[2]: name})
    problem = "neither a run nor a model is in" if place.is_dir() else "unknown player"
    raise ConfigError(f"{problem} {name!r}: give {PLAYERS}; or {', '.join(POLICIES)}")


def base_named(setting: str, base: str) -> str:
    """Return the source of the model that `base` names; `setting` is the setting's dotted name.

    The source is 'tiny', an absolute path of a folder or GGUF file, a hub name, the absolute path
    'CHECKPOINT:model_0' or BACKEND:MODEL. Raises the errors of `parse_player`, and ConfigError if
    the name has several models or none, or "models.base" is a model in a checkpoint.
    """
    if base != TINY and not any(mark in base for mark in "/:") and not Path(base).exists():
        return base  # a hub name without an owner
    try:
        named = parse_player(base)
    except ConfigError as error:
        raise ConfigError(f"{setting}: {error}") from error
    if len(named.sources) != 1:
        raise ConfigError(
            f"{setting} is {base!r}, must be one model: a model's folder, a hub name or RUN:model_0"
        )
    [(first, source)] = named.sources.items()
    if setting == "models.base" and named.run is not None and is_checkpoint(named.run):
        raise ConfigError(
            f"{setting} must not be in a checkpoint, got {base}; write it to a folder first: "
            f"srl export {named.run}:{first} FOLDER"
        )
    return os.path.abspath(source) if named.kind in ("folder", "run") else source


def refuse_missing_folder(name: str) -> None:
    """Raise ConfigError if `name` is a path, not a hub name, and does not exist.

    Names that begin with "/", ".", "~" or "runs/", or have several "/", are paths. OWNER/NAME is a
    path only if the folder OWNER exists. "@REVISION" is ignored.
    """
    name = name.partition("@")[0]
    place = Path(os.path.expanduser(name))
    is_path = name.startswith(("/", ".", "~", "runs/")) or name.count("/") > 1
    if not place.exists() and (is_path or ("/" in name and place.parent.is_dir())):
        raise ConfigError(f"there is no folder {name}")


def models_of_run(folder: Path) -> dict[str, str]:
    """Return model -> source, sorted by number: a folder, or for a checkpoint 'FOLDER:model_0'.

    `folder` is that of a run or checkpoint. Raises ConfigError if a run has no saved models.
    """
    # Of two models, the one with the shorter name has the lower number.
    paths = sorted((folder / "models").glob("*"), key=lambda path: (len(path.name), path.name))
    if is_checkpoint(folder):
        return {path.stem: f"{folder}:{path.stem}" for path in paths}
    there = {path.name: str(path) for path in paths if _is_model(path)}
    if not there:
        raise ConfigError(
            f"{folder}/models contains no model: continue the run by srl train --resume --out "
            f"{folder}, or give one of {folder}/checkpoints"
        )
    return there


def _is_model(folder: Path) -> bool:
    return any((folder / file).is_file() for file in ("config.json", "adapter_config.json"))


@dataclass(frozen=True)
class Loading:
    """Settings with which models are loaded: arguments of HuggingFaceBackend.load."""

    device: str = "auto"
    dtype: str = "auto"
    """Type of the weights; 'auto' is the type of the saved weights."""
    quantization: Literal["nf4"] | None = None
    attn_implementation: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, models: ModelsConfig) -> Loading:
        """Return a Loading with the settings of the same names in the section `models`."""
        return cls(**{one.name: getattr(models, one.name) for one in fields(cls)})


@dataclass(frozen=True)
class ModelSettings:
    """Settings with which models are loaded and sampled."""

    sampling: Sampling
    per_agent: Mapping[str, Sampling] = field(default_factory=dict)
    """Agent -> sampling, instead of `sampling`."""
    constrained: bool = False
    loading: Loading = field(default_factory=Loading)
    context: ContextFunction | None = None
    """Function that selects the messages of each prompt; None sends the whole conversation."""

    @classmethod
    def of(cls, models: ModelsConfig, *, trusted: bool = True) -> ModelSettings:
        """Return the ModelSettings of the section `models`.

        If `models.context` is MODULE:FUNCTION, the function is imported. This raises UntrustedError
        unless `trusted`, and EnvConfigError if it is not found.
        """
        context = context_function(models.context, models.context_steps, trusted=trusted)
        sampling, loading = models.sampling.build(), Loading.of(models)
        return cls(sampling, models.per_agent, models.constrained, loading, context)

    def overridden(
        self,
        *,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        constrained: bool | None = None,
        device: str | None = None,
    ) -> ModelSettings:
        """Return a copy with these values for all agents, except None; ConfigError if out of range.

        `device` ('auto', 'cpu' or 'cuda') is not checked.
        """
        given = {"temperature": temperature, "max_new_tokens": max_new_tokens}
        changes: dict[str, Any] = {n: value for n, value in given.items() if value is not None}
        try:
            return replace(
                self,
                sampling=replace(self.sampling, **changes),
                per_agent={agent: replace(one, **changes) for agent, one in self.per_agent.items()},
                constrained=self.constrained if constrained is None else constrained,
                loading=replace(self.loading, device=device or self.loading.device),
            )
        except ValueError as error:
            raise ConfigError(str(error)) from error


def settings_of_run(place: Path, *, trusted: bool = False) -> ModelSettings:
    """Return the settings in the section `models` of the run or checkpoint in the folder `place`.

    Without such a section they are the defaults. Raises ConfigError or CheckpointError if the
    section cannot be read, and the errors of `ModelSettings.of`.
    """
    from srl_train.config.models import ModelsConfig
    from srl_train.config.yaml_file import section_from_tree

    tree = config_tree(place)
    section = tree.get("models") if isinstance(tree, dict) else None
    models = section_from_tree(ModelsConfig, section or {}, "models")
    return ModelSettings.of(models, trusted=trusted)


def config_tree(place: Path) -> Any:
    """Return the configuration of the run or checkpoint in the folder `place` as plain data.

    It is None for a checkpoint without one. Raises ConfigError if the file of a run is missing or
    unreadable, and CheckpointError for a damaged checkpoint.
    """
    if is_checkpoint(place):
        from srl_train.checkpoints import load_metadata  # imports torch

        return load_metadata(place.parent, place.name).get("config")
    from srl_train.config.yaml_file import read_tree

    path = place / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is missing: a run's folder contains its configuration")
    return read_tree(path)
