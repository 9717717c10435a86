"""Values, spaces and frames as messages of the gRPC protocol, without loss.

Messages may come from anyone. Reading them runs no code, and takes memory in proportion to their
size.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

import srl_extensions.remote.environments_pb2 as pb
from srl_envs.text import TextAction, TextSpace
from srl_envs.validation import Reset, Step
from srl_extensions.remote.errors import WireError

DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
"""Allowed types of arrays: booleans, integers and floats."""
INT64 = 2**63
LARGEST = 1024
"""Maximum number of bytes of an integer."""
MOST_ALIKE = 2**18
"""Maximum number of arrays and mappings in the compact lists of one call.

A few bytes can denote an array there, and nested columns a mapping at every level."""


def to_value(value: Any) -> pb.Value:
    """Return the message of a value; see `write`."""
    message = pb.Value()
    write(value, message)
    return message


def write(value: Any, message: pb.Value) -> None:
    """Write a value into a message, in place.

    Args:
        value: None, bool, int, float, str, lists, tuples, mappings, NumPy arrays and numbers.
        message: An empty message.

    Raises:
        WireError: For any other value.
    """
    writer = _WRITERS.get(type(value))
    if writer is None:  # subclasses: np.float64 is a float and must match NumPy's type first
        writer = next((own for kind, own in _WRITERS.items() if isinstance(value, kind)), None)
    if writer is None:
        raise WireError(f"{value!r:.80} is a {type(value).__name__}, which cannot be sent")
    writer(value, message)


def to_array(array: np.ndarray) -> pb.Array:
    """Return the message of an array. Raises WireError for objects and texts."""
    message = pb.Array()
    _write_array(array, message)
    return message


def _write_array(array: np.ndarray, message: pb.Array) -> None:
    message.dtype = _dtype_name(array.dtype)
    message.shape.extend(array.shape)
    message.data = array.tobytes()


@functools.lru_cache(maxsize=64)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    name: str = dtype.str
    if not DTYPE.fullmatch(name):
        raise WireError(f"an array of {dtype} cannot be sent")
    return name


def _write_int(value: int, message: pb.Value) -> None:
    if -INT64 <= value < INT64:
        message.whole = value
        return
    size = int(value).bit_length() // 8 + 1
    if size > LARGEST:
        raise WireError(f"an integer of {size} bytes cannot be sent; at most {LARGEST} are allowed")
    message.large = int(value).to_bytes(size, "little", signed=True)


def _write_text(text: str, message: pb.Value) -> None:
    try:
        message.text = text
    except ValueError as error:  # a lone surrogate, which a model may write
        raise WireError(f"{text!r:.80} is not valid Unicode") from error


def _write_mapping(mapping: Mapping[Any, Any], message: pb.Value) -> None:
    if not all(isinstance(key, str) for key in mapping):
        _write_items([part for pair in mapping.items() for part in pair], message.pairs)
        return
    message.mapping.SetInParent()
    message.mapping.names.extend(mapping)
    for value in mapping.values():
        write(value, message.mapping.values.add())


def _write_items(items: Sequence[Any], message: pb.Items) -> None:
    message.SetInParent()
    for item in items:
        write(item, message.items.add())


def _write_list(items: Sequence[Any], message: pb.Value) -> None:
    """Write a list in the compact form for its type if there is one."""
    kinds = set(map(type, items))
    compact = _COMPACT.get(kinds.pop()) if len(kinds) == 1 else None
    if compact is None or not compact(items, message):
        _write_items(items, message.list)


def _write_rows(arrays: Sequence[np.ndarray], message: pb.Value) -> bool:
    dtype, shape = arrays[0].dtype, arrays[0].shape
    if 0 in shape or any(one.dtype != dtype or one.shape != shape for one in arrays):
        return False
    message.rows.dtype = _dtype_name(dtype)
    message.rows.shape.extend((len(arrays), *shape))
    message.rows.data = b"".join([one.tobytes() for one in arrays])
    return True


def _write_numbers(numbers: Sequence[float], message: pb.Value) -> bool:
    message.numbers.numbers.extend(numbers)
    return True


def _write_columns(mappings: Sequence[Mapping[Any, Any]], message: pb.Value) -> bool:
    names = list(mappings[0])
    alike = all(list(one) == names for one in mappings)
    if not names or not alike or not all(isinstance(name, str) for name in names):
        return False
    message.columns.names.extend(names)
    for name in names:
        _write_list([one[name] for one in mappings], message.columns.values.add())
    return True


def _field_writer(field: str) -> Callable[[Any, pb.Value], None]:
    return lambda value, message: setattr(message, field, value)


_WRITERS: dict[type, Callable[[Any, pb.Value], None]] = {
    np.ndarray: lambda array, message: _write_array(array, message.array),
    np.generic: lambda number, message: _write_array(np.asarray(number), message.scalar),
    bool: _field_writer("flag"),
    int: _write_int,
    float: _field_writer("number"),
    str: _write_text,
    tuple: lambda items, message: _write_items(items, message.tuple),
    list: _write_list,
    dict: _write_mapping,
    Mapping: _write_mapping,
    type(None): lambda none, message: setattr(message, "none", True),
}
_COMPACT: dict[type, Callable[[Any, pb.Value], bool]] = {
    np.ndarray: _write_rows,
    float: _write_numbers,
    dict: _write_columns,
}
"""Type of a list's items -> writer that returns False if the items differ too much."""


