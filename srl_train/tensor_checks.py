"""Checks of loaded tensors and state: names, shapes, dtypes and structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to all values in nested mappings, lists and plain tuples."""
    if isinstance(value, Mapping):
        return {key: mapped(entry, change) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(mapped(entry, change) for entry in value)
    return change(value)


def misfit(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    """Return how the tensors differ from the expected names, shapes and dtypes; None if equal."""
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected:
            return f"{name!r:.80} is no tensor of it"
        if name not in found:
            return f"its tensor {name!r:.80} is missing"
        own, other = tuple(found[name].shape), tuple(expected[name].shape)
        if own != other:
            return f"{name!r:.80} is {own}, not {other}"
        if found[name].dtype != expected[name].dtype:
            return f"{name!r:.80} is {found[name].dtype}, not {expected[name].dtype}"
    return None


def refuse_unlike(found: Any, expected: Any, path: str) -> None:
    """Raise ValueError, with the location, unless `found` has the structure of `expected`.

    Keys, lengths and types must be equal. An empty mapping or list in `expected` accepts all of its
    type, None accepts numbers too, an object() everything.
    """
    kind: Any = type(expected)
    if expected is None:
        fits = found is None or isinstance(found, int | float)
    elif kind in (int, float):  # JSON has no difference.
        fits = isinstance(found, int | float) and not isinstance(found, bool)
    else:
        fits = isinstance(found, kind)
    if not fits:
        raise ValueError(f"{path} is {found!r:.80}, not of type {kind.__name__}")
    if isinstance(expected, Mapping) and expected:
        for key in sorted(found.keys() ^ expected.keys(), key=str):
            known = "missing" if key in expected else "unknown"
            raise ValueError(f"{path}.{key!s:.80} is {known}")
        for key, value in expected.items():
            refuse_unlike(found[key], value, f"{path}.{key}")
    if isinstance(expected, list | tuple) and expected:
        if len(found) != len(expected):
            raise ValueError(f"{path} has {len(found)} entries, not {len(expected)}")
        for number, (own, other) in enumerate(zip(found, expected, strict=True)):
            refuse_unlike(own, other, f"{path}.{number}")


def refuse_optimizer_state(state: Mapping[str, Any], optimizer: Any) -> None:
    """Raise ValueError, with the location, unless the state fits this AdamW optimizer."""
    groups = optimizer.state_dict()["param_groups"]
    refuse_unlike(state, {"state": {}, "param_groups": groups}, "optimizer")
    for number, (own, other) in enumerate(zip(state["param_groups"], groups, strict=True)):
        if own["params"] != other["params"]:
            raise ValueError(f"optimizer.param_groups.{number}.params is not {other['params']}")
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    for place, own in state["state"].items():
        path = f"optimizer.state.{place!s:.80}"
        if type(place) is not int or not 0 <= place < len(parameters):
            raise ValueError(f"{path} is no parameter")
        moments = torch.empty_like(parameters[place], device="meta")
        fresh = {"step": torch.tensor(0.0), "exp_avg": moments, "exp_avg_sq": moments}
        refuse_unlike(own, dict.fromkeys(fresh, object()), path)
        for name, value in own.items():
            if not isinstance(value, Tensor):
                raise ValueError(f"{path}.{name} is no tensor")
        if wrong := misfit(own, fresh):
            raise ValueError(f"{path}: {wrong}")
