"""Records of episodes: frozen dataclasses, and their lossless form as lines of JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
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
"""Version of the JSON format; files of other versions are rejected."""
_DAMAGE = (LookupError, TypeError, ValueError, ArithmeticError)


@dataclass(frozen=True)
class ModelVersion:
    """Identity of the weights that sampled an answer."""

    model: str
    """Name of the model, or of an adapter's base."""
    version: int | str = 0
    """Number of weight updates; for a past version, its name in the opponent pool."""
    adapter: str | None = None
    """Name of the adapter, or None."""

    def __str__(self) -> str:
        name = self.model if self.adapter is None else f"{self.model}/{self.adapter}"
        return f"{name}@{self.version}"


@dataclass(frozen=True)
class Tokens:
    """Prompt and completion of one answer, exactly as sampled.

    The context of an agent is append-only, the concatenation of `prompt_ids` and `completion_ids`
    of all its steps, unless `whole_context` is True.
    """

    prompt_ids: tuple[int, ...]
    """Token ids appended since the agent's previous completion."""
    completion_ids: tuple[int, ...]
    """Sampled token ids, with the end-of-turn token if one was sampled."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each sampled token, under the sampling distribution."""
    model: ModelVersion
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Allowed token ids at each sampled token; None for unconstrained sampling."""
    whole_context: bool = False
    """True if `prompt_ids` are all token ids before the completion."""


@dataclass(frozen=True)
class Decision:
    """Action of one agent in one step, and how it was chosen."""

    action: Any
    text: str | None = None
    """Answer of a language model or person; None for other policies."""
    tokens: Tokens | None = None
    """Tokens of `text`; None if unknown, as for models behind an API."""
    logprob: float | None = None
    """Natural log-probability of the action, for policies without a language model."""
    parse_failure: str | None = None
    """Reason why `text` could not be parsed; `action` is then the environment's default."""
    asked: bool = True
    """False if no policy was queried, because the agent was not to move."""


@dataclass(frozen=True)
class AgentStep:
    """Observation, decision and reward of one agent in one step."""

    agent: str
    observation: Any
    """Observation before the decision."""
    decision: Decision
    reward: float
    """Reward of the environment, before shaping."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Info after the step, without the action mask."""
    messages: tuple[tuple[str, str], ...] = ()
    """(speaker, text) pairs that the agent read before its decision."""


@dataclass(frozen=True)
class End:
    """End of one agent's episode: termination, or truncation with the last observation."""

    truncated: bool
    """False for a termination, also together with a truncation."""
    observation: Any = None
    """Last observation of a truncated agent."""
    prompt_ids: tuple[int, ...] | None = None
    """Prompt of `observation`, as in `Tokens`; only for language models, in games that do
    not show the time."""
    state: np.ndarray | None = None
    """Last state of the environment; only with `prompt_ids`, if states are recorded."""


@dataclass(frozen=True)
class Episode:
    """Record of one episode: environment, seed, players, steps, and failure if any."""

    environment: str
    """Metadata name of the environment."""
    seed: int
    seats: Mapping[str, str]
    """Agent -> name of the policy or model that played it."""
    turns: tuple[tuple[AgentStep, ...], ...]
    """Steps of the environment, each with one AgentStep per active agent."""
    failure: str | None = None
    """Error of a failed episode, such as 'BackendError: ...', or None."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """JSON data of the caller, such as the training round."""
    states: tuple[np.ndarray, ...] | None = None
    """State of the environment before each step, float32 vectors; None if not recorded."""
    made_as: Mapping[str, Any] | None = None
    """{"name": name in the registry, "options": arguments}; None if the environment cannot be
    constructed from them."""
    reset_options: Mapping[str, Any] = field(default_factory=dict)
    ends: Mapping[str, End] = field(default_factory=dict)
    """Agent -> end of its episode; no entry for agents that were active at a failure."""

    @cached_property
    def _steps(self) -> Mapping[str, tuple[AgentStep, ...]]:
        found: dict[str, list[AgentStep]] = {}
        for step in chain.from_iterable(self.turns):
            found.setdefault(step.agent, []).append(step)
        return {agent: tuple(steps) for agent, steps in found.items()}

    def steps_of(self, agent: str) -> tuple[AgentStep, ...]:
        """Return all steps of the agent in time order; empty for an unknown agent."""
        return self._steps.get(agent, ())

    def agents_of(self, player: str) -> tuple[str, ...]:
        """Return the agents played by the policy or model `player`; may be empty."""
        return tuple(agent for agent, name in self.seats.items() if name == player)

    def asked_of(self, agent: str) -> tuple[AgentStep, ...]:
        """Return the steps, in time order, in which the policy of the agent was queried."""
        return tuple(step for step in self.steps_of(agent) if step.decision.asked)

    def end_of(self, agent: str) -> Mapping[str, Any]:
        """Return the info of the agent's last step, or an empty mapping without steps."""
        return next((step.info for step in self.steps_of(agent)[-1:]), {})

    def returns(self) -> dict[str, float]:
        """Return agent -> sum of its rewards, before shaping; 0 without steps."""
        totals = dict.fromkeys(self.seats, 0.0)
        for step in chain.from_iterable(self.turns):
            totals[step.agent] = totals.get(step.agent, 0.0) + step.reward
        return totals


def to_json(episode: Episode) -> str:
    """Return the episode as one line of ASCII JSON, without a line break.

    Raises TypeError for data that JSON cannot represent.
    """
    record = {"schema_version": SCHEMA_VERSION, **as_record(Episode, episode)}
    return json.dumps(record, ensure_ascii=True)


def from_json(line: str) -> Episode:
    """Return the episode of a line written by `to_json`.

    Raises:
        EpisodeError: The line is no JSON, has another schema version, or a missing or wrong field.
    """
    try:
        record = read_json(line, constants=True)
    except DocumentError as error:
        raise EpisodeError(f"an episode must be a line of JSON ({error}): {line[:80]!r}") from error
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version != SCHEMA_VERSION:
        raise EpisodeError(
            f"schema_version must be {SCHEMA_VERSION}, got {version!r}: record the episodes again "
            "with this release"
        )
    try:
        episode = read_record(Episode, record)
        if (made := episode.made_as) is not None:
            for word in (made["name"], *checked(dict, made["options"])):
                checked(str, word)
        return episode
    except _DAMAGE as error:
        raise EpisodeError(
            f"a field is missing or has a wrong type: {type(error).__name__}: {error!s:.200}"
        ) from error


def write_jsonl(path: str | os.PathLike[str], episodes: Iterable[Episode]) -> None:
    """Write episodes to a file, one line each; after an error, an old file is unchanged.

    Args:
        path: Path of the file, which is replaced; missing folders are created.
        episodes: Episodes, in the order of the lines; TypeError if one is no JSON data.
    """
    with whole_file(Path(path)) as file:
        for episode in episodes:
            file.write(to_json(episode) + "\n")


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[Episode]:
    """Yield the episodes of a file written by `write_jsonl`, one at a time; skip blank lines.

    Args:
        path: Path of the file.

    Raises:
        EpisodeError: A line is not valid; the message contains the path and the line number.
        OSError: The file cannot be read.
    """
    with Path(path).open("rb") as file:
        lines = iter(partial(file.readline, MAX_BYTES + 1), b"")
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                episode = from_json(line.decode("ascii"))
            except ValueError as error:  # UnicodeDecodeError or EpisodeError
                raise EpisodeError(f"{path}, line {number}: {error}") from error
            yield episode
