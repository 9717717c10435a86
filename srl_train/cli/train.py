"""`srl train`: training of several models with a configuration file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from srl_agents.evaluation.progress import announced
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, prepare_torch, settings
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the optional argument `config`, --out, --seed, --set, --resume and --quiet.

    The values of --set are in `overrides`.
    """
    add = parser.add_argument
    config = "YAML file of the configuration (default with --resume: config.yaml in --out)"
    add("config", nargs="?", type=Path, help=config)
    add("--out", type=Path, help="folder of the run (default: runs/NAME_OF_CONFIG)")
    add("--seed", type=int, help="seed, which replaces the configured seed")
    override = "replace a setting, such as algorithm.learning_rate=1e-3"
    add_list(parser, "--set", "KEY=VALUE", override, dest="overrides")
    add("--resume", action="store_true", help="continue from the newest checkpoint in --out")
    add("--quiet", action="store_true", help="print no progress")


def run(args: argparse.Namespace) -> int:
    """Train or resume a run, print its summary in the main process, and return 0.

    Sets `args.folder` to the folder of the run. Raises ConfigError without a configuration file,
    unless --resume and --out are given, and the errors of Trainer.
    """
    folder, config = _folder_and_config(args)
    args.folder = folder  # `srl_train.cli.main` reads it after an interrupt.
    with announced("loading torch, transformers and TRL"):
        prepare_torch()
        from srl_train import processes
        from srl_train.trainer import Trainer

    with Trainer(config, folder, progress=not args.quiet) as trainer:
        trainer.lock()  # Fail before the models are loaded.
        if args.resume and not trainer.resume():
            tell("the run has no checkpoint and starts from the beginning")
        run = trainer.run  # Building the run joins the processes of torchrun.
        if processes.is_main():
            if processes.count() > 1:
                tell(f"training in {processes.count()} processes, {config.parallel}")
            if args.resume:
                tell(f"resuming after {run.next_round} of {config.rounds} rounds")
                if run.next_round >= config.rounds:
                    tell("no rounds are left; to train more: --set rounds=N, with a larger N")
        trainer.fit()
    del trainer, run
    processes.leave()
    if not processes.is_main():
        return 0
    from srl_train.cli import COMMANDS

    tell(COMMANDS.load("report").summary(folder))
    tell(f"run: {folder} (checkpoints, models, metrics); to write the report: srl report {folder}")
    return 0


def _folder_and_config(args: argparse.Namespace) -> tuple[Path, RunConfig]:
    if args.config is None and not (args.resume and args.out):
        raise ConfigError("a configuration file is required, or --resume with --out RUN")
    folder = args.out or Path("runs") / args.config.stem
    overrides = settings(args.overrides)
    if args.seed is not None:
        overrides["seed"] = args.seed
    from srl_train.config.yaml_file import load
    from srl_train.environment import build_env

    config = load(args.config or folder / "config.yaml", overrides)
    build_env(config).close()  # Refuse a wrong environment before torch is loaded.
    return folder, config
