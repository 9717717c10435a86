"""Names of a run's numbers and settings in trackers: `train/reward`, `train/model_0/loss`.

No name is the beginning of another's path (`train/reward` beside `train/reward/model_0`): MLflow's
store of files makes a folder of each slash.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

LONGEST_NAME, LONGEST_SETTING = 80, 1000
"""Characters of a name that others gave, and of a setting's text."""
LEFT_OUT = "(left out)"
"""Stands for a secret."""
_OURS = {"raw_reward": "reward", "raw_return": "return"}
"""Key of a row -> its name, where the row says more than trackers' users expect."""
_SECRET = re.compile(
    r"(^|[_.-])((api|access|private|secret|ssh)_?key|auth\w*|\w*token|passw\w*|passphrase|pwd"
    r"|\w*secret|credentials?)$",
    re.IGNORECASE,
)
_TOLD = re.compile(
    r"""(\b\w*(?:api_?key|access_?key|token|passw\w*|passphrase|secret)|\bkey(?==))"""
    r"""(["']?\s*[=:]\s*["']?)[^\s&,;"'}]+""",
    re.IGNORECASE,
)
"""A secret with its name, in a text."""


def of_round(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a round's row."""
    environment = dict(row["environment"])
    models = {model: dict(own) for model, own in row["models"].items()}
    agents: dict[str, dict[str, Any]] = {a: dict(own) for a, own in row.get("by_agent", {}).items()}
    for own in models.values():
        for key, name in (("stale_by_agent", "stale"), ("never_asked_by_agent", "never_asked")):
            for agent, count in own.pop(key).items():
                agents.setdefault(agent, {})[name] = count
    wins = environment.pop("winners")
    return dict(
        [
            *_numbers("train", {"round": row["round"], "seconds": row["seconds"]}),
            *_numbers("train", environment),
            *_numbers("train/mode", row["mode_state"]),
            *_each("train", models),
            *_each("train/agents", agents),
            *_each("train/environments", row["by_environment"]),
            *_each("train/wins", {who: {"games": count} for who, count in wins.items()}),
        ]
    )


def of_pass(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a row of a stage, under the stage's name."""
    stage = row["stage"]
    whole = {"pass": row["pass"], "seconds": row["seconds"]}
    return dict([*_numbers(stage, whole), *_each(stage, row["models"])])


def of_evaluation(when: str, measured: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an evaluation: under `eval`, those after a stage under `eval/after_sft`."""
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
    """A configuration's plain data by dotted names, without what looks like a secret."""
    if isinstance(tree, Mapping) and tree:
        labels = segments(tree)
        return {
            name: value
            for key, inner in tree.items()
            for name, value in of_settings(
                LEFT_OUT if _is_secret(key, inner) else inner,
                f"{path}.{labels[key]}" if path else labels[key],
            ).items()
        }
    if isinstance(tree, int | float):
        return {path: tree}
    return {path: without_secrets(str(_without(tree)))[:LONGEST_SETTING]}


def without_secrets(text: str) -> str:
    """The text, its addresses without users and passwords, and what it quotes without keys."""
    text = re.sub(r"(?<=://)[^/\s@]*@", "...@", text)
    text = re.sub(r"(?i)\b(bearer|basic)\s+[^\s,;\"']+", r"\1 ...", text)
    return _TOLD.sub(r"\1\2...", text)


def _is_secret(key: object, value: object) -> bool:
    return bool(value) and _SECRET.search(str(key)) is not None


def _without(tree: Any) -> Any:
    """The same without what looks like a secret, however deep in lists."""
    if isinstance(tree, Mapping):
        return {k: LEFT_OUT if _is_secret(k, v) else _without(v) for k, v in tree.items()}
    return [_without(one) for one in tree] if isinstance(tree, list | tuple) else tree


def segment(name: str) -> str:
    """What stands for a name of others in a path, valid in every library."""
    plain = re.sub(r"[^\w.\-]+", "_", name)[:LONGEST_NAME]
    return plain if plain.strip(".") else f"_{plain}"


def segments(names: Iterable[Any]) -> dict[Any, str]:
    """Name of others -> its segment; all differ."""
    found: dict[Any, str] = {}
    for name in names:
        label = first = segment(str(name))
        number = 2
        while label in found.values():
            label, number = f"{first}-{number}", number + 1
        found[name] = label
    return found


def _each(section: str, entries: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    labels = segments(entries)
    for name, values in entries.items():
        yield from _numbers(f"{section}/{labels[name]}", values)


def _numbers(section: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """(name, number) of all numbers, at whatever depth; NaN and infinity are numbers."""
    for key, value in values.items():
        name = f"{section}/{_OURS.get(key, key)}"
        if isinstance(value, Mapping):
            yield from _numbers(name, value)
        elif isinstance(value, bool | int | float | np.number | np.bool_):
            yield name, float(value)
