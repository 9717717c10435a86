"""Names of metrics and settings in trackers, such as `train/model_0/loss`.

No metric name is a prefix of another one's path, such as `train/reward` of `train/reward/model_0`,
because the file store of MLflow makes a folder for each slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

LONGEST_NAME, LONGEST_SETTING = 80, 1000
"""Limits in characters of one part of a metric's name, and of the value of a setting."""
LEFT_OUT = "(left out)"
"""Text that replaces a secret."""
_RENAMED = {"raw_reward": "reward", "raw_return": "return"}
_SECRET = re.compile(
    r"(^|[_.-])((api|access|private|secret|ssh)_?key|auth\w*|\w*token|passw\w*|passphrase|pwd"
    r"|\w*secret|credentials?)$",
    re.IGNORECASE,
)
_SECRET_IN_TEXT = re.compile(
    r"""(\b\w*(?:api_?key|access_?key|token|passw\w*|passphrase|secret)|\bkey(?==))"""
    r"""(["']?\s*[=:]\s*["']?)[^\s&,;"'}]+""",
    re.IGNORECASE,
)


def of_round(row: Mapping[str, Any]) -> dict[str, float]:
    """Return "train/model_0/loss" and other names -> number, from a row of metrics.jsonl."""
    environment = dict(row["environment"])
    wins = environment.pop("winners")
    return dict(
        [
            *_numbers("train", {"round": row["round"], "seconds": row["seconds"]}),
            *_numbers("train", environment),
            *_numbers("train/mode", row["mode_state"]),
            *_each("train", row["models"]),
            *_each("train/agents", row.get("by_agent", {})),
            *_each("train/environments", row["by_environment"]),
            *_each("train/wins", {winner: {"games": count} for winner, count in wins.items()}),
        ]
    )


def of_pass(row: Mapping[str, Any]) -> dict[str, float]:
    """Return "sft/model_0/loss" and other names -> number, from a row of stages.jsonl."""
    stage = row["stage"]
    whole = {"pass": row["pass"], "seconds": row["seconds"]}
    return dict([*_numbers(stage, whole), *_each(stage, row["models"])])


def of_evaluation(when: str, measured: Mapping[str, Any]) -> dict[str, float]:
    """Return metric name, such as "eval/reward", -> number, from an evaluation.

    After a stage (`when` is "after_sft"), names begin with "eval/after_sft/".
    """
    section = f"eval/{when}" if when.startswith("after_") else "eval"
    whole = dict(measured)
    models, agents = whole.pop("per_model"), whole.pop("per_agent", {})
    environments = whole.pop("by_environment")
    return dict(
        [
            *_numbers(section, whole),
            *_each(section, {model: {"reward": mean} for model, mean in models.items()}),
            *_each(f"{section}/agents", {agent: {"reward": m} for agent, m in agents.items()}),
            *_each(f"{section}/environments", environments),
        ]
    )


def of_settings(tree: Any, path: str = "") -> dict[str, int | float | str]:
    """Return dotted name, which begins with `path`, -> number or text of each leaf of a tree.

    Lists with mappings are trees by index. Leaves except numbers become texts of at most 1000
    characters without secrets. A nonempty value with a secret's name is "(left out)".
    """
    if isinstance(tree, list | tuple) and any(isinstance(entry, Mapping) for entry in tree):
        tree = dict(enumerate(tree))
    if isinstance(tree, Mapping) and tree:
        found: dict[str, int | float | str] = {}
        for key, value in tree.items():
            name = segment(str(key))
            inner = LEFT_OUT if value and _SECRET.search(str(key)) else value
            found |= of_settings(inner, f"{path}.{name}" if path else name)
        return found
    if isinstance(tree, int | float):
        return {path: tree}
    return {path: without_secrets(str(tree))[:LONGEST_SETTING]}


def without_secrets(text: str) -> str:
    """Return the text with "..." for secrets in URLs, "Bearer X" and "token=X"."""
    text = re.sub(r"(?<=://)[^/\s@]*@", "...@", text)
    text = re.sub(r"(?i)\b(bearer|basic)\s+[^\s,;\"']+", r"\1 ...", text)
    return _SECRET_IN_TEXT.sub(r"\1\2...", text)


def segment(name: str) -> str:
    """Replace each run of characters other than letters, digits and "_.-" by "_"; cut to 80.

    An empty name, or a name that consists only of dots, then gets the prefix "_".
    """
    plain = re.sub(r"[^\w.\-]+", "_", name)[:LONGEST_NAME]
    return plain if plain.strip(".") else f"_{plain}"


def _each(section: str, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    for name, values in entries.items():
        yield from _numbers(f"{section}/{segment(name)}", values)


def _numbers(section: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in values.items():
        name = f"{section}/{_RENAMED.get(key, key)}"
        if isinstance(value, Mapping):
            parts = {segment(str(part)): inner for part, inner in value.items()}
            yield from _numbers(name, parts)
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            yield name, float(value)
