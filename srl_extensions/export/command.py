"""`srl export`: trained models as folders for transformers or PEFT."""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust, prepare_torch
from srl_train.errors import ConfigError
from srl_train.player_names import parse_player
from srl_train.run_files import refuse_taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
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
    """Write the models and return 0."""
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
    from srl_extensions.export.export import export

    for name, folder in folders.items():
        export(player, name, folder, merge=args.merge, trusted=args.trust)
        tell(f"written: {folder}")
    return 0
