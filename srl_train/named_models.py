"""Which models a name on a command line or in a stage's settings stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from srl_agents.classic.table import POLICIES
from srl_agents.llm.backends.api_names import is_api_name
from srl_train.errors import ConfigError

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_MODEL = re.compile(r"model_(\d+)")


@dataclass(frozen=True)
class NamedModels:
    """One model, or the models of a run."""

    kind: Literal["tiny", "folder", "hub", "run", "api"]
    sources: Mapping[str, str]
    """Name -> 'tiny', a folder, a hub name or a name behind an API, in order."""
    run: Path | None = None
    """The run's folder, for models of a run."""


def named_models(who: str) -> NamedModels:
    """Whom `who` means: 'tiny', a folder with a model (a Hugging Face folder or a PEFT adapter), a
    hub name, a run's folder, 'RUN:model_2' for one model of it, or a model behind an API, such as
    'openai:gpt-5-mini'.

    Raises ConfigError for nobody.
    """
    if who == "tiny":
        return NamedModels("tiny", {"tiny": "tiny"})
    if is_api_name(who):
        return NamedModels("api", {who: who})
    place, wanted = Path(who), None
    if not place.exists() and ":" in who:
        head, _, wanted = who.rpartition(":")
        place = Path(head)
    if (place / "models").is_dir() or (place / "config.yaml").is_file():
        there = models_of_run(place)
        if wanted is not None and wanted not in there:
            raise ConfigError(f"{place} has no model {wanted!r}, only {', '.join(there)}")
        chosen = there if wanted is None else {wanted: there[wanted]}
        return NamedModels("run", chosen, place)
    if wanted is None and _is_model(place):
        return NamedModels("folder", {place.resolve().name: who})
    if wanted is None and not place.exists() and _HUB_NAME.fullmatch(who):
        return NamedModels("hub", {who.rpartition("/")[2]: who})
    close = get_close_matches(who, POLICIES, n=1, cutoff=0.6)
    guess = f" (did you mean {close[0]!r}?)" if close else ""
    raise ConfigError(
        f"nobody is called {who!r}{guess}: give 'tiny', a model's folder or hub name, a run's "
        f"folder (RUN or RUN:model_0), openai:MODEL or anthropic:MODEL, or one of "
        f"{', '.join(POLICIES)}"
    )


def models_of_run(folder: Path) -> dict[str, str]:
    """Model -> its folder, for the trained models of a run; model_10 comes after model_9.

    Raises ConfigError where there are none.
    """
    paths = sorted((folder / "models").glob("*"), key=_number)
    there = {path.name: str(path) for path in paths if _is_model(path)}
    if not there:
        raise ConfigError(
            f"{folder}/models holds no model: has the run ended? srl train --resume --out {folder}"
        )
    return there


def _is_model(folder: Path) -> bool:
    return any((folder / file).is_file() for file in ("config.json", "adapter_config.json"))


def _number(path: Path) -> tuple[int, str]:
    found = _MODEL.fullmatch(path.name)
    return (int(found[1]) if found else 0, path.name)
