"""Dataclasses as JSON data and back; invalid records raise."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from srl_envs.records import as_record, read_record


@dataclass(frozen=True)
class Inner:
    name: str
    number: float | None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    pair: tuple[str, str]
    counts: dict[str, int]
    version: int | str
    word: Literal["one", "two"] | None
    free: Any
    told: Mapping[str, Any]
    table: np.ndarray | None


WHOLE = Outer(
    (Inner("a", 0.5), Inner("b", None)), ("x", "y"), {"n": 3}, "v1", "two", (1, 2), {4: (5,)},
    np.eye(2),
)  # fmt: skip


def written():
    return json.loads(json.dumps(as_record(Outer, WHOLE)))


def test_records_round_trip():
    read = read_record(Outer, written())
    assert read.table.tolist() == WHOLE.table.tolist()
    own = {name: getattr(WHOLE, name) for name in vars(WHOLE) if name != "table"}
    assert {name: getattr(read, name) for name in own} == own


@pytest.mark.parametrize(
    "changes",
    [
        {"inner": [{"name": "a"}]},
        {"inner": {}},
        {"pair": ["x", 1]},
        {"counts": {"n": 1.0}},
        {"version": 1.5},
        {"word": "three"},
        {"table": [1.0]},
    ],
)
def test_invalid_records_raise(changes):
    with pytest.raises((LookupError, TypeError, ValueError)):
        read_record(Outer, written() | changes)
