"""Documented types of models, and which of them this machine has."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence

from srl_agents.llm.model_folders import folder_for
from srl_train.run_files import versions

TINY = "tiny"
MODERN_MODELS = {
    "qwen3": "Qwen/Qwen2.5-14B-Instruct",
    "qwen_coder": "Qwen/Qwen2.5-Coder-14B-Instruct",
    "qwen_math": "Qwen/Qwen2.5-Math-14B-Instruct",
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
}
"""Documented type of a model that learns -> hub name. The hub has no Qwen2.5-Math of 14 billion
parameters: name one of 7 or 72 billion in model_names, or a folder in CORE_SRL_MODELS."""
API_MODELS = {"openai": "gpt-4o", "claude": "claude-3-5-sonnet-20241022"}
"""Documented type of a model behind an API, which never learns -> its name there."""
DOCUMENTED_TYPES = ("qwen3", "openai", "claude", "llama3")
"""Types that are trained together by default."""
APIS = {"openai": ("openai", "OPENAI_API_KEY"), "claude": ("anthropic", "ANTHROPIC_API_KEY")}
"""Type -> (SDK and prefix of a policy's name, variable of the key)."""
_BILLIONS = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)b\b", re.IGNORECASE)


def lacks(kind: str, name: str) -> str | None:
    """Return the reason why this machine lacks a model, or None if it has the model.

    `kind` is the type; `name` the folder, hub name or name in an API, which needs SDK and key.
    """
    if kind in API_MODELS:
        package, key = APIS[kind]
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is not installed"
        return None if os.environ.get(key) else f"no {key}"
    if name == TINY or os.path.isdir(name) or folder_for(name) is not None or is_cached(name):
        return None
    return "not on this machine"


def types_here(
    kinds: Sequence[str], names: Mapping[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the types, with 'tiny' for those that this machine lacks, and a tuple of 0 or 1 notes.

    `names` is type -> folder, hub name or name in an API. The note has the reasons.
    """
    reasons = {kind: lacks(kind, names[kind]) for kind in kinds}
    missing = {kind: why for kind, why in reasons.items() if why is not None}
    if not missing:
        return tuple(kinds), ()
    taken = tuple(TINY if kind in missing else kind for kind in kinds)
    listed = "; ".join(f"{kind}: {why}" for kind, why in missing.items())
    return taken, (f"the embedded model 'tiny' learns in place of others ({listed})",)


def is_large(name: str) -> bool:
    """Return True if a name states a billion parameters or more ("7B"), and False for a folder."""
    found = _BILLIONS.search(name.rpartition("/")[2])
    return not os.path.isdir(name) and found is not None and float(found[1]) >= 1


def is_cached(name: str) -> bool:
    """Return True if huggingface_hub has cached config.json of a model, NAME or NAME@REVISION."""
    if importlib.util.find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache

    head, _, revision = name.partition("@")
    return isinstance(try_to_load_from_cache(head, "config.json", revision=revision or None), str)


def models_by_id(kinds: Sequence[str]) -> dict[str, str]:
    """Return id -> type of each model in a run, in the order of `kinds`.

    Models that learn are counted alone: model_0, ...; `kinds[i]` of an API is TYPE_i (openai_1).
    """
    learning = iter(range(len(kinds)))
    return {
        f"{kind}_{index}" if kind in API_MODELS else f"model_{next(learning)}": kind
        for index, kind in enumerate(kinds)
    }


def get_available_models() -> dict[str, list[str]]:
    """Return type -> [model name] of every documented type and 'tiny', even if not downloaded."""
    known = {TINY: TINY, **MODERN_MODELS, **API_MODELS}
    return {kind: [name] for kind, name in known.items()}


def get_version_info() -> dict[str, str]:
    """Return "version" (Core SRL's or "not installed") and installed main package -> version."""
    found = versions()
    return {"version": found.get("core-srl", "not installed"), **found}
