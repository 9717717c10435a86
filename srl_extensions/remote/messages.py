"""Values, spaces and results of environments as JSON, without loss.

Messages may come from anyone. Reading them runs no code, and takes memory in proportion to their
size.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from srl_envs.text import TextAction, TextSpace
from srl_envs.validation import Reset, Step
from srl_extensions.remote.errors import WireError

TAG = "__type__"
"""Key of mappings that encode arrays ("array"), NumPy numbers ("scalar"), tuples ("tuple") and
mappings with keys other than texts ("pairs"). This form is three times as fast as the readable one
of `srl_envs.records`."""
DTYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[248])")
"""Allowed types of arrays: booleans, integers and floats."""
_PLAIN = frozenset({str, int, float, bool, type(None)})


def pack(value: Any) -> bytes:
    """Return plain values and NumPy arrays as JSON. Raises WireError for other values."""
    try:
        return json.dumps(_encoded(value), separators=(",", ":")).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise WireError(f"a value cannot be sent: {error}") from error


def unpack(data: bytes) -> Any:
    """Return the value of JSON. Arrays are writable. Raises WireError for invalid data."""
    try:
        return _decoded(json.loads(data))
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise WireError(f"a value cannot be read: {error}") from error


def _encoded(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, np.ndarray | np.generic):
        name = value.dtype.str
        if DTYPE.fullmatch(name) is None:
            raise WireError(f"an array of {value.dtype} cannot be sent")
        data = b64encode(value.tobytes()).decode("ascii")
        shape = {} if isinstance(value, np.generic) else {"shape": value.shape}
        return {TAG: "array" if shape else "scalar", "dtype": name, "data": data, **shape}
    if kind is dict or isinstance(value, Mapping):
        if TAG in value or not all(isinstance(key, str) for key in value):
            return {TAG: "pairs", "data": [_encoded(list(pair)) for pair in value.items()]}
        return {key: _encoded(one) for key, one in value.items()}
    if kind is list:
        return [_encoded(one) for one in value]
    if isinstance(value, tuple):
        return {TAG: "tuple", "data": [_encoded(one) for one in value]}
    if isinstance(value, str | int | float | list):  # subclasses, such as TextAction
        return value
    raise WireError(f"{value!r:.80} is a {kind.__name__}, which cannot be sent")


def _decoded(value: Any) -> Any:
    if type(value) is list:
        return [_decoded(one) for one in value]
    if type(value) is not dict:
        return value
    tag = value.get(TAG)
    if tag is None:
        return {key: _decoded(one) for key, one in value.items()}
    data = value["data"]
    match tag:
        case "array":
            raw = bytearray(b64decode(data, validate=True))
            return np.frombuffer(raw, _dtype(value["dtype"])).reshape(value["shape"])
        case "scalar":
            return np.frombuffer(b64decode(data, validate=True), _dtype(value["dtype"]))[0]
        case "tuple":
            return tuple(map(_decoded, data))
        case "pairs":
            return {_decoded(key): _decoded(one) for key, one in data}
    raise WireError(f"{tag!r:.40} is not a type of value")


@functools.lru_cache(maxsize=64)
def _dtype(name: str) -> np.dtype[Any]:
    if not DTYPE.fullmatch(name):
        raise WireError(f"arrays of {name!r:.40} are not read")
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
    if between:
        rewards, terminations, truncations = between
        between = [
            {agent: float(reward) for agent, reward in rewards.items()},
            {agent: bool(ended) for agent, ended in terminations.items()},
            {agent: bool(ended) for agent, ended in truncations.items()},
        ]
    infos = {agent: infos.get(agent, {}) for agent in observations}
    return pack([list(env.agents), observations, *between, infos])


def unpack_outcome(content: bytes) -> tuple[list[str], Reset | Step]:
    """Return the agents that play on and the result. Raises WireError for invalid content."""
    match unpack(content):
        case [list() as playing, dict() as observations, *between, dict() as infos] if len(
            between
        ) in (0, 3):
            pass
        case _:
            raise WireError("a frame must contain agents, observations and infos")
    named = all(isinstance(agent, str) for agent in playing) and observations.keys() >= set(playing)
    if not named or len(set(playing)) < len(playing):
        raise WireError("a frame has agents without observations")
    kinds = [*zip(between, (float, bool, bool), strict=False), (infos, dict)]
    for values, kind in kinds:
        complete = isinstance(values, dict) and values.keys() == observations.keys()
        if not complete or not all(isinstance(value, kind) for value in values.values()):
            raise WireError("a frame must have one value of the right type for each agent")
    if between and not all(map(math.isfinite, between[0].values())):
        raise WireError("rewards must be finite")
    outcome: Any = (observations, *between, infos)
    return playing, outcome


def pack_actions(actions: Mapping[str, Any]) -> bytes:
    """Return the actions of a step, with the answers from which they were parsed."""
    texts = {agent: one.text for agent, one in actions.items() if isinstance(one, TextAction)}
    return pack([dict(actions), texts])


def unpack_actions(data: bytes) -> dict[str, Any]:
    """Return the actions of a step. Raises WireError for invalid data."""
    match unpack(data):
        case [dict() as actions, dict() as texts]:
            pass
        case _:
            raise WireError("actions must be two mappings by agent")
    for agent, text in texts.items():
        if isinstance(text, str) and isinstance(actions.get(agent), int):
            actions[agent] = TextAction(actions[agent], text)
    return actions


def text_digest(env: Any) -> str:
    """Return the SHA-256 of an environment's texts, empty if it has no text view.

    Client and server with the same rules and answers have the same digest.
    """
    view = getattr(env.unwrapped, "text_view", None)
    if view is None:
        return ""
    texts = [(agent, view.rules(agent), view.answers(agent)) for agent in env.possible_agents]
    words = repr((texts, view.default_action, float(view.parse_penalty)))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()
