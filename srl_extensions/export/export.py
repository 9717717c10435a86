"""Export of models as Hugging Face folders or PEFT adapters."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from peft import PeftModel

from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.adapters import merged
from srl_train.errors import ConfigError
from srl_train.loading import checkpoint_modules, load_backend
from srl_train.player_names import Loading, PlayerSpec, settings_of_run
from srl_train.run_files import is_checkpoint, refuse_taken


def export(
    player: PlayerSpec, name: str, folder: Path, *, merge: bool = False, trusted: bool = False
) -> None:
    """Write a model of a player, and its tokenizer into a new folder, atomically.

    With `merge`, an adapter is merged into its base; `trusted` permits to import code that a
    checkpoint's configuration names. Raises ConfigError if the folder is not empty or cannot be
    written, or there is no adapter to merge.
    """
    refuse_taken(folder)
    if player.run is not None and is_checkpoint(player.run):
        backends, modules = checkpoint_modules(player.run, [name], "cpu", trusted)
        backend = backends[name].with_model(modules[name])
    else:
        dtype = "auto" if player.run is None else settings_of_run(player.run).loading.dtype
        backend = load_backend(player.sources[name], _no_environment, Loading("cpu", dtype))
    if merge and not isinstance(backend.model, PeftModel):
        raise ConfigError(f"--merge requires an adapter, but {name} has none")
    if merge:
        backend = merged(backend)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            with no_bars():
                backend.model.save_pretrained(partial)
            backend.tokenizer.save_pretrained(partial)
            partial.chmod(0o755)  # mkdtemp gives access to the owner only.
            os.replace(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise ConfigError(f"cannot write {folder}: {error.strerror}") from error


def _no_environment() -> Any:
    raise ConfigError("the embedded model cannot be exported without a run: train it first")