class Room:
    """Number of values that the compact lists of a call may still contain."""

    def __init__(self) -> None:
        self._left = MOST_ALIKE

    def take(self, count: int) -> None:
        """Subtract `count`. Raises WireError if less is left."""
        self._left -= count
        if self._left < 0:
            raise WireError(f"compact lists contain more than {MOST_ALIKE} values")


def from_value(message: pb.Value, room: Room | None = None) -> Any:
    """Return the value of a message. Arrays are writable copies.

    Args:
        message: The message.
        room: Limit shared by the values of a call; by default one for this value.

    Raises:
        WireError: If the message is not a valid value.
    """
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError("a value is missing")
    content = getattr(message, kind)
    room = room or Room()
    match kind:
        case "flag" | "whole" | "number" | "text":
            return content
        case "none":
            return None
        case "array":
            return from_array(content)
        case "scalar":
            return from_array(content)[()]
        case "numbers":
            return list(content.numbers)
        case "mapping":
            return _read_mapping(content, room)
        case "rows":
            return _read_rows(content, room)
        case "columns":
            return _read_columns(content, room)
        case "large":
            if len(content) > LARGEST:
                raise WireError(f"an integer of {len(content)} bytes; at most {LARGEST} are read")
            return int.from_bytes(content, "little", signed=True)
    items = [from_value(item, room) for item in content.items]
    if kind == "pairs":
        try:
            return dict(zip(items[::2], items[1::2], strict=True))
        except (TypeError, ValueError) as error:  # a list as a key, or a key without a value
            raise WireError(f"{len(items)} values are not pairs of a mapping") from error
    return tuple(items) if kind == "tuple" else items


def from_array(message: pb.Array) -> np.ndarray:
    """Return a writable array. Raises WireError if dtype, shape and data do not match."""
    dtype, shape, data = _dtype(message.dtype), tuple(message.shape), message.data
    try:
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError("another size")
        return np.ndarray(shape, dtype, bytearray(data))
    except (ValueError, OverflowError) as error:
        raise WireError(f"{len(data)} bytes of {dtype} do not have the shape {shape}") from error


def mapping_of(message: pb.Value, what: str) -> dict[str, Any]:
    """Return a mapping with text keys. Raises WireError, naming `what`, for any other value."""
    if message.WhichOneof("kind") != "mapping":
        raise WireError(f"{what} must be a mapping of names to values")
    return _read_mapping(message.mapping, Room())


@functools.lru_cache(maxsize=64)
def _dtype(name: str) -> np.dtype[Any]:
    if not DTYPE.fullmatch(name):
        raise WireError(f"arrays of {name!r:.40} are not read")
    return np.dtype(name)


def _read_mapping(message: pb.Mapping, room: Room) -> dict[str, Any]:
    values = [from_value(value, room) for value in message.values]
    if len(values) != len(message.names):
        raise WireError(f"a mapping has {len(message.names)} names and {len(values)} values")
    return dict(zip(message.names, values, strict=True))


def _read_rows(message: pb.Array, room: Room) -> list[np.ndarray]:
    rows = from_array(message)
    if not rows.size:  # the number of rows would not be bounded by the data
        raise WireError(f"rows of shape {rows.shape} are empty")
    room.take(len(rows))
    return [rows[row, ...].copy() for row in range(len(rows))]


def _read_columns(message: pb.Mapping, room: Room) -> list[dict[str, Any]]:
    columns = _read_mapping(message, room)
    if not columns or not all(isinstance(column, list) for column in columns.values()):
        raise WireError("columns must be lists, at least one")
    room.take(max(map(len, columns.values())))
    try:
        rows = list(zip(*columns.values(), strict=True))
    except ValueError as error:
        raise WireError("columns must have the same length") from error
    return [dict(zip(columns, row, strict=True)) for row in rows]


def to_space(space: spaces.Space[Any]) -> pb.Space:
    """Return the message of a space. Raises WireError for a type outside the protocol."""
    match space:
        case spaces.Box():
            return pb.Space(box=pb.Box(low=to_array(space.low), high=to_array(space.high)))
        case spaces.Discrete():
            size, start = to_value(space.n).scalar, to_value(space.start).scalar
            return pb.Space(discrete=pb.Discrete(size=size, start=start))
        case spaces.MultiDiscrete():
            sizes, start = to_array(space.nvec), to_array(space.start)
            return pb.Space(multi_discrete=pb.MultiDiscrete(sizes=sizes, start=start))
        case spaces.MultiBinary():
            return pb.Space(multi_binary=pb.MultiBinary(shape=space.shape))
        case TextSpace():
            return pb.Space(text=pb.Text(longest=space.max_length))
        case spaces.Text():
            letters = "".join(space.character_list)
            text = pb.Text(longest=space.max_length, shortest=space.min_length, letters=letters)
            return pb.Space(text=text)
        case spaces.Dict() if all(isinstance(key, str) for key in space.spaces):
            parts = map(to_space, space.spaces.values())
            return pb.Space(dict=pb.Parts(keys=list(space.spaces), parts=parts))
        case spaces.Tuple():
            return pb.Space(tuple=pb.Parts(parts=map(to_space, space.spaces)))
    raise WireError(f"{space!r:.200} cannot be sent")


