"""`srl train`: training of several models from a configuration."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_agents.evaluation.progress import announced
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, prepare_torch, settings
from srl_train.errors import ConfigError
from srl_train.players.assignment import refuse_wrong_names

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig
    from srl_train.trainer import Trainer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
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
        "--resume", action="store_true", help="go on from the newest checkpoint in --out"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Train, then say where everything is."""
    folder, config = _folder_and_config(args)
    args.folder = folder  # to be told where the run is interrupted
    refuse_wrong_names(config)
    if config.logging.trackers:
        from srl_train.metrics.trackers.together import refuse_missing

        refuse_missing(config.logging.trackers)
    # Only now: what is wrong or missing should not be told after torch was loaded.
    with announced("loading torch, transformers and TRL"):
        prepare_torch()
        from srl_train.distributed import processes
        from srl_train.metrics import Progress
        from srl_train.trainer import Trainer

    progress = Progress(config.rounds, log_every=config.logging.every)
    sinks = () if args.quiet else (progress,)
    args.notices.screen = None if args.quiet else progress
    with Trainer(config, folder, sinks=sinks) as trainer:
        if args.resume:
            trainer.load_checkpoint()
        if processes.is_main():
            _announce(trainer, args.resume)
        results, baselines = trainer.fit(), trainer.run.baselines
    del trainer
    processes.leave()
    if not processes.is_main():
        return 0
    _tell(results, baselines, config.mode.name)
    tell(f"checkpoints, models and metrics are in {folder}; for the report: srl report {folder}")
    return 0


def _announce(trainer: Trainer, resumed: bool) -> None:
    """What really started, where several processes were asked for, and from where it goes on."""
    from srl_train.checkpoints.checkpoint import warn_of_those_not_whole

    run = trainer.run
    started = next(iter(run.learners.values())).parallelism()
    if started.processes > 1:
        tell(f"training in {started}")
    if resumed:
        warn_of_those_not_whole(trainer.files.checkpoints)
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


def _tell(results: dict[str, Any], baselines: Mapping[str, float], mode: str) -> None:
    from srl_train.metrics.report.headline import change, change_in_words

    measured = results["evaluation"]
    for stage in results["stages"]:
        tell(_stage(stage, measured.get(f"after_{stage['stage']}")))
    before, after = measured.get("before"), measured.get("after")
    if not before or not after:
        return
    error = after["standard_error"]
    tell(
        f"raw reward per agent and turn: {before['raw_reward']:.4f} before, "
        f"{after['raw_reward']:.4f} after "
        f"({'' if error is None else f'+- {error:.4f} standard error, '}{after['episodes']} games)"
    )
    found = change(before, after, baselines, mode)
    tell("\n".join(change_in_words(found, baselines, mode)))
    for model, reward in after["per_model"].items():
        if reward is not None:  # with fewer games than models, not all of them played
            tell(f"  {model}: {before['per_model'][model]:.4f} -> {reward:.4f}")
    for what, was, now in [
        ("success", before, after),
        *(
            (f"{label}: success", before["by_environment"].get(label, {}), own)
            for label, own in after["by_environment"].items()
        ),
    ]:
        if was.get("success") is not None and now["success"] is not None:
            tell(f"  {what} {was['success']:.1%} -> {now['success']:.1%}")


def _stage(report: dict[str, Any], measured: dict[str, Any] | None) -> str:
    """What a stage learned from, and what came of it."""
    samples = ", ".join(
        f"{model} {own['samples']} samples"
        + (
            f", loss {own['first_loss']:.4f} -> {own['last_loss']:.4f}"
            if own["first_loss"] is not None
            else ""
        )
        for model, own in report["models"].items()
    )
    games = f" of {report['games']} games" if report["games"] else ""
    earned = (
        f"; raw reward {report['games_reward']:.4f} in them, {report['kept_reward']:.4f} in the "
        "parts learned from"
        if report["games"]
        else ""
    )
    after = "" if measured is None else f"; the models earn {measured['raw_reward']:.4f} after it"
    return f"{report['stage']}: {report['passes']} passes{games} ({samples}){earned}{after}"
