"""Records of episodes: frozen dataclasses with lossless JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_agents.errors import EpisodeError
from srl_envs.errors import DocumentError
from srl_envs.records import as_record, checked, read_record
from srl_envs.untrusted import MAX_BYTES, read_json

SCHEMA_VERSION = 4
_DAMAGE = (LookupError, TypeError, ValueError, ArithmeticError)


@dataclass(frozen=True)
class ModelVersion:
    """Identity of the weights that sampled an answer."""

    model: str
    """Name of the model, or of an adapter's base."""
    version: int | str = 0
    """Number of weight updates; for a past version, its name in the opponent pool."""
    adapter: str | None = None
    digest: str | None = None
    """BLAKE2b of the published weights or adapter, or None if not computed."""

    def __str__(self) -> str:
        name = self.model if self.adapter is None else f"{self.model}/{self.adapter}"
        return f"{name}@{self.version}"


@dataclass(frozen=True)
class Tokens:
    """Tokens of one answer, exactly as sampled.

    An agent's context is append-only: step by step `prompt_ids` then `completion_ids`.
    """

    prompt_ids: tuple[int, ...]
    """Tokens appended since the agent's previous completion."""
    completion_ids: tuple[int, ...]
    """Sampled tokens, with the end-of-turn token if one was sampled."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each sampled token."""
    model: ModelVersion
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Allowed ids per sampled token; None for unconstrained sampling."""


@dataclass(frozen=True)
class Decision:
    """Choice of one agent in one step."""

    action: Any
    text: str | None = None
    """Answer of a language model, as written."""
    tokens: Tokens | None = None
    logprob: float | None = None
    """Log-probability of the action, for classic policies."""
    parse_failure: str | None = None
    """Reason why `text` could not be parsed; `action` is then the environment's default."""
    asked: bool = True
    """False if `action` was the only legal one and no policy was queried
    (`srl_envs.text.TO_MOVE`)."""


@dataclass(frozen=True)
class AgentStep:
    """One step of one agent."""

    agent: str
    observation: Any
    """Observation before the decision."""
    decision: Decision
    reward: float
    """Reward of the environment, before shaping."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Info after the step, without action masks."""
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class End:
    """End of one agent's episode."""

    truncated: bool
    """True for a truncation, False for a termination."""
    observation: Any = None
    """Last observation of a truncated agent."""
    prompt_ids: tuple[int, ...] | None = None
    """Tokens of `observation`, for language models in games that do not show the time."""
    state: np.ndarray | None = None
    """Last state of the environment, if recorded."""


@dataclass(frozen=True)
class Episode:
    """Record of one episode."""

    environment: str
    """Metadata name of the environment."""
    seed: int
    seats: Mapping[str, str]
    """Agent -> name of its player."""
    turns: tuple[tuple[AgentStep, ...], ...]
    failure: str | None = None
    """'BackendError: ...' of a failed episode, which is never trained on."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Plain data, such as round and group."""
    states: tuple[np.ndarray, ...] | None = None
    """State of the environment before each step, if recorded: float32 vectors."""
    made_as: Mapping[str, Any] | None = None
    """{"name": catalogue name, "options": arguments}, or None if the environment cannot be
    remade."""
    reset_options: Mapping[str, Any] = field(default_factory=dict)
    ends: Mapping[str, End] = field(default_factory=dict)
    """Agent -> end; agents in play at a failure have none."""

    @cached_property
    def _steps(self) -> Mapping[str, tuple[AgentStep, ...]]:
        found: dict[str, list[AgentStep]] = {}
        for step in chain.from_iterable(self.turns):
            found.setdefault(step.agent, []).append(step)
        return {agent: tuple(steps) for agent, steps in found.items()}

    def steps_of(self, agent: str) -> tuple[AgentStep, ...]:
        return self._steps.get(agent, ())

    def steps_before(self, agent: str, turn: int) -> int:
        """Return the number of the agent's steps before turn number `turn`, from 0."""
        return sum(step.agent == agent for step in chain.from_iterable(self.turns[:turn]))

    def agents_of(self, player: str) -> tuple[str, ...]:
        return tuple(agent for agent, who in self.seats.items() if who == player)

    def asked_of(self, agent: str) -> tuple[AgentStep, ...]:
        """Return the steps in which the policy of the agent was queried."""
        return tuple(step for step in self.steps_of(agent) if step.decision.asked)

    def end_of(self, agent: str) -> Mapping[str, Any]:
        """Return the agent's last info."""
        return next((step.info for step in self.steps_of(agent)[-1:]), {})

    def returns(self) -> dict[str, float]:
        """Return agent -> sum of raw rewards."""
        totals = dict.fromkeys(self.seats, 0.0)
        for step in chain.from_iterable(self.turns):
            totals[step.agent] = totals.get(step.agent, 0.0) + step.reward
        return totals


def to_json(episode: Episode) -> str:
    """Return the episode as one line of JSON."""
    record = {"schema_version": SCHEMA_VERSION, **as_record(Episode, episode)}
    return json.dumps(record, ensure_ascii=True)


def from_json(line: str) -> Episode:
    """Read one line; raise EpisodeError if the line is no episode of this schema version."""
    try:
        record = read_json(line, constants=True)
    except DocumentError as error:
        raise EpisodeError(f"not a line of JSON ({error}): {line[:80]!r}") from error
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version != SCHEMA_VERSION:
        raise EpisodeError(
            f"episode schema version {version!r}; this release reads {SCHEMA_VERSION}: "
            "record the episodes again with this release"
        )
    try:
        episode = read_record(Episode, record)
        if (made := episode.made_as) is not None:
            for word in (made["name"], *checked(dict, made["options"])):
                checked(str, word)
        return episode
    except _DAMAGE as error:
        raise EpisodeError(
            f"an episode record lacks or mistypes a field: {type(error).__name__}: {error!s:.200}"
        ) from error


def turn_to_json(turn: Sequence[AgentStep]) -> str:
    """Return one turn as one line of JSON."""
    return json.dumps([as_record(AgentStep, step) for step in turn], ensure_ascii=True)


def turn_from_json(line: str) -> tuple[AgentStep, ...]:
    """Read one turn; raise EpisodeError if the line is none."""
    try:
        steps = checked(list, read_json(line, constants=True))
        return tuple(read_record(AgentStep, step) for step in steps)
    except (DocumentError, *_DAMAGE) as error:
        raise EpisodeError(f"not a turn: {type(error).__name__}: {error!s:.200}") from error


def write_jsonl(path: str | os.PathLike[str], episodes: Iterable[Episode]) -> None:
    """Write the episodes atomically."""
    with whole_file(Path(path)) as file:
        for episode in episodes:
            file.write(to_json(episode) + "\n")


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[Episode]:
    """Yield the episodes of a file; raise EpisodeError with the number of an invalid line."""
    with Path(path).open("rb") as file:
        lines = iter(partial(file.readline, MAX_BYTES + 1), b"")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                episode = from_json(line.decode("ascii"))
            except ValueError as error:  # of the decoding, or an EpisodeError
                raise EpisodeError(f"{path}, line {number}: {error}") from error
            yield episode