def from_space(message: pb.Space) -> spaces.Space[Any]:
    """Return the space of a message. Raises WireError for an invalid one."""
    try:
        return _read_space(message)
    except (AssertionError, TypeError, ValueError) as error:  # raised by Gymnasium
        raise WireError(f"a space is invalid: {error}") from error


def _read_space(message: pb.Space) -> spaces.Space[Any]:
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError("a space is missing")
    content = getattr(message, kind)
    match kind:
        case "box":
            low, high = from_array(content.low), from_array(content.high)
            return spaces.Box(low, high, dtype=low.dtype.type)
        case "discrete":
            size, first = from_value(pb.Value(scalar=content.size)), content.start
            start = from_value(pb.Value(scalar=first))
            return spaces.Discrete(size, start=start, dtype=size.dtype.type)
        case "multi_discrete":
            sizes, start = from_array(content.sizes), from_array(content.start)
            return spaces.MultiDiscrete(sizes, dtype=sizes.dtype.type, start=start)
        case "multi_binary":
            return spaces.MultiBinary(list(content.shape))
        case "text":
            if not content.HasField("letters"):
                return TextSpace(content.longest)
            return spaces.Text(
                content.longest, min_length=content.shortest, charset=content.letters
            )
        case "dict":
            pairs = zip(content.keys, map(_read_space, content.parts), strict=True)
            return spaces.Dict(OrderedDict(pairs))
        case _:
            return spaces.Tuple(map(_read_space, content.parts))


def to_frame(session: str, turn: int, outcome: Reset | Step, env: Any) -> pb.Frame:
    """Return the message of the result of `env.reset()` or `env.step()`."""
    observations, infos = outcome[0], outcome[-1]
    agents = list(observations)
    frame = pb.Frame(session=session, turn=turn, agents=agents, playing=env.agents)
    write(list(observations.values()), frame.observations)
    write([infos.get(agent, {}) for agent in agents], frame.infos)
    if len(outcome) == 5:
        _, rewards, terminations, truncations, _ = outcome
        frame.rewards.extend([float(rewards[agent]) for agent in agents])
        frame.terminations.extend([bool(terminations[agent]) for agent in agents])
        frame.truncations.extend([bool(truncations[agent]) for agent in agents])
    return frame


def from_reset(frame: pb.Frame) -> Reset:
    """Return the result of `reset()`. Raises WireError for an invalid frame."""
    agents = list(frame.agents)
    infos = _by_agent(agents, from_value(frame.infos))
    if not all(isinstance(info, dict) for info in infos.values()):
        raise WireError("infos must be mappings")
    return _by_agent(agents, from_value(frame.observations)), infos


def from_step(frame: pb.Frame) -> Step:
    """Return the result of `step()`. Raises WireError for an invalid frame."""
    observations, infos = from_reset(frame)
    rewards, terminations, truncations = (
        _by_agent(observations, values)
        for values in (frame.rewards, frame.terminations, frame.truncations)
    )
    if not all(map(math.isfinite, frame.rewards)):
        raise WireError("rewards must be finite")
    return observations, rewards, terminations, truncations, infos


def _by_agent(agents: Iterable[str], values: Any) -> dict[str, Any]:
    try:
        return dict(zip(agents, values, strict=True))
    except (TypeError, ValueError) as error:
        raise WireError("a frame must have one value for each agent") from error


def write_actions(actions: Mapping[str, Any], messages: Any) -> None:
    """Write the actions of a step into a repeated field of messages."""
    for agent, action in actions.items():
        message = messages.add()
        message.agent = agent
        write(action, message.action)
        if isinstance(action, TextAction):
            message.text = action.text


def from_actions(messages: Iterable[pb.Action]) -> dict[str, Any]:
    """Return the actions of a step. Raises WireError for an invalid value."""
    actions, room = {}, Room()
    for message in messages:
        action = from_value(message.action, room)
        if message.HasField("text") and isinstance(action, int):
            action = TextAction(action, message.text)
        actions[message.agent] = action
    return actions


def text_digest(env: Any) -> bytes:
    """Return the SHA-256 of an environment's texts, empty if it has no text view.

    Client and server with the same rules and answers have the same digest.
    """
    view = getattr(env.unwrapped, "text_view", None)
    if view is None:
        return b""
    texts = [(agent, view.rules(agent), view.answers(agent)) for agent in env.possible_agents]
    words = repr((texts, view.default_action, float(view.parse_penalty)))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
