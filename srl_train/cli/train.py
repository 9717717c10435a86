"""`srl train`: training of several models from a configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from srl_agents.evaluation.progress import announced
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, prepare_torch, settings
from srl_train.errors import ConfigError
from srl_train.players import refuse_wrong_names

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig
    from srl_train.trainer import Trainer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "config", nargs="?", type=Path,
        help="a YAML file; left out with --resume, the run's own config.yaml is read",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, help="the run's folder (default: runs/<name of the config>)"
    )
    parser.add_argument("--seed", type=int, help="in place of the configured seed")
    what = "replace one setting, such as algorithm.learning_rate=1e-3"
    add_list(parser, "--set", "KEY=VALUE", what, dest="overrides")
    parser.add_argument(
        "--resume", action="store_true", help="continue from the newest checkpoint in --out"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Train, then print the summary."""
    folder, config = _folder_and_config(args)
    args.folder = folder  # read after an interrupt
    refuse_wrong_names(config)
    from srl_train.metrics.sinks import SINKS

    for name in SINKS:
        SINKS.load(name).check(config)
    # Errors above are reported before torch is loaded.
    with announced("loading torch, transformers and TRL"):
        prepare_torch()
        from srl_train import processes
        from srl_train.metrics import Progress
        from srl_train.trainer import Trainer

    progress = Progress(config.rounds, log_every=config.logging.every)
    sinks = () if args.quiet else (progress,)
    args.notices.screen = None if args.quiet else progress
    with Trainer(config, folder, sinks=sinks, progress=False) as trainer:
        trainer.lock()  # before the models are loaded
        if args.resume and not trainer.resume():
            tell("no checkpoint was saved yet: the run starts from the beginning")
        if processes.is_main():
            _announce(trainer, args.resume)
        trainer.fit()
    del trainer
    processes.leave()
    if not processes.is_main():
        return 0
    from srl_train.cli import COMMANDS

    tell(COMMANDS.load("report").summary(folder))
    tell(f"checkpoints, models and metrics are in {folder}; for the report: srl report {folder}")
    return 0


def _announce(trainer: Trainer, resumed: bool) -> None:
    """Print the number of processes and the round of a resume."""
    from srl_train import processes
    from srl_train.checkpoints import warn_of_incomplete

    run = trainer.run
    if processes.count() > 1:
        tell(f"training in {next(iter(run.learners.values())).parallelism()}")
    if resumed:
        warn_of_incomplete(trainer.files.checkpoints)
        tell(f"resuming at round {run.next_round} of {run.config.rounds}")


def _folder_and_config(args: argparse.Namespace) -> tuple[Path, RunConfig]:
    if args.config is None and not (args.resume and args.out):
        raise ConfigError("give a configuration file, or --resume with --out RUN")
    folder = args.out or Path("runs") / args.config.stem
    source = args.config or folder / "config.yaml"
    overrides = settings(args.overrides)
    if args.seed is not None:
        overrides["seed"] = args.seed
    from srl_train.config.yaml_file import load

    return folder, load(source, overrides)
