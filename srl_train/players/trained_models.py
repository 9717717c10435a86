"""Loading and answering options of models, from a configuration or the run that trained them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from srl_agents.llm.opponent_notes import PartnerNotes, notes_for
from srl_agents.llm.sampling import Sampling
from srl_envs.untrusted import read_bytes, read_json
from srl_train.checkpoints.manifest import is_checkpoint
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.models import ModelsConfig


@dataclass(frozen=True)
class Loading:
    """How models are loaded, as HuggingFaceBackend.load takes it."""

    device: str = "auto"
    dtype: str = "auto"
    """'auto' is as the weights were saved."""
    quantization: Literal["nf4", "int8"] | None = None
    """Of what never trains."""
    attn_implementation: str | None = None
    chat_template: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, models: ModelsConfig) -> Loading:
        """As a configuration says."""
        return cls(
            models.device,
            models.dtype,
            models.quantization,
            models.attn_implementation,
            models.chat_template,
            models.chat_template_kwargs,
        )


@dataclass(frozen=True)
class ModelSettings:
    """How models are loaded and answer, whoever plays them."""

    sampling: Sampling
    per_agent: Mapping[str, Sampling] = field(default_factory=dict)
    """Agent -> its own, in place of `sampling`."""
    constrained: bool = False
    notes: bool = False
    """Whether they are told what the others did so far."""
    loading: Loading = field(default_factory=Loading)

    @classmethod
    def of(cls, models: ModelsConfig) -> ModelSettings:
        """As a configuration says."""
        return cls(
            models.sampling.build(),
            models.per_agent,
            models.constrained,
            models.opponent_notes,
            Loading.of(models),
        )

    def on_device(self, device: str) -> ModelSettings:
        """The same, on 'auto', 'cpu' or 'cuda'."""
        return replace(self, loading=replace(self.loading, device=device))

    def as_trained(self, run: Path | None, model: str) -> ModelSettings:
        """The same for one model of the run, or checkpoint, that these settings are from: as an
        agent that it was in training it answers as there, as any other as the first of those.

        Raises ConfigError where the run does not say which agents it was.
        """
        if run is None or not self.per_agent:
            return self
        path = run / "summary.json"
        try:
            if is_checkpoint(run):
                states = _metadata(run)["model_states"]
            else:
                states = read_json(read_bytes(path))["models"]
            agents = states[model]["seats"]
            own = {agent: self.per_agent.get(agent, self.sampling) for agent in agents}
            first = next(iter(own.values()))
        except (OSError, ValueError, LookupError, TypeError, StopIteration) as error:
            raise ConfigError(
                f"{path} does not say which agents {model} held, and models.agent_sampling goes by "
                f"agents: give {run}/models/{model} to play it without"
            ) from error
        return replace(self, sampling=first, per_agent=own)


def settings_of_run(place: Path) -> ModelSettings:
    """How the models of the run, or of the checkpoint, in this folder answer.

    Only that section is read: the others may name parts that the run was handed as objects.
    Raises ConfigError where it cannot be read.
    """
    from srl_train.config.models import ModelsConfig
    from srl_train.config.yaml_file import section_from_tree

    tree = config_tree(place)
    section = tree.get("models") if isinstance(tree, dict) else None
    return ModelSettings.of(section_from_tree(ModelsConfig, section or {}, "models"))


def config_tree(place: Path) -> Any:
    """The configuration of the run, or of the checkpoint, in this folder, as plain data.

    Raises ConfigError where it cannot be read.
    """
    if is_checkpoint(place):
        return _metadata(place).get("config")
    from srl_train.config.yaml_file import read_tree

    path = place / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is missing: a run's folder holds its configuration")
    return read_tree(path)


def _metadata(checkpoint: Path) -> dict[str, Any]:
    from srl_train.checkpoints import (
        checkpoint as checkpoints,  # torch, which nobody needs to be told of a name
    )

    return checkpoints.load_metadata(checkpoint.parent, checkpoint.name)


def configured_notes(models: ModelsConfig, make_env: Callable[[], Any]) -> PartnerNotes | None:
    """What a run's models are told of the others; raises ConfigError as notes_of."""
    if not models.opponent_notes:
        return None
    with closing(make_env()) as env:
        return notes_of(True, env)


def notes_of(wanted: bool, env: Any, run: Path | None = None) -> PartnerNotes | None:
    """What models are told of the others; None where they are told nothing.

    `run` is whose configuration says so, if not one at hand. Raises ConfigError for an environment
    that no notes can be read off.
    """
    if not wanted:
        return None
    try:
        return notes_for(env)
    except ValueError as error:
        way_out = "" if run is None else f"; to play without, give a folder, {run}/models/model_0"
        raise ConfigError(f"models.opponent_notes: {error}{way_out}") from error
