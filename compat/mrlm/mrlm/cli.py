"""The `mrlm` command: training from YAML, and the `srl` commands by MRLM's options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrlm.environments.task import REGISTERED, registered_name
from srl_train import cli as srl
from srl_train.cli import notices
from srl_train.cli.doctor import accelerators
from srl_train.cli.info import print_table
from srl_train.cli.notices import tell
from srl_train.cli.options import Parser, add_command, prepare_torch
from srl_train.player_names import parse_player

COMMANDS = {
    "train": "train a model as a YAML file describes",
    "serve": "serve environments over gRPC; other options are those of `srl serve env`",
    "eval": "evaluate a model in an environment; other options are those of `srl eval`",
    "collect": "collect episodes to learn from; other options are those of `srl collect`",
    "info": "show this machine, the algorithms and the environments",
}
MAX_NEW_TOKENS = "256"
"""Default limit of an answer; a model given by its run has the limit of its training."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command of `argv` (None: sys.argv[1:]) and return its exit code.

    The code is 2 after an error of Core SRL or a missing extra, 130 after SIGINT, and 0 without a
    command. Other errors are raised, as is SystemExit for invalid arguments (2) and --help (0).
    """
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    if rest and args.command in ("train", "info"):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    run = {"train": train, "serve": serve, "eval": evaluate, "collect": collect, "info": info}
    try:
        return srl.status("mrlm", args.command, lambda: run[args.command](args, rest))
    except KeyboardInterrupt:
        print("mrlm: interrupted", file=sys.stderr)
        return 130


def train(args: argparse.Namespace, rest: Sequence[str]) -> int:
    """Train as the YAML file `args.config` describes, print the results and return 0.

    `args.resume` is the folder of a checkpoint to continue from, in its run's folder, or None.
    `args.output`, unless None, replaces the run's folder. `rest` is ignored.
    """
    from mrlm.config import load_config

    config = load_config(args.config)
    if args.output is not None:
        config = config.replaced(output_dir=args.output)
    elif args.resume is not None:
        config = config.replaced(output_dir=None)
    prepare_torch()
    from mrlm.algorithms.trainer import FINAL, train_configured

    with notices.shown(quiet=True, command="mrlm", packages=(*notices.PACKAGES, "mrlm")):
        folder, results = train_configured(config, args.resume)
    if print_results(results):
        tell(f"the model is in {folder / FINAL}; for the report: srl report {folder}")
    return 0


def print_results(results: Mapping[str, Any]) -> bool:
    """Leave the process group and, in the main process, print the results of Trainer.fit.

    Waits until all processes have called. Returns True in the main process, else False.
    """
    from srl_train import processes

    processes.leave()
    if not processes.is_main():
        return False
    for when, found in results["evaluation"].items():
        if found["raw_reward"] is not None:
            tell(f"{when}: reward {found['raw_reward']:.4f} per step, {found['episodes']} episodes")
    for stage in results["stages"]:
        losses = stage["models"]["model_0"]
        tell(f"loss: {losses['first_loss']:.4f} -> {losses['last_loss']:.4f}")
    return True


def serve(args: argparse.Namespace, rest: Sequence[str]) -> int:
    """Run `srl serve env` for `args`, with options `rest`; return the exit code."""
    names = [registered_name(name.strip()) for name in args.environments.split(",")]
    return srl.main(["serve", "env", *names, "--port", args.port, "--host", args.host, *rest])


def evaluate(args: argparse.Namespace, rest: Sequence[str]) -> int:
    """Run `srl eval` for `args`, with options `rest`; return the exit code."""
    output = [] if args.output is None else ["--out", args.output]
    kind = "both_sides" if args.environment == "debate" else "all"
    scenario = f"{REGISTERED[args.environment]}.{kind}"
    words = ["--scenario", scenario, "--policy", args.model]
    tokens = [] if parse_player(args.model).run else ["--max-new-tokens", MAX_NEW_TOKENS]
    return srl.main(["eval", *words, "--episodes", args.num_episodes, *tokens, *output, *rest])


def collect(args: argparse.Namespace, rest: Sequence[str]) -> int:
    """Run `srl collect` for `args`, with options `rest`; return the exit code."""
    threshold = [] if args.filter_reward is None else ["--min-return", args.filter_reward]
    words = ["--environment", REGISTERED[args.environment], "--players", args.model]
    tokens = ["--set", f"models.sampling.max_new_tokens={MAX_NEW_TOKENS}"]
    if parse_player(args.model).run:
        tokens = []
    words += ["--episodes", args.num_episodes, "--out", args.output]
    return srl.main(["collect", *words, *threshold, *tokens, *rest])


def info(args: argparse.Namespace, rest: Sequence[str]) -> int:
    """Print devices, algorithms and environment types, run `srl info`; return its exit code."""
    print_table("machine", accelerators())
    tell("algorithms: ppo, grpo, dpo, sft")
    print_table("environment types", REGISTERED)
    return srl.main(["info"])


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="mrlm", description="MRLM's command line, over Core SRL.")
    added = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands = {
        name: add_command(added, name, purpose, allow_abbrev=False)
        for name, purpose in COMMANDS.items()
    }
    command = commands["train"]
    command.add_argument("-c", "--config", required=True, type=Path, help="YAML file")
    usual = "folder of the run (default: as in the file, or outputs/<algorithm>)"
    command.add_argument("-o", "--output", metavar="DIR", help=usual)
    resume = "continue from this folder of a checkpoint, in its run"
    command.add_argument("--resume", type=Path, metavar="CHECKPOINT", help=resume)
    command = commands["serve"]
    served = f"{', '.join(REGISTERED)}, or names of srl_envs"
    command.add_argument("-e", "--environments", required=True, metavar="ENV1,ENV2", help=served)
    command.add_argument("-p", "--port", default="50051", help="0 selects a free port (50051)")
    command.add_argument("--host", default="127.0.0.1", help="loopback address")
    for name in ("eval", "collect"):
        command = commands[name]
        what = "folder, hub name, tiny, or another player of `srl eval`"
        command.add_argument("-m", "--model", required=True, help=what)
        command.add_argument("-e", "--environment", required=True, choices=[*REGISTERED])
        episodes = "10" if name == "eval" else "100"
        command.add_argument("-n", "--num-episodes", default=episodes, metavar="N", help=episodes)
        needed = name == "collect"
        command.add_argument("-o", "--output", required=needed, metavar="FILE", help="result file")
    least = "keep only episodes with at least this return"
    commands["collect"].add_argument("--filter-reward", metavar="THRESHOLD", help=least)
    return parser


if __name__ == "__main__":
    sys.exit(main())
