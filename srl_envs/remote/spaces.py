"""Gymnasium's spaces on the wire."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from gymnasium import spaces

from srl_envs.remote.errors import WireError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.values import from_array, from_value, to_array, to_value
from srl_envs.text import TextSpace


def to_space(space: spaces.Space[Any]) -> pb.Space:
    """The message of a space. Raises WireError for a kind that the protocol has not."""
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
    raise WireError(f"{space!r:.200} has no form on the wire")


def from_space(message: pb.Space) -> spaces.Space[Any]:
    """The space of a message. Raises WireError for what is none."""
    try:
        return _space(message)
    except (AssertionError, TypeError, ValueError) as error:  # as Gymnasium says it
        raise WireError(f"a space cannot be made: {error}") from error


def _space(message: pb.Space) -> spaces.Space[Any]:
    kind = message.WhichOneof("kind")
    if kind is None:
        raise WireError("a space is missing")
    told = getattr(message, kind)
    match kind:
        case "box":
            low, high = from_array(told.low), from_array(told.high)
            return spaces.Box(low, high, dtype=low.dtype.type)
        case "discrete":
            size = from_value(pb.Value(scalar=told.size))
            return spaces.Discrete(
                size, start=from_value(pb.Value(scalar=told.start)), dtype=size.dtype.type
            )
        case "multi_discrete":
            sizes = from_array(told.sizes)
            return spaces.MultiDiscrete(sizes, dtype=sizes.dtype.type, start=from_array(told.start))
        case "multi_binary":
            return spaces.MultiBinary(list(told.shape))
        case "text":
            if not told.HasField("letters"):
                return TextSpace(told.longest)
            return spaces.Text(told.longest, min_length=told.shortest, charset=told.letters)
        case "dict":
            pairs = zip(told.keys, map(_space, told.parts), strict=True)
            return spaces.Dict(OrderedDict(pairs))
        case _:
            return spaces.Tuple(map(_space, told.parts))
