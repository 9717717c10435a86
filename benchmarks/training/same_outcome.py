"""Whether two runs ended the same: weights, optimizers, counters, metrics, models, to the bit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from srl_train.checkpoints import checkpoint

CLOCKS = ("seconds",)  # entries that measure time: the only ones that may differ


def differences(one: Path, other: Path) -> list[str]:
    """Every difference between two runs' folders, in words; empty where there is none."""
    return [
        *_of_checkpoints(one / "checkpoints", other / "checkpoints"),
        *_of_files(one / "models", other / "models"),
        *_of_values("metrics.jsonl", _rows(one), _rows(other)),
        *_of_values("evaluation", _evaluation(one), _evaluation(other)),
    ]


def _of_checkpoints(one: Path, other: Path) -> list[str]:
    names = [checkpoint.list_checkpoints(folder)[0] for folder in (one, other)]
    if names[0] != names[1]:
        return [f"the last checkpoints are {names[0]} and {names[1]}"]
    ends = [checkpoint.load(folder / names[0]) for folder in (one, other)]
    models = sorted(path.stem for path in (ends[0].path / "models").glob("*.safetensors"))
    if not models:
        return [f"{names[0]} holds no models"]
    weights = [{model: end.tensors(f"models/{model}") for model in models} for end in ends]
    return [*_of_values("weights", *weights), *_of_values("state", ends[0].state, ends[1].state)]


def _of_files(one: Path, other: Path) -> list[str]:
    files = [
        {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
        for root in (one, other)
    ]
    names = sorted(files[0].keys() | files[1].keys())
    return [f"models/{name}" for name in names if files[0].get(name) != files[1].get(name)]


def _rows(run: Path) -> list[Any]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _evaluation(run: Path) -> Any:
    return json.loads((run / "summary.json").read_text(encoding="utf-8"))["evaluation"]


def _of_values(where: str, one: Any, other: Any) -> list[str]:
    """Paths at which nested mappings, lists, numbers and tensors differ."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return [] if one.dtype == other.dtype and torch.equal(one, other) else [where]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if one.keys() != other.keys():
            return [f"{where}: {sorted(map(str, one.keys() ^ other.keys()))} in one only"]
        return [
            found
            for key in one
            if key not in CLOCKS
            for found in _of_values(f"{where}.{key}", one[key], other[key])
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} entries"]
        pairs = enumerate(zip(one, other, strict=True))
        return [found for i, pair in pairs for found in _of_values(f"{where}[{i}]", *pair)]
    return [] if type(one) is type(other) and one == other else [f"{where}: {one!r} and {other!r}"]
