"""Environments as a configuration names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrlm.config.experiment import EnvironmentConfig
from mrlm.core.environment import SimulatedEnvironment
from mrlm.environments.catalogue import make
from mrlm.environments.code import CodeProblemGenerator
from mrlm.environments.math import MathProblemGenerator
from mrlm.environments.remote import RemoteEnvironment
from mrlm.environments.task import ProblemGenerator, problems
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
GENERATORS = {"code": CodeProblemGenerator, "math": MathProblemGenerator}


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
    kind, server = section.env_type, section.server_address
    if kind == "custom":
        return _own(section, place)
    if kind == "debate":
        return make(kind, server_address=server, **_given(max_turns=turns))
    own = problems(ProblemGenerator(section.difficulty_range), section.dataset)
    if server is not None:
        limits = _given(max_cycles=turns, wall=section.timeout)
        return RemoteEnvironment(kind, server, **limits, **own)
    if kind == "tool":
        return make(kind, **_given(max_turns=turns))
    limits = _given(max_attempts=turns, timeout=section.timeout)
    generator = GENERATORS[kind](section.difficulty_range)
    return make(kind, generator=generator, dataset=section.dataset, **limits)


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def _own(section: EnvironmentConfig, place: str) -> SimulatedEnvironment:
    made = references.code(str(section.custom_class))(**section.custom_kwargs)
    if not isinstance(made, SimulatedEnvironment):
        raise ConfigError(
            f"{place}.custom_class: {section.custom_class} gave {made!r:.80}: give a class derived "
            "from SimulatedEnvironment"
        )
    return made
