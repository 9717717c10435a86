"""`srl export`: trained models as folders for transformers or PEFT."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust, prepare_torch
from srl_train.errors import ConfigError
from srl_train.player_names import Loading, PlayerSpec, parse_player, settings_of_run
from srl_train.run_files import is_checkpoint, refuse_taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl export`."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="folder of a run or checkpoint (all its models), RUN:model_0, a folder of a model or "
        "adapter, or a hub name",
    )
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        type=Path,
        help="new folder for the model, or for one folder per model",
    )
    parser.add_argument(
        "--merge", action="store_true", help="merge an adapter into its base and write all weights"
    )
    add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Write MODEL to FOLDER (several models: FOLDER/NAME), return 0, or raise as `export` does."""
    player = parse_player(args.model)
    if player.kind in ("scripted", "tiny", "api"):
        raise ConfigError(
            f"MODEL must be a run, RUN:model_0, a folder or a hub name, got {args.model}"
        )
    several = len(player.sources) > 1
    folders = {name: args.folder / name if several else args.folder for name in player.sources}
    for folder in folders.values():
        refuse_taken(folder)
    prepare_torch()
    for name, folder in folders.items():
        export(player, name, folder, merge=args.merge, trusted=args.trust)
        tell(f"written: {folder}")
    return 0


def export(
    player: PlayerSpec, name: str, folder: Path, *, merge: bool = False, trusted: bool = False
) -> None:
    """Write the model `name` of a player, and its tokenizer, to a new folder, atomically.

    `name` is a key of `player.sources`. With `merge`, an adapter is merged into its base; `trusted`
    permits importing code that a checkpoint's configuration names. Raises ConfigError if the folder
    or --merge is not possible.
    """
    # These imports take seconds.
    from peft import PeftModel

    from srl_agents.llm.backends.huggingface.loading import no_bars
    from srl_train.adapters import merged
    from srl_train.loading import checkpoint_modules, load_backend

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
