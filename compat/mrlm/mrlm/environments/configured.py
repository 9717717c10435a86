"""Environments as a configuration names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrlm.config.experiment import EnvironmentConfig
from mrlm.core.environment import SimulatedEnvironment
from mrlm.environments.catalogue import make
from mrlm.environments.code import CodeExecutionEnvironment, CodeProblemGenerator
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from mrlm.environments.remote import RemoteEnvironment
from srl_envs.loading import references
from srl_train.errors import ConfigError

READ_BY: Mapping[str, tuple[str, ...]] = {
    "dataset": ("code", "math"),
    "difficulty_range": ("code", "math"),
    "timeout": ("code",),
    "turns": ("code", "math", "debate", "tool"),
    "remote": ("code", "math", "debate", "tool"),
}
"""Setting -> the types of environment that read it."""


def configured(section: EnvironmentConfig, place: str) -> SimulatedEnvironment:
    """The environment of a section, which errors call `place`.

    Raises ConfigError for a setting that its type does not read, and as the environments do.
    """
    turns = section.max_attempts if section.max_turns is None else section.max_turns
    given = {
        "dataset": section.dataset,
        "difficulty_range": section.difficulty_range,
        "timeout": section.timeout,
        "turns": turns,
        "remote": section.remote or None,
    }
    for name, value in given.items():
        if value is not None and section.env_type not in READ_BY[name]:
            said = "max_turns" if name == "turns" else name
            raise ConfigError(
                f"{place}.{said}: it is read by {', '.join(READ_BY[name])}, and env_type is "
                f"{section.env_type!r}: leave it out"
            )
    kind = section.env_type
    limits: dict[str, Any] = {"max_attempts": turns, "timeout": section.timeout}
    limits = {name: value for name, value in limits.items() if value is not None}
    if kind == "custom":
        return _own(section, place)
    if kind == "debate":
        limit = {} if turns is None else {"max_turns": turns}
        return make("debate", server_address=section.server_address, **limit)
    if section.server_address is not None:
        return _remote(section, turns)
    if kind == "code":
        programs = CodeProblemGenerator(section.difficulty_range)
        return CodeExecutionEnvironment(programs, section.dataset, **limits)
    if kind == "math":
        questions = MathProblemGenerator(section.difficulty_range)
        return MathReasoningEnvironment(questions, section.dataset, **limits)
    return make("tool", **({} if turns is None else {"max_turns": turns}))


def _remote(section: EnvironmentConfig, turns: int | None) -> SimulatedEnvironment:
    settings: dict[str, Any] = {
        "max_cycles": turns,
        "difficulty": section.difficulty_range,
        "wall": section.timeout,
        "path": section.dataset,
    }
    options = {name: value for name, value in settings.items() if value is not None}
    return RemoteEnvironment(section.env_type, str(section.server_address), **options)


def _own(section: EnvironmentConfig, place: str) -> SimulatedEnvironment:
    made = references.code(str(section.custom_class))(**section.custom_kwargs)
    if not isinstance(made, SimulatedEnvironment):
        raise ConfigError(
            f"{place}.custom_class: {section.custom_class} gave {made!r:.80}: give a class derived "
            "from SimulatedEnvironment"
        )
    return made
