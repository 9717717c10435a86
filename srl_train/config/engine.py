"""Engines that carry out a run: their configuration section."""

from __future__ import annotations

from typing import ClassVar, Literal

from srl_train.config.section import Section


class EngineSection(Section):
    """What the engines share."""

    CHOICE: ClassVar = "name"


class LocalEngineConfig(EngineSection):
    """Everything is done in the trainer's process, or in those that torchrun started."""

    name: Literal["local"] = "local"
    """What carries out play and learning: the trainer's own process."""


EngineConfig = LocalEngineConfig
