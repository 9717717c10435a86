"""How models answer in seats, as a configuration or the run that trained them says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from srl_agents.llm.opponent_notes import PartnerNotes, notes_for
from srl_envs.loading.untrusted import read_bytes, read_json
from srl_train.config import yaml_file
from srl_train.config.models import ModelsConfig
from srl_train.errors import ConfigError
from srl_train.players.model_specs import is_checkpoint


def models_section(place: Path) -> ModelsConfig:
    """How the models of the run, or of the checkpoint, in this folder answer.

    Only that section is read: the others may name parts that the run was handed as objects.
    Raises ConfigError where it cannot be read.
    """
    tree = config_tree(place)
    section = tree.get("models") if isinstance(tree, dict) else None
    return yaml_file.section_from_tree(ModelsConfig, section or {}, "models")


def config_tree(place: Path) -> Any:
    """The configuration of the run, or of the checkpoint, in this folder, as plain data.

    Raises ConfigError where it cannot be read.
    """
    if is_checkpoint(place):
        return _metadata(place).get("config")
    path = place / "config.yaml"
    if not path.is_file():
        raise ConfigError(f"{path} is missing: a run's folder holds its configuration")
    return yaml_file.read_tree(path)


def as_trained(place: Path, models: ModelsConfig, name: str) -> ModelsConfig:
    """`models` of a run, or of a checkpoint, as its model `name` answers them in any game.

    In a seat that it held it answers as it did there, in every other as in the first of those.
    Raises ConfigError where the run does not say which it held.
    """
    if not models.seat_sampling:
        return models
    path = place / "summary.json"
    try:
        if is_checkpoint(place):
            states = _metadata(place)["model_states"]
        else:
            states = read_json(read_bytes(path))["models"]
        seats = states[name]["seats"]
        own = {seat: models.seat_sampling.get(seat, models.sampling) for seat in seats}
        first = next(iter(own.values()))
    except (OSError, ValueError, LookupError, TypeError, StopIteration) as error:
        raise ConfigError(
            f"{path} does not say which seats {name} held, and models.seat_sampling goes by "
            f"seats: give {place}/models/{name} to seat it without"
        ) from error
    return replace(models, sampling=first, seat_sampling=own)


def _metadata(checkpoint: Path) -> dict[str, Any]:
    from srl_train.checkpoints import (
        checkpoint as checkpoints,  # torch, which nobody needs to be told of a name
    )

    return checkpoints.load_metadata(checkpoint.parent, checkpoint.name)


def notes_of(models: ModelsConfig, env: Any, run: Path | None = None) -> PartnerNotes | None:
    """What the models are told of the others; None where they are told nothing.

    `run` is where the section is from, if not from a configuration at hand. Raises ConfigError for
    an environment that no notes can be read off.
    """
    if not models.partner_notes:
        return None
    try:
        return notes_for(env)
    except ValueError as error:
        way_out = "" if run is None else f"; to play without, give a folder, {run}/models/model_0"
        raise ConfigError(f"models.partner_notes: {error}{way_out}") from error
