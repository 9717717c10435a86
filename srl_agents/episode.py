"""What happened in an episode: frozen records, and JSON lines that lose nothing."""

from __future__ import annotations

import json
import os
import re
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
from srl_envs.loading.untrusted import MAX_BYTES, read_json

SCHEMA_VERSION = 3
"""2 added `states`, and `made_as` and `reset_options`, to play an episode again from its record; 3
added `asked` to decisions, and `ends`."""


@dataclass(frozen=True)
class Tokens:
    """The tokens behind one answer, exactly as the backend consumed and sampled them.

    A seat's context is append-only: turn by turn `prompt_ids` then `completion_ids`.
    """

    prompt_ids: tuple[int, ...]
    """What the environment side appended since the seat's previous completion."""
    completion_ids: tuple[int, ...]
    """What the model sampled, its end-of-turn token included where it wrote one."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each completion token under the distribution it was drawn from."""
    model: str
    """Who sampled: '<model>@<weights version>'."""
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Per completion token, the ids it was chosen from; None where sampling was unconstrained."""


@dataclass(frozen=True)
class Decision:
    """What one seat chose in one turn."""

    action: Any
    """What the environment's step() is given."""
    text: str | None = None
    """The answer as written, for seats that write."""
    tokens: Tokens | None = None
    logprob: float | None = None
    """Of the action, for classic policies that know it."""
    parse_failure: str | None = None
    """Why `text` could not be read; `action` is then the environment's default."""
    asked: bool = True
    """False where the seat had no say in the turn (`srl_envs.text.view.TO_MOVE`): nobody was
    asked, and `action` is the only legal one."""


@dataclass(frozen=True)
class AgentStep:
    """One seat's part in one turn."""

    agent: str
    observation: Any
    """What the seat saw before it decided."""
    decision: Decision
    reward: float
    """The environment's own, before any shaping."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """The environment's info after the step, action masks left out."""
    heard: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class End:
    """How one seat's part in a game ended."""

    truncated: bool
    """The game was cut off, such as by a limit on turns; False where it ended by its rules."""
    observation: Any = None
    """What a truncated seat saw last, when it was asked no more."""
    prompt_ids: tuple[int, ...] | None = None
    """How that reads, appended to the seat's conversation; only of a seat that writes, in a game
    that does not tell its time (see srl_envs.text.view.tells_time)."""
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
    """Seat -> name of who sat there."""
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
    """Seat -> how its part ended; a seat that still played when the episode failed has none."""

    @cached_property
    def _steps(self) -> Mapping[str, tuple[AgentStep, ...]]:
        found: dict[str, list[AgentStep]] = {}
        for step in chain.from_iterable(self.turns):
            found.setdefault(step.agent, []).append(step)
        return {agent: tuple(steps) for agent, steps in found.items()}

    def steps_of(self, agent: str) -> tuple[AgentStep, ...]:
        """The agent's steps in order."""
        return self._steps.get(agent, ())

    def asked_of(self, agent: str) -> tuple[AgentStep, ...]:
        """The steps in which the seat was asked, in order."""
        return tuple(step for step in self.steps_of(agent) if step.decision.asked)

    def end_of(self, agent: str) -> Mapping[str, Any]:
        """The seat's last info; nothing where it never had a turn."""
        return next((step.info for step in self.steps_of(agent)[-1:]), {})

    def returns(self) -> dict[str, float]:
        """Seat -> sum of its raw rewards."""
        totals = dict.fromkeys(self.seats, 0.0)
        for turn in self.turns:
            for step in turn:
                totals[step.agent] = totals.get(step.agent, 0.0) + step.reward
        return totals


def to_json(episode: Episode) -> str:
    """The episode as one line of JSON; `from_json` gives back an equal episode."""
    return json.dumps(
        {
            "schema_version": SCHEMA_VERSION,
            "environment": episode.environment,
            "seed": episode.seed,
            "seats": dict(episode.seats),
            "turns": [[_step_record(step) for step in turn] for turn in episode.turns],
            "failure": episode.failure,
            "extra": _plain(episode.extra),
            "states": None if episode.states is None else [_plain(s) for s in episode.states],
            "made_as": _plain(episode.made_as),
            "reset_options": _plain(episode.reset_options),
            "ends": {
                agent: {k: v if k == "prompt_ids" else _plain(v) for k, v in vars(end).items()}
                for agent, end in episode.ends.items()
            },
        },
        ensure_ascii=True,
    )


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
        return _episode(record)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise EpisodeError(
            f"an episode record lacks or mistypes a field: {type(error).__name__}: {error!s:.200}"
        ) from error


def is_plain(value: Any) -> bool:
    """Whether a record can hold the value and give an equal one back."""
    if isinstance(value, Mapping):
        return all(is_plain(key) and is_plain(entry) for key, entry in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, (bool, int, float, str))


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


def _step_record(step: AgentStep) -> dict[str, Any]:
    decision, tokens = step.decision, step.decision.tokens
    return {
        **vars(step),
        "observation": _plain(step.observation),
        "decision": {
            **vars(decision),
            "action": _plain(decision.action),
            "tokens": None if tokens is None else vars(tokens),
        },
        "info": _plain(step.info),
    }


# A record may be anybody's: every field is of the type that `to_json` writes, or is refused.


