"""Checks of loaded tensors and state: names, shapes, data types and structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of nested mappings, lists and plain tuples with `change` applied to leaves."""
    if isinstance(value, Mapping):
        return {key: mapped(entry, change) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(entry, change) for entry in value)
    return change(value)


def misfit(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return a message on the first name, shape or dtype that differs, None if all are equal.

    `expected` has the required tensors by name.
    """
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            return f"unknown tensor {name!r:.80}"
        if name not in found:
            return f"tensor {name!r:.80} is missing"
        for value, required in (
            (tuple(found[name].shape), tuple(expected[name].shape)),
            (found[name].dtype, expected[name].dtype),
        ):
            if value != required:
                return f"tensor {name!r:.80} must be {required}, got {value}"
    return None


def refuse_unlike(found: Any, expected: Any, path: str) -> None:
    """Raise ValueError, which names the location, unless `found` has the structure of `expected`.

    Keys, lengths and types (int and float count as one) must be equal, but not values. In
    `expected`, {} and [] accept any content, None also a number, and an object() everything.
    """
    kind: Any = type(expected)
    if expected is None:
        fits = found is None or isinstance(found, int | float)
    elif kind in (int, float):  # JSON does not distinguish them.
        fits = isinstance(found, int | float) and not isinstance(found, bool)
    else:
        fits = isinstance(found, kind)
    if not fits:
        raise ValueError(f"{path} must be of type {kind.__name__}, got {found!r:.80}")
    if isinstance(expected, Mapping) and expected:
        for key in sorted(found.keys() ^ expected.keys(), key=str):
            fault = "missing" if key in expected else "unknown"
            raise ValueError(f"{path}.{key!s:.80} is {fault}")
        for key, value in expected.items():
            refuse_unlike(found[key], value, f"{path}.{key}")
    if isinstance(expected, list | tuple) and expected:
        if len(found) != len(expected):
            raise ValueError(f"{path} must have {len(expected)} entries, got {len(found)}")
        for number, (value, required) in enumerate(zip(found, expected, strict=True)):
            refuse_unlike(value, required, f"{path}.{number}")


def refuse_optimizer_state(state: Mapping[str, Any], optimizer: Any) -> None:
    """Raise ValueError, with the location, unless the AdamW `optimizer` can load its `state`."""
    refuse_unlike(state, {**optimizer.state_dict(), "state": {}}, "optimizer")
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    for index, moments in state["state"].items():
        path = f"optimizer.state.{index!s:.80}"
        if type(index) is not int or not 0 <= index < len(parameters):
            raise ValueError(f"{path} is not a parameter")
        like = torch.empty(parameters[index].shape, dtype=parameters[index].dtype, device="meta")
        fresh = {"step": torch.tensor(0.0), "exp_avg": like, "exp_avg_sq": like}
        refuse_unlike(moments, fresh, path)
        if wrong := misfit(moments, fresh):
            raise ValueError(f"{path}: {wrong}")
