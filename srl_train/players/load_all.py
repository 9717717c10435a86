"""Several models loaded at once: what they share is loaded once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peft import PeftModel

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_train.checkpoints.adapter_folders import adapter_base, attach
from srl_train.checkpoints.manifest import is_checkpoint
from srl_train.players.checkpoint_models import checkpoint_modules
from srl_train.players.load import load_backend
from srl_train.players.player_spec import TINY
from srl_train.players.trained_models import Loading


def load_all(
    folders: Mapping[str, str],
    make_env: Callable[[], Any],
    how: Loading,
    *,
    notes: PartnerNotes | None = None,
    trusted: bool = False,
) -> list[tuple[str, HuggingFaceBackend, str | None]]:
    """(name, its backend, its adapter there or None) for each of `folders`, in order.

    PEFT adapters of one base share it, loaded once, in 4 or 8 bits if `how.quantization` says so;
    whole models are loaded as they are. `trusted` is as in `checkpoint_modules`. Raises
    BackendError for what cannot be loaded, and CheckpointError for a damaged checkpoint.
    """
    unquantised = dataclasses.replace(how, quantization=None)
    bases: dict[str, HuggingFaceBackend] = {}
    found: dict[str, tuple[HuggingFaceBackend, str | None]] = {}
    saved: dict[Path, dict[str, str]] = {}
    for name, folder in folders.items():
        place, _, model = folder.rpartition(":")
        if place and is_checkpoint(Path(place)):
            saved.setdefault(Path(place), {})[name] = model
            continue
        base = None if folder == TINY else adapter_base(folder)
        if base is None:
            backend = load_backend(folder, make_env, unquantised, name=name, notes=notes)
            found[name] = backend, None
            continue
        adapter = name.replace(".", "_")  # torch allows no dots in the names of modules
        if base in bases:
            attach(bases[base].model, folder, adapter)
        else:
            bases[base] = load_backend(folder, make_env, how, adapter=adapter)
        found[name] = bases[base], adapter
    for checkpoint, names in saved.items():
        wanted = list(names.values())
        backends, modules = checkpoint_modules(checkpoint, wanted, how.device, trusted)
        adapted = any(isinstance(module, PeftModel) for module in modules.values())
        for name, model in names.items():
            found[name] = backends[model], model if adapted else None
    return [(name, *found[name]) for name in folders]
