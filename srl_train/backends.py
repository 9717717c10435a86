"""Which backend a model's name in a configuration, or on the command line, stands for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peft import PeftModel

from srl_agents.errors import BackendError
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface import HuggingFaceBackend
from srl_agents.llm.backends.huggingface_quantization import Quantization
from srl_agents.llm.partner_notes import PartnerNotes
from srl_train.errors import ConfigError
from srl_train.learners.upstream_warnings import quiet_upstream

TINY = "tiny"  # the embedded model, warm-started for the environment


def load_backend(
    base: str,
    make_env: Callable[[], Any],
    *,
    device: str,
    dtype: str,
    quantization: Quantization | None = None,
    name: str | None = None,
    notes: PartnerNotes | None = None,
) -> HuggingFaceBackend:
    """The backend of 'tiny' (for `make_env`'s game, told `notes`), a local folder or a hub name.

    Raises BackendError for what cannot be loaded, ConfigError for 'tiny' where the game gives it
    nothing to start from.
    """
    try:
        source = tiny.folder(make_env, notes=notes) if base == TINY else base
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return HuggingFaceBackend.load(
        source, device=device, dtype=dtype, quantization=quantization, name=name
    )


def load_all(
    folders: Mapping[str, str],
    make_env: Callable[[], Any],
    *,
    device: str,
    dtype: str,
    quantization: Quantization | None = None,
    notes: PartnerNotes | None = None,
) -> list[tuple[str, HuggingFaceBackend, str | None]]:
    """(name, its backend, its adapter there or None) for each of `folders`, in order.

    PEFT adapters of one base share it, loaded once, in 4 or 8 bits if `quantization` says so; whole
    models are loaded as they are. Raises BackendError for what cannot be loaded.
    """
    bases: dict[str, HuggingFaceBackend] = {}
    found: list[tuple[str, HuggingFaceBackend, str | None]] = []
    for name, folder in folders.items():
        base = _base_of(Path(folder))
        if base is None:
            backend = load_backend(
                folder, make_env, device=device, dtype=dtype, name=name, notes=notes
            )
            found.append((name, backend, None))
            continue
        adapter = name.replace(".", "_")  # torch allows no dots in the names of modules
        try:
            with quiet_upstream():
                if base in bases:
                    bases[base].model.load_adapter(folder, adapter_name=adapter)
                else:
                    whole = HuggingFaceBackend.load(
                        base, device=device, dtype=dtype, quantization=quantization
                    )
                    bases[base] = _adapted(whole, folder, adapter)
        except (OSError, ValueError, RuntimeError) as error:
            raise BackendError(f"cannot load the adapter {folder!r}: {error}") from error
        found.append((name, bases[base], adapter))
    return found


def _adapted(whole: HuggingFaceBackend, folder: str, adapter: str) -> HuggingFaceBackend:
    model = PeftModel.from_pretrained(whole.model, folder, adapter_name=adapter)
    return HuggingFaceBackend(model.eval(), whole.tokenizer, name=whole.name)


def _base_of(folder: Path) -> str | None:
    """The base of a PEFT adapter; None for a folder that is none.

    Raises BackendError where the adapter does not say, or cannot be read.
    """
    settings = folder / "adapter_config.json"
    if not settings.is_file():
        return None
    try:
        base = json.loads(settings.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise BackendError(f"cannot read {settings}: {error}") from error
    if not base:
        raise BackendError(f"{settings} names no base_model_name_or_path to load the adapter on")
    return str(base)
