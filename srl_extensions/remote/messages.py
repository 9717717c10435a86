"""Values, spaces and results of environments as JSON and bytes of arrays, without loss.

Messages may come from anyone. Reading them runs no code, and takes memory in proportion to their
size.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.text import TextAction, TextSpace
from srl_envs.validation import Reset, Step
from srl_extensions.remote.errors import WireError

TAG = "__type__"
"""Key of mappings that encode arrays ("array"), NumPy numbers ("scalar"), tuples ("tuple") and
mappings with keys other than texts ("pairs")."""
DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
"""Allowed types of arrays: booleans, integers and floats."""
ALIGNMENT = 8
"""Arrays start at multiples of this number of bytes."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_TEXT = {str}
_JSON = json.JSONEncoder(separators=(",", ":"))


def pack(value: Any) -> bytes:
    """Return plain values and NumPy arrays: a line of JSON, then the bytes of all arrays.

    Raises:
        WireError: For other values.
    """
    buffers: list[bytes] = []
    try:
        head = _JSON.encode(_encoded(value, buffers))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a value cannot be sent: {error}") from error
    return b"".join([head.encode("ascii"), b"\n", *buffers])


def unpack(data: bytes) -> Any:
    """Return the value of packed bytes. Arrays are writable. Raises WireError for invalid data."""
    head, _, body = data.partition(b"\n")
    buffer, start = bytearray(body), 0

    def array(shape: Any, dtype: Any) -> np.ndarray:
        nonlocal start
        if type(shape) is not list:
            raise WireError(f"{shape!r:.40} is not a shape")
        # NumPy refuses a shape with more elements than the buffer has left.
        found: np.ndarray = np.ndarray(shape, _dtype(dtype), buffer, start)
        start += found.nbytes + -found.nbytes % ALIGNMENT
        return found

    def decoded(value: dict[str, Any]) -> Any:
        match value.get(TAG):
            case None:
                return value
            case "array":
                return array(value["shape"], value["dtype"])
            case "scalar":
                return array([], value["dtype"])[()]
            case "tuple":
                return tuple(value["data"])
            case "pairs":
                return dict(value["data"])
        raise WireError(f"{value[TAG]!r:.40} is not a type of value")

    try:
        text = head.decode("ascii")
        # Reading without a hook is several times as fast, and most actions need none.
        value = json.loads(text, object_hook=decoded if TAG in text else None)
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise WireError(f"a value cannot be read: {error}") from error
    if start != len(buffer):
        raise WireError(f"arrays have {start} bytes, and {len(buffer)} came")
    return value


def _encoded(value: Any, buffers: list[bytes]) -> Any:
    """Return a value as JSON has it, and append the bytes of its arrays in the same order."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, np.ndarray | np.generic):
        data, dtype = value.tobytes(), _dtype(value.dtype.str).str
        buffers.append(data + bytes(-len(data) % ALIGNMENT))
        if isinstance(value, np.generic):
            return {TAG: "scalar", "dtype": dtype}
        return {TAG: "array", "dtype": dtype, "shape": value.shape}
    if kind is dict or isinstance(value, Mapping):
        if TAG in value or (value and set(map(type, value)) != _TEXT):
            pairs = [[_encoded(part, buffers) for part in pair] for pair in value.items()]
            return {TAG: "pairs", "data": pairs}
        return {
            key: one if type(one) in _PLAIN else _encoded(one, buffers)
            for key, one in value.items()
        }
    if kind is list:
        return [one if type(one) in _PLAIN else _encoded(one, buffers) for one in value]
    if isinstance(value, tuple):
        return {TAG: "tuple", "data": [_encoded(one, buffers) for one in value]}
    if isinstance(value, str | int | float | list):  # subclasses, such as TextAction
        return value
    raise WireError(f"{value!r:.80} is a {kind.__name__}, which cannot be sent")


@functools.lru_cache(maxsize=64)
def _dtype(name: str) -> np.dtype[Any]:
    if not DTYPE.fullmatch(name):
        raise WireError(f"arrays of {name!r:.40} are not allowed")
    return np.dtype(name)


def unpack_mapping(data: bytes, what: str) -> dict[str, Any]:
    """Return a mapping with text keys. Raises WireError, naming `what`, for any other value."""
    value = unpack(data)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise WireError(f"{what} must be a mapping of names to values")
    return value


def to_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return a space as plain data. Raises WireError for a type outside the protocol."""
    match space:
        case spaces.Box():
            return {"type": "Box", "low": space.low, "high": space.high}
        case spaces.Discrete():
            return {"type": "Discrete", "n": space.n, "start": space.start}
        case spaces.MultiDiscrete():
            return {"type": "MultiDiscrete", "nvec": space.nvec, "start": space.start}
        case spaces.MultiBinary():
            return {"type": "MultiBinary", "shape": list(space.shape)}
        case TextSpace():
            return {"type": "TextSpace", "max_length": space.max_length}
        case spaces.Text():
            letters = "".join(space.character_list)
            lengths = {"max_length": space.max_length, "min_length": space.min_length}
            return {"type": "Text", "charset": letters, **lengths}
        case spaces.Dict() if all(isinstance(key, str) for key in space.spaces):
            return {"type": "Dict", "spaces": {k: to_space(s) for k, s in space.spaces.items()}}
        case spaces.Tuple():
            return {"type": "Tuple", "spaces": [to_space(part) for part in space.spaces]}
    raise WireError(f"{space!r:.200} cannot be sent")


