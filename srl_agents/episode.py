"""Episode records: frozen dataclasses, and their lossless JSON lines."""

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
"""2 added `states`, and `made_as` and `reset_options`, to play an episode again from its record; 3
added `asked` to decisions, and `ends`; 4 `ModelVersion` in tokens, and calls what an agent
heard `messages`."""


@dataclass(frozen=True)
class ModelVersion:
    """Which weights sampled an answer."""

    model: str
    """The model's name, or its base's where an adapter answers."""
    version: int | str = 0
    """How often the weights were updated; of a past version, its name in the opponent pool."""
    adapter: str | None = None
    digest: str | None = None
    """BLAKE2b of the weights that train, or of the adapter, as they were last published; None for
    models that do not train, and for weights too large to digest at every update."""

    def __str__(self) -> str:
        name = self.model if self.adapter is None else f"{self.model}/{self.adapter}"
        return f"{name}@{self.version}"


@dataclass(frozen=True)
class Tokens:
    """The tokens behind one answer, exactly as the backend consumed and sampled them.

    An agent's context is append-only: turn by turn `prompt_ids` then `completion_ids`.
    """

    prompt_ids: tuple[int, ...]
    """What the environment side appended since the agent's previous completion."""
    completion_ids: tuple[int, ...]
    """What the model sampled, its end-of-turn token included where it wrote one."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each completion token under the distribution it was drawn from."""
    model: ModelVersion
    """Who sampled."""
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Per completion token, the ids it was chosen from; None where sampling was unconstrained."""


@dataclass(frozen=True)
class Decision:
    """What one agent chose in one turn."""

    action: Any
    """What the environment's step() is given."""
    text: str | None = None
    """The answer as written, for agents that write."""
    tokens: Tokens | None = None
    logprob: float | None = None
    """Of the action, for classic policies that know it."""
    parse_failure: str | None = None
    """Why `text` could not be read; `action` is then the environment's default."""
    asked: bool = True
    """False if `action` was the only legal one and no policy was queried
    (`srl_envs.text.TO_MOVE`)."""


@dataclass(frozen=True)
class AgentStep:
    """One agent's part in one turn."""

    agent: str
    observation: Any
    """What the agent saw before it decided."""
    decision: Decision
    reward: float
    """The environment's own, before any shaping."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """The environment's info after the step, action masks left out."""
    messages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class End:
    """How one agent's part in a game ended."""

    truncated: bool
    """The game was cut off, such as by a limit on turns; False where it ended by its rules."""
    observation: Any = None
    """What a truncated agent saw last, when it was asked no more."""
    prompt_ids: tuple[int, ...] | None = None
    """How that reads, appended to the agent's conversation; only of an agent that writes, in a game
    that does not tell its time (see srl_envs.text.tells_time)."""
    state: np.ndarray | None = None
    """The environment's state() then, beside `prompt_ids`, where states were asked for."""


@dataclass(frozen=True)
class Episode:
    """One game from reset to its end, or to its failure."""

    environment: str
    """The environment's metadata name."""
    seed: int
    """Given to reset()."""
    seats: Mapping[str, str]
    """Agent -> name of who played it."""
    turns: tuple[tuple[AgentStep, ...], ...]
    failure: str | None = None
    """'BackendError: ...' when the episode was spoilt; it is never trained on."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Plain data about the circumstances, such as the round and the group it belongs to."""
    states: tuple[np.ndarray, ...] | None = None
    """The environment's state() before each turn, where it was asked for: vectors, float32."""
    made_as: Mapping[str, Any] | None = None
    """{"name": catalogue name, "options": arguments} of the environment; None where it did not
    come from the catalogue, was wrapped, or was made with what is no plain data."""
    reset_options: Mapping[str, Any] = field(default_factory=dict)
    """Given to reset() beside the seed."""
    ends: Mapping[str, End] = field(default_factory=dict)
    """Agent -> how its part ended; an agent that still played when the episode failed has none."""

    @cached_property
    def _steps(self) -> Mapping[str, tuple[AgentStep, ...]]:
        found: dict[str, list[AgentStep]] = {}
        for step in chain.from_iterable(self.turns):
            found.setdefault(step.agent, []).append(step)
        return {agent: tuple(steps) for agent, steps in found.items()}

    def steps_of(self, agent: str) -> tuple[AgentStep, ...]:
        """The agent's steps in order."""
        return self._steps.get(agent, ())

    def steps_before(self, agent: str, turn: int) -> int:
        """How many of its steps the agent had made before the game's turn of this number, from 0:
        fewer than the game had turns where it joined later, or was away in between."""
        return sum(step.agent == agent for step in chain.from_iterable(self.turns[:turn]))

    def agents_of(self, player: str) -> tuple[str, ...]:
        """The agents that the player was, in the environment's order."""
        return tuple(agent for agent, who in self.seats.items() if who == player)

    def asked_of(self, agent: str) -> tuple[AgentStep, ...]:
        """The steps in which the agent was asked, in order."""
        return tuple(step for step in self.steps_of(agent) if step.decision.asked)

    def end_of(self, agent: str) -> Mapping[str, Any]:
        """The agent's last info; nothing where it never had a turn."""
        return next((step.info for step in self.steps_of(agent)[-1:]), {})

    def returns(self) -> dict[str, float]:
        """Agent -> sum of its raw rewards."""
        totals = dict.fromkeys(self.seats, 0.0)
        for turn in self.turns:
            for step in turn:
                totals[step.agent] = totals.get(step.agent, 0.0) + step.reward
        return totals


def to_json(episode: Episode) -> str:
    """The episode as one line of JSON; `from_json` gives back an equal episode."""
    record = {"schema_version": SCHEMA_VERSION, **as_record(Episode, episode)}
    return json.dumps(record, ensure_ascii=True)


def from_json(line: str) -> Episode:
    """Read one line.

    Raises EpisodeError for text that is not an episode of this schema version.
    """
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
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise EpisodeError(
            f"an episode record lacks or mistypes a field: {type(error).__name__}: {error!s:.200}"
        ) from error


def turn_to_json(turn: Sequence[AgentStep]) -> str:
    """One turn as one line of JSON."""
    return json.dumps([as_record(AgentStep, step) for step in turn], ensure_ascii=True)


def turn_from_json(line: str) -> tuple[AgentStep, ...]:
    """Read one turn. Raises EpisodeError for what is none."""
    try:
        steps = checked(list, read_json(line, constants=True))
        return tuple(read_record(AgentStep, step) for step in steps)
    except (DocumentError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise EpisodeError(f"not a turn: {type(error).__name__}: {error!s:.200}") from error


def write_jsonl(path: str | os.PathLike[str], episodes: Iterable[Episode]) -> None:
    """Write the episodes to `path`, whole or not at all."""
    with whole_file(Path(path)) as file:
        for episode in episodes:
            file.write(to_json(episode) + "\n")


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[Episode]:
    """The episodes of a file, in order.

    Raises EpisodeError naming the line that is not an episode of this schema version.
    """
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
