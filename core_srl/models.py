"""Documented types of models: what they stand for, and which of them this machine can have."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from srl_agents.llm.model_folders import folder_for, folders
from srl_extensions.vllm.placement import find_gpus
from srl_train.run_files import versions

TINY = "tiny"
MODERN_MODELS = {
    "qwen3": "Qwen/Qwen2.5-14B-Instruct",
    "qwen_coder": "Qwen/Qwen2.5-Coder-14B-Instruct",
    "qwen_math": "Qwen/Qwen2.5-Math-14B-Instruct",
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
}
"""Documented type of a model that learns -> hub name. The hub has no Qwen2.5-Math of 14 billion:
name one of 7 or 72 billion in model_names, or a folder in CORE_SRL_MODELS."""
API_MODELS = {"openai": "gpt-4o", "claude": "claude-3-5-sonnet-20241022"}
"""Documented type of a model behind an API, which plays and does not learn -> its name there."""
DOCUMENTED_TYPES = ("qwen3", "openai", "claude", "llama3")
"""Those that are trained together unless others are named."""
DOCUMENTED_NAMES = {kind: {**MODERN_MODELS, **API_MODELS}[kind] for kind in DOCUMENTED_TYPES}
_APIS = {"openai": ("openai", "OPENAI_API_KEY"), "claude": ("anthropic", "ANTHROPIC_API_KEY")}
"""Type -> (SDK and prefix of a player's name, where its key is read)."""
_BILLIONS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)b\b", re.IGNORECASE)


def player_name(kind: str, name: str) -> str:
    """What a configuration calls the model of that type and name."""
    return f"{_APIS[kind][0]}:{name}" if kind in API_MODELS else name


def lacks(kind: str, name: str) -> str | None:
    """Why the model cannot be had here without a download or a key; None where it can."""
    if kind in API_MODELS:
        package, key = _APIS[kind]
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is not installed"
        return None if os.environ.get(key) else f"no {key}"
    if name == TINY or os.path.isdir(name) or folder_for(name) is not None or _is_cached(name):
        return None
    return "not on this machine"


class Here(NamedTuple):
    """What becomes of settings on this machine."""

    kinds: tuple[str, ...]
    """The type of each model, in order."""
    gpus: tuple[int, ...]
    """Those that are used."""
    play_ahead: bool
    """Whether play goes on while models learn."""
    told: tuple[str, ...]
    """What was taken in place of what, in words."""


def types_here(
    kinds: Sequence[str], names: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The types as this machine has them, 'tiny' in place of those that it lacks; and what was
    taken in place of what, in words. At least one of them learns."""
    missing = {
        kind: why for kind in dict.fromkeys(kinds) if (why := lacks(kind, names[kind])) is not None
    }
    if not missing:
        return tuple(kinds), ()
    taken = tuple(TINY if kind in missing else kind for kind in kinds)
    if all(kind in API_MODELS for kind in taken):
        taken = (TINY,) * len(taken)
    reasons = "; ".join(f"{kind}: {why}" for kind, why in missing.items())
    return taken, (f"the embedded model 'tiny' learns in place of others ({reasons})",)


def gpus_here(wanted: int, *, by_ray: bool) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The GPUs that are used, at most so many; and what was taken in place of what, in words.

    `by_ray`: several are used through Ray, where it is installed.
    """
    gpus = tuple(gpu.index for gpu in find_gpus())[:wanted] if wanted else ()
    told: tuple[str, ...] = ()
    if len(gpus) < wanted:
        use = f"{len(gpus)} are used" if gpus else "models are on the CPU"
        told = (f"num_gpus is {wanted}, and {len(gpus)} are here: {use}",)
    if len(gpus) > 1 and by_ray and not _has_ray():
        several = "models are on one GPU: several take the extra ray"
        return gpus[:1], (*told, several)
    return gpus, told


def is_large(name: str) -> bool:
    """Whether the name says that the model has 1 billion parameters or more, as hub names do."""
    found = _BILLIONS.search(name.rpartition("/")[2])
    return not os.path.isdir(name) and found is not None and float(found[1]) >= 1


def same_weights(name: str) -> str:
    """Equal for names whose models begin with the same weights."""
    return folders().get(name, name)


def _is_cached(name: str) -> bool:
    if importlib.util.find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache

    head, _, revision = name.partition("@")
    return isinstance(try_to_load_from_cache(head, "config.json", revision=revision or None), str)


def places_of(kinds: Sequence[str]) -> list[str]:
    """What a run calls each of the models, in order."""
    learning = iter(range(len(kinds)))
    return [
        f"{kind}_{index}" if kind in API_MODELS else f"model_{next(learning)}"
        for index, kind in enumerate(kinds)
    ]


def called(kinds: Sequence[str]) -> dict[str, str]:
    """Model -> its type, those that learn first."""
    every = dict(zip(places_of(kinds), kinds, strict=True))
    return dict(sorted(every.items(), key=lambda one: one[1] in API_MODELS))


def _has_ray() -> bool:
    return importlib.util.find_spec("ray") is not None


def get_available_models() -> dict[str, list[str]]:
    """Model type -> names it stands for."""
    known = {TINY: TINY, **MODERN_MODELS, **API_MODELS}
    return {kind: [name] for kind, name in known.items()}


def get_version_info() -> dict[str, str]:
    """'version' of Core SRL, and package -> installed version of what decides a run's numbers."""
    found = versions()
    return {"version": found.get("core-srl", "not installed"), **found}