def from_space(plain: Any) -> spaces.Space[Any]:
    """Return the space of plain data. Raises WireError for invalid data."""
    try:
        match plain:
            case {"type": "Box", "low": low, "high": high}:
                return spaces.Box(low, high, dtype=low.dtype.type)
            case {"type": "Discrete", "n": n, "start": start}:
                return spaces.Discrete(n, start=start, dtype=n.dtype.type)
            case {"type": "MultiDiscrete", "nvec": nvec, "start": start}:
                return spaces.MultiDiscrete(nvec, dtype=nvec.dtype.type, start=start)
            case {"type": "MultiBinary", "shape": shape}:
                return spaces.MultiBinary(shape)
            case {"type": "TextSpace", "max_length": int(longest)}:
                return TextSpace(longest)
            case {"type": "Text", "max_length": longest, "min_length": least, "charset": letters}:
                return spaces.Text(longest, min_length=least, charset=letters)
            case {"type": "Dict", "spaces": dict() as parts}:
                return spaces.Dict({key: from_space(part) for key, part in parts.items()})
            case {"type": "Tuple", "spaces": [*parts]}:
                return spaces.Tuple(map(from_space, parts))
    except (AssertionError, AttributeError, TypeError, ValueError) as error:  # of Gymnasium
        raise WireError(f"a space is invalid: {error}") from error
    raise WireError(f"a space is invalid: {plain!r:.80}")


def pack_outcome(outcome: Reset | Step, env: Any) -> bytes:
    """Return the result of `env.reset()` or `env.step()` as the content of a frame."""
    observations, *between, infos = list[Any](outcome)
    agents = list(observations)
    shown = [infos.get(agent, {}) for agent in agents]
    columns: Any = shown
    if shown and all(one.keys() == shown[0].keys() for one in shown):
        columns = {key: _column([one[key] for one in shown]) for key in shown[0]}
    if between:
        # Rewards, terminations and truncations: a row of numbers for each, with agents as columns.
        between = [np.array([[row[agent] for agent in agents] for row in between], float)]
    seen = _column(list(observations.values()))
    playing = None if env.agents == agents else list(env.agents)
    return pack([agents, playing, seen, *between, columns])


def _column(values: list[Any]) -> Any:
    """Return the values as one array if all are arrays of one type and shape, else unchanged."""
    first = values[0] if values else None
    if isinstance(first, np.ndarray) and first.size and first.ndim:
        kind = first.dtype, first.shape
        if all(isinstance(one, np.ndarray) and (one.dtype, one.shape) == kind for one in values):
            return np.array(values)
    return values


def unpack_outcome(content: bytes) -> tuple[list[str], Reset | Step]:
    """Return the active agents and the result of a reset or step. Raises WireError if invalid."""
    match unpack(content):
        case [list() as agents, None | list() as playing, seen, *between, infos] if (
            len(between) < 2
        ):
            pass
        case _:
            raise WireError("a frame must contain agents, observations and infos")
    if not all(type(agent) is str for agent in [*agents, *(playing or ())]):
        raise WireError("the agents of a frame must be names")
    playing = list(agents if playing is None else playing)
    if len(set(agents)) < len(agents) or len(set(agents).intersection(playing)) < len(playing):
        raise WireError("a frame has agents without observations")
    columns = [_of_agents(seen, agents)]
    for table in between:
        if not isinstance(table, np.ndarray) or table.shape != (3, len(agents)):
            raise WireError("a frame must have a reward and two ends for each agent")
        rewards, *ends = table.tolist()
        if not all(map(math.isfinite, rewards)):
            raise WireError("rewards must be finite")
        columns += [rewards, *([*map(bool, row)] for row in ends)]
    if isinstance(infos, dict):
        rows = zip(*(_of_agents(one, agents) for one in infos.values()), strict=True)
        infos = [dict(zip(infos, row, strict=True)) for row in rows] or [{} for _ in agents]
    columns.append(_of_agents(infos, agents))
    if not all(type(info) is dict for info in columns[-1]):
        raise WireError("infos must be mappings")
    outcome: Any = tuple([dict(zip(agents, column, strict=True)) for column in columns])
    return playing, outcome


def _of_agents(column: Any, agents: Sequence[str]) -> list[Any]:
    """Return a column's values as a list, one per agent. Raises WireError for another length."""
    is_column = isinstance(column, list) or (isinstance(column, np.ndarray) and column.ndim > 1)
    if not is_column or len(column) != len(agents):
        raise WireError("a frame must have one value for each agent")
    return list(column)


def pack_actions(actions: Mapping[str, Any]) -> bytes:
    """Return the actions of a step, with the answers from which they were parsed, if any."""
    texts = {agent: one.text for agent, one in actions.items() if isinstance(one, TextAction)}
    return pack([dict(actions), texts] if texts else [dict(actions)])


def unpack_actions(data: bytes) -> dict[str, Any]:
    """Return the actions of a step. Raises WireError for invalid data."""
    match unpack(data):
        case [dict() as actions]:
            return actions
        case [dict() as actions, dict() as texts]:
            pass
        case _:
            raise WireError("actions must be one or two mappings by agent")
    for agent, text in texts.items():
        if isinstance(text, str) and isinstance(actions.get(agent), int):
            actions[agent] = TextAction(actions[agent], text)
    return actions


def text_digest(env: Any) -> str:
    """Return the SHA-256 of an environment's rules and answers, empty without a text view."""
    view = getattr(env.unwrapped, "text_view", None)
    if view is None:
        return ""
    texts = [(agent, view.rules(agent), view.answers(agent)) for agent in env.possible_agents]
    words = repr((texts, view.default_action, float(view.parse_penalty)))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
