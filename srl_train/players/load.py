"""Loading of models: tiny, local folders, hub names, adapters and checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peft import PeftModel

from srl_agents.evaluation.progress import announced
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_train.checkpoints.adapter_folders import adapter_base, attach, own_tokenizer
from srl_train.errors import ConfigError
from srl_train.players.player_spec import TINY, is_checkpoint, refuse_missing_folder
from srl_train.players.trained_models import Loading


def load_backend(
    base: str,
    make_env: Callable[[], Any],
    how: Loading,
    *,
    name: str | None = None,
    notes: PartnerNotes | None = None,
    adapter: str = "default",
) -> HuggingFaceBackend:
    """The backend of 'tiny' (for `make_env`'s game, told `notes`), a local folder or a hub name; of
    a PEFT adapter, a PeftModel on the adapter's base, which calls it `adapter`.

    Raises BackendError for what cannot be loaded, ConfigError for a folder that is not there and
    for 'tiny' where the game gives it nothing to start from.
    """
    if base == TINY:
        try:
            return _whole(str(tiny.folder(make_env, notes=notes)), how, name)
        except ValueError as error:
            raise ConfigError(str(error)) from error
    refuse_missing_folder(base)
    under = adapter_base(base)
    if under is None:
        return _whole(base, how, name)
    whole = _base_of(base, under, how)
    model = attach(whole.model, base, adapter)
    return HuggingFaceBackend(
        model.eval(),
        own_tokenizer(base) or whole.tokenizer,
        name=name or Path(base).name,
        chat_template_kwargs=how.chat_template_kwargs,
    )


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
        from srl_train.players.checkpoint_models import checkpoint_modules  # which loads by us

        wanted = list(names.values())
        backends, modules = checkpoint_modules(checkpoint, wanted, how.device, trusted)
        adapted = any(isinstance(module, PeftModel) for module in modules.values())
        for name, model in names.items():
            found[name] = backends[model], model if adapted else None
    return [(name, *found[name]) for name in folders]


def _base_of(adapter: str, base: str, how: Loading) -> HuggingFaceBackend:
    try:
        refuse_missing_folder(base)
    except ConfigError as error:
        raise ConfigError(f"the adapter {adapter}: its base: {error}") from error
    return _whole(base, how, None)


def _whole(source: str, how: Loading, name: str | None) -> HuggingFaceBackend:
    with announced(f"loading {source}"):
        return HuggingFaceBackend.load(
            source,
            device=how.device,
            dtype=how.dtype,
            quantization=how.quantization,
            attn_implementation=how.attn_implementation,
            chat_template_kwargs=how.chat_template_kwargs,
            name=name,
        )
