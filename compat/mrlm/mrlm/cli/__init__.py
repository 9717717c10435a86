"""The `mrlm` command: train, serve, eval, collect, info."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from importlib import metadata

from srl_train.cli import notices, status
from srl_train.cli.options import Parser, add_command

COMMANDS = {
    "train": "train a model as a YAML file says",
    "serve": "serve environments over gRPC",
    "eval": "evaluate a model in an environment",
    "collect": "play episodes, and write them to learn from",
    "info": "show this machine, the algorithms and the environments",
}
"""Subcommand, which is also its module's name -> what it does."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (0 done, 2 refused, 130 interrupted)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(next((word for word in words if word in COMMANDS), None))
    args, rest = parser.parse_known_args(words)
    if rest and args.command != "serve":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.command is None:
        parser.print_help()
        return 0
    args.rest = rest
    packages = (*notices.PACKAGES, "mrlm")
    try:
        with notices.shown(quiet=not args.verbose, command="mrlm", packages=packages):
            module = importlib.import_module(f"mrlm.cli.{args.command}")
            return status("mrlm", args.command, lambda: module.run(args))
    except KeyboardInterrupt:
        print("mrlm: interrupted", file=sys.stderr)
        return 130


def _parser(command: str | None) -> argparse.ArgumentParser:
    """The whole parser; only `command`'s own arguments are filled in."""
    parser = Parser(
        prog="mrlm", description="MRLM's command line, over Core SRL.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"mrlm {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        chosen = add_command(commands, name, purpose, allow_abbrev=False)
        chosen.add_argument("-v", "--verbose", action="store_true", help="tell what is going on")
        if name == command:
            importlib.import_module(f"mrlm.cli.{name}").add_arguments(chosen)
    return parser


def _version() -> str:
    try:
        return metadata.version("mrlm")
    except metadata.PackageNotFoundError:
        return "(run from a source folder, not installed)"
