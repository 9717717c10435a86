"""`srl export`: a trained model for plain transformers or PEFT."""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust, prepare_torch
from srl_train.errors import ConfigError
from srl_train.player_names import parse_player
from srl_train.run_files import refuse_taken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add = parser.add_argument
    who = (
        "a run's or checkpoint's folder (all its models), RUN:model_0 for one of them, "
        "a model's or adapter's folder, or a hub name"
    )
    add("who", metavar="WHO", help=who)
    folder = "a new folder; of several models each has one in it"
    add("folder", metavar="FOLDER", type=Path, help=folder)
    add("--merge", action="store_true", help="add an adapter to its base, write the whole model")
    add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Export the models."""
    named = parse_player(args.who)
    if named.kind in ("scripted", "tiny", "api"):
        raise ConfigError(
            f"{args.who} has no weights to write: give a run, RUN:model_0, a folder or a hub name"
        )
    several = len(named.sources) > 1
    folders = {name: args.folder / name if several else args.folder for name in named.sources}
    for folder in folders.values():
        refuse_taken(folder)
    prepare_torch()
    from srl_train.export import export

    for name, folder in folders.items():
        export(named, name, folder, merge=args.merge, trusted=args.trust)
        tell(f"written: {folder}")
    return 0