def _episode(record: Mapping[str, Any]) -> Episode:
    states, seats = record["states"], _a(dict, record["seats"])
    return Episode(
        environment=_a(str, record["environment"]),
        seed=_a(int, record["seed"]),
        seats={agent: _a(str, who) for agent, who in seats.items()},
        turns=tuple(tuple(map(_step, _a(list, turn))) for turn in _a(list, record["turns"])),
        failure=_or_none(str, record["failure"]),
        extra=_a(dict, _revived(record["extra"])),
        states=None if states is None else tuple(_a(np.ndarray, _revived(s)) for s in states),
        made_as=_made_as(record["made_as"]),
        reset_options=_a(dict, _revived(record["reset_options"])),
        ends={agent: _end(end) for agent, end in _a(dict, record["ends"]).items()},
    )


def _step(record: Mapping[str, Any]) -> AgentStep:
    decision = record["decision"]
    tokens, logprob = decision["tokens"], decision["logprob"]
    return AgentStep(
        agent=_a(str, record["agent"]),
        observation=_revived(record["observation"]),
        decision=Decision(
            action=_revived(decision["action"]),
            text=_or_none(str, decision["text"]),
            tokens=None if tokens is None else _tokens(tokens),
            logprob=None if logprob is None else _number(logprob),
            parse_failure=_or_none(str, decision["parse_failure"]),
            asked=_a(bool, decision["asked"]),
        ),
        reward=_number(record["reward"]),
        info=_a(dict, _revived(record["info"])),
        heard=tuple((_a(str, who), _a(str, words)) for who, words in record["heard"]),
    )


def _end(record: Mapping[str, Any]) -> End:
    truncated, seen, ids = record["truncated"], record["observation"], record["prompt_ids"]
    state = _or_none(np.ndarray, _revived(record["state"]))
    return End(_a(bool, truncated), _revived(seen), None if ids is None else _ids(ids), state)


def _made_as(record: Any) -> dict[str, Any] | None:
    if record is None:
        return None
    made: dict[str, Any] = _a(dict, _revived(record))
    for word in (made["name"], *_a(dict, made["options"])):
        _a(str, word)
    return made


def _tokens(record: Mapping[str, Any]) -> Tokens:
    allowed = record["allowed"]
    return Tokens(
        prompt_ids=_ids(record["prompt_ids"]),
        completion_ids=_ids(record["completion_ids"]),
        logprobs=tuple(map(_number, _a(list, record["logprobs"]))),
        model=_a(str, record["model"]),
        allowed=None if allowed is None else tuple(map(_ids, _a(list, allowed))),
    )


def _ids(value: Any) -> tuple[int, ...]:
    return tuple(_a(int, each) for each in _a(list, value))


def _number(value: Any) -> float:
    """A number as it was written, whole ones too, that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r:.80} is no number")
    float(value)
    return value


def _a(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{value!r:.80} is no {kind.__name__}")
    return value


def _or_none(kind: type[Any], value: Any) -> Any:
    return None if value is None else _a(kind, value)


# JSON knows no arrays, numpy scalars, tuples or keys that are no text; each is written as a
# tagged object.
_TAG = "__numpy__"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = value.ravel().tolist()
        return {_TAG: "array", "dtype": value.dtype.str, "shape": value.shape, "data": data}
    if isinstance(value, np.generic):
        return {_TAG: "scalar", "dtype": value.dtype.str, "data": value.item()}
    if isinstance(value, tuple):
        return {_TAG: "tuple", "data": [_plain(entry) for entry in value]}
    if isinstance(value, Mapping):
        if _TAG in value or not all(isinstance(key, str) for key in value):
            pairs = [[_plain(key), _plain(entry)] for key, entry in value.items()]
            return {_TAG: "mapping", "data": pairs}
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        tag = value.get(_TAG)
        if tag == "array":
            shape = _ids(value["shape"])
            if min(shape, default=0) < 0:
                raise ValueError(f"{shape} is no shape")
            return _array(_a(list, value["data"]), value["dtype"]).reshape(shape)
        if tag == "scalar":
            return _array([value["data"]], value["dtype"])[0]
        if tag == "tuple":
            return tuple(_revived(entry) for entry in _a(list, value["data"]))
        if tag == "mapping":
            return {_revived(key): _revived(entry) for key, entry in value["data"]}
        return {key: _revived(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_revived(entry) for entry in value]
    return value


_KINDS: dict[str, tuple[type, ...]] = {
    "b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "U": (str,)
}  # fmt: skip
"""Kind of an array -> what its data are in JSON; no other kind is read."""
_DTYPE = re.compile(r"(?:[<>|](?:b1|[iu][1248]|f[248])|[<>]U(\d{1,9}))")


def _array(data: list[Any], dtype: Any) -> np.ndarray:
    """The data in one dimension: no larger than they are in the record."""
    known = _DTYPE.fullmatch(_a(str, dtype))
    if known is None:
        raise ValueError(f"arrays of {dtype!r:.40} are not read")
    allowed = _KINDS[dtype[1]]
    for entry in data:
        if not isinstance(entry, allowed) or (isinstance(entry, bool) and bool not in allowed):
            raise TypeError(f"{entry!r:.40} does not fit into an array of {dtype}")
    if known[1] and int(known[1]) > max(map(len, data), default=1):
        raise ValueError(f"no text of an array of {dtype} is that long")
    with np.errstate(over="raise"):
        return np.array(data, dtype=dtype)
