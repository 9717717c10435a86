"""`mrlm train`: training of a model from a YAML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from srl_train.cli.notices import tell
from srl_train.cli.options import prepare_torch
from srl_train.errors import CheckpointNotFound

if TYPE_CHECKING:
    from mrlm.algorithms.training import Place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument("-c", "--config", required=True, type=Path, help="a YAML file")
    parser.add_argument(
        "-o",
        "--output",
        help="the run's folder (default: as the file says, or outputs/<algorithm>)",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="CHECKPOINT",
        help="go on from this checkpoint's folder, in the run that it is of",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Train, then say where everything is."""
    from mrlm.config import load_config
    from mrlm.config.experiment import OutputConfig

    config = load_config(args.config)
    if args.output is not None:
        output = OutputConfig(**{**dict(config.output), "save_dir": None})
        config = config.replaced(output_dir=args.output, output=output)
    prepare_torch()
    from mrlm.algorithms.configured import train_configured
    from mrlm.algorithms.training import FINAL, Place
    from srl_train.distributed import processes

    place = Place.of(config, config.training.algorithm)
    if args.resume is not None:
        place = _of_checkpoint(args.resume, place, moved=args.output is not None)
    results = train_configured(config, place, args.resume.name if args.resume else None)
    processes.leave()
    if not processes.is_main():
        return 0
    for when, measured in results["evaluation"].items():
        if measured["raw_reward"] is not None:
            games = f"{measured['episodes']} episodes"
            tell(f"reward per turn, {when}: {measured['raw_reward']:.4f} ({games})")
    for stage in results["stages"]:
        losses = stage["models"]["model_0"]
        tell(f"loss: {losses['first_loss']:.4f} at first, {losses['last_loss']:.4f} at last")
    tell(f"the model is in {place.folder / FINAL}; for the report: srl report {place.folder}")
    return 0


def _of_checkpoint(checkpoint: Path, place: Place, *, moved: bool) -> Place:
    """The run's place; raises CheckpointNotFound where the checkpoint is not there."""
    from mrlm.algorithms.training import Place

    folder = checkpoint.resolve()
    if not folder.is_dir():
        raise CheckpointNotFound(f"Checkpoint not found: there is no folder {checkpoint}")
    return Place(place.folder if moved else folder.parent.parent, folder.parent)
