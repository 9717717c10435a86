"""Values, spaces and results of environments as JSON, without loss.

Messages may come from anyone. Reading them runs no code, and takes memory in proportion to their
size.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.records import decode, encode, is_plain
from srl_envs.text import TextAction, TextSpace
from srl_envs.validation import Reset, Step
from srl_extensions.remote.errors import RemoteError


def pack(value: Any) -> bytes:
    """Return a plain value (`records.is_plain`) as JSON; RemoteError for others."""
    try:
        if not is_plain(value):
            raise TypeError(f"{value!r:.80}")
        return json.dumps(encode(value), separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise RemoteError(f"a value cannot be sent: {error}") from error


def unpack(data: bytes) -> Any:
    """Return the value that `pack` received; RemoteError for invalid data."""
    try:
        return decode(json.loads(data))
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise RemoteError(f"a value cannot be read: {error}") from error


def unpack_options(data: bytes) -> dict[str, Any]:
    """Return a packed mapping, name -> value; RemoteError for other data."""
    value = unpack(data)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise RemoteError("options must be a mapping of names to values")
    return value


SPACES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Box": (spaces.Box, ("low", "high", "dtype")),
    "Discrete": (spaces.Discrete, ("n", "start", "dtype")),
    "MultiBinary": (spaces.MultiBinary, ("n",)),
    "MultiDiscrete": (spaces.MultiDiscrete, ("nvec", "start", "dtype")),
    "TextSpace": (TextSpace, ("max_length",)),
}
"""Type of a space -> its class, and the arguments of its constructor."""


def to_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return {"type": class name, argument: value, ...} for `pack`; bounds remain arrays.

    Raises RemoteError for an unsupported space.
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {key: to_space(one) for key, one in space.items()}}
    if kind not in SPACES:
        raise RemoteError(f"{space!r:.200} cannot be sent")
    arguments = {name: getattr(space, name) for name in SPACES[kind][1]}
    if "dtype" in arguments:
        arguments["dtype"] = arguments["dtype"].str
    return {"type": kind, **arguments}


def from_space(plain: Any) -> spaces.Space[Any]:
    """Return a new space from the result of `to_space`; RemoteError for invalid data."""
    try:
        if plain["type"] == "Dict":
            return spaces.Dict({key: from_space(one) for key, one in plain["spaces"].items()})
        kind, names = SPACES[plain["type"]]
        space: spaces.Space[Any] = kind(**{name: plain[name] for name in names})
        return space
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RemoteError(f"a space is invalid: {plain!r:.80}") from error


@dataclass(frozen=True)
class Description:
    """Constant attributes of an environment; `teams` and `max_cycles` may be None."""

    observation_spaces: dict[str, Any]
    """Agent -> result of `to_space`."""
    action_spaces: dict[str, Any]
    metadata: dict[str, Any]
    teams: dict[str, str] | None
    baselines: dict[str, float] | None
    """Mean rewards, or None if the game's baselines are returns."""
    max_cycles: int | None
    has_text: bool
    """True if the environment has a text view."""


RESULTS = (float, bool, bool)
"""Types of a reward, a termination and a truncation."""


def pack_outcome(outcome: Reset | Step, env: Any) -> bytes:
    """Return JSON [active agents, *results of all agents with an observation]; errors of `pack`."""
    observations, *table, infos = list[Any](outcome)
    infos = {agent: infos.get(agent, {}) for agent in observations}
    if table:
        kinds = zip(RESULTS, table, strict=True)
        table = [{agent: kind(column[agent]) for agent in observations} for kind, column in kinds]
    return pack([list(env.agents), observations, *table, infos])


def unpack_outcome(
    frame: bytes, kinds: Sequence[type], observed: Mapping[str, Any], required: Iterable[str]
) -> tuple[list[str], Any]:
    """Return active agents and the result of a reset (`kinds` is empty) or step (RESULTS).

    The result is (observations, ..., infos), mappings by agent. Raises RemoteError if the frame is
    invalid: wrong shapes or types, agents outside `observed` (agent -> space), rewards that are not
    finite, or no results for an active agent or one in `required`.
    """
    match unpack(frame):
        case [list() as playing, dict() as observations, *table] if len(table) == len(kinds) + 1:
            agents = list(observations)
        case _:
            raise RemoteError("a frame must contain agents and mappings by agent")
    known = all(agent in observed for agent in agents)
    if not known or not all(agent in agents for agent in (*playing, *required)):
        raise RemoteError("a frame has other agents than those that play")
    for agent, seen in observations.items():
        shape = observed[agent].shape
        if shape is not None and (np.shape(seen) != shape or isinstance(seen, str)):
            raise RemoteError(f"an observation of {agent} does not have the shape {shape}")
    for kind, column in zip((*kinds, dict), table, strict=True):
        right = isinstance(column, dict) and list(column) == agents
        if not right or not all(type(value) is kind for value in column.values()):
            raise RemoteError(f"a frame must have a {kind.__name__} for each agent")
        if kind is float and not all(map(math.isfinite, column.values())):
            raise RemoteError("rewards must be finite")
    return playing, (observations, *table)


def pack_actions(actions: Mapping[str, Any]) -> bytes:
    """Return JSON [agent -> action, agent -> text of its TextAction]; RemoteError as `pack`."""
    texts = {agent: one.text for agent, one in actions.items() if isinstance(one, TextAction)}
    return pack([dict(actions), texts])


def unpack_actions(data: bytes) -> dict[str, Any]:
    """Return the actions that `pack_actions` received; RemoteError for other data."""
    match unpack(data):
        case [dict() as actions, dict() as texts]:
            pass
        case _:
            raise RemoteError("actions must be two mappings by agent")
    for agent, text in texts.items():
        if isinstance(text, str) and isinstance(actions.get(agent), int):
            actions[agent] = TextAction(actions[agent], text)
    return actions
