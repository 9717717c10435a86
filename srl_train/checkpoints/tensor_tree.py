"""Nested state (optimizers, schedulers, strategies) as JSON and named tensors, losslessly.

Plain JSON would turn tuples into lists and the integer keys of an optimizer's state into text;
both are written as marked objects instead, so that what is read back equals what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from srl_train.errors import CheckpointError

_TENSOR, _TUPLE, _PAIRS = "__tensor__", "__tuple__", "__pairs__"
_MARKS = frozenset({_TENSOR, _TUPLE, _PAIRS})


def split_tensors(value: Any) -> tuple[dict[str, Tensor], Any]:
    """(tensors by name, the rest as JSON-able data) of nested mappings, lists and tuples.

    `join_tensors` gives back an equal value, its tensors equal to the bit. Made for
    `optimizer.state_dict()`, a scheduler's, a strategy's state. Raises CheckpointError naming the
    place of anything that is not a tensor, number, text, None, list, tuple or mapping.
    """
    tensors: dict[str, Tensor] = {}

    def plain(value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Tensor):
            name = path
            while name in tensors:  # {"a": {"b": t}, "a/b": t} give the same path
                name += "_"
            tensors[name] = value.detach()
            return {_TENSOR: name}
        if isinstance(value, list):
            return [plain(entry, f"{path}/{index}") for index, entry in enumerate(value)]
        if isinstance(value, tuple):
            return {_TUPLE: [plain(entry, f"{path}/{index}") for index, entry in enumerate(value)]}
        if isinstance(value, Mapping):
            entries = [(key, plain(entry, f"{path}/{key}")) for key, entry in value.items()]
            if all(isinstance(key, str) for key in value) and _MARKS.isdisjoint(value):
                return dict(entries)
            return {_PAIRS: [[plain(key, f"{path}/key"), entry] for key, entry in entries]}
        raise CheckpointError(
            f"{path} is a {type(value).__module__}.{type(value).__qualname__}: a checkpoint holds "
            "tensors, numbers, text, None, lists, tuples and mappings"
        )

    return tensors, plain(value, "state")


def join_tensors(tensors: Mapping[str, Tensor], plain: Any) -> Any:
    """The value that `split_tensors` took apart."""
    if isinstance(plain, list):
        return [join_tensors(tensors, entry) for entry in plain]
    if isinstance(plain, dict):
        if _TENSOR in plain:
            return tensors[plain[_TENSOR]]
        if _TUPLE in plain:
            return tuple(join_tensors(tensors, entry) for entry in plain[_TUPLE])
        if _PAIRS in plain:
            return {
                join_tensors(tensors, key): join_tensors(tensors, entry)
                for key, entry in plain[_PAIRS]
            }
        return {key: join_tensors(tensors, entry) for key, entry in plain.items()}
    return plain


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested mappings, lists and plain tuples with what `change` makes of all that they hold."""
    if isinstance(value, Mapping):
        return {key: mapped(entry, change) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(entry, change) for entry in value)
    return change(value)


def misfit(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """In what the tensors have not the expected names and shapes; None where they have."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            return f"{name!r:.80} is no tensor of it"
        if name not in found:
            return f"its tensor {name!r:.80} is missing"
        own, other = tuple(found[name].shape), tuple(expected[name].shape)
        if own != other:
            return f"{name!r:.80} is {own}, not {other}"
    return None
