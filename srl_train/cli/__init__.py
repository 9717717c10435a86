"""The `srl` command: one module per subcommand, imported when it is called."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from types import ModuleType
from typing import NoReturn

from srl_envs.loading.extras import install_line, needed_by
from srl_envs.loading.untrusted import printable
from srl_train.cli import notices
from srl_train.cli.options import add_command

COMMANDS = {
    "train": "train several models at once, as a configuration says",
    "collect": "play games, and write those worth learning from",
    "eval": "score a policy, a model or a run in scenarios, with partners it never met",
    "crossplay": "let all players meet all others: matrix, ratings, gap and rankings",
    "rate": "rate players by the games of one cross-play or of several",
    "exploit": "train a best response to a player, and say what it gains",
    "compare": "compare methods over their seeds and environments, with intervals",
    "serve": "serve models or environments, or list the model servers that run",
    "export": "write a trained model for others to load, or push it to the hub",
    "report": "write the report of a run, or compare several",
    "watch": "show runs while they go on, on a page in the browser",
    "play": "play one agent yourself, in the terminal",
    "replay": "play recorded episodes again: check them, or make an animation",
    "schema": "print the settings of a configuration as a JSON Schema, for editors",
    "doctor": "tell what is installed, which device there is, and what installs what is missing",
    "info": "show versions, environments, strategies and this machine",
}
"""Subcommand, which is also its module's name -> what it does. Each module has
`add_arguments(parser)` and `run(args) -> int`."""
FOLDERS = {
    "judging": ("eval", "crossplay", "rate", "exploit", "compare"),
    "pages": ("report", "replay", "watch"),
}
"""Folder of srl_train/cli -> subcommands whose modules are in it; the others are beside this."""
TERMINATED = 128 + signal.SIGTERM
"""The status after SIGTERM, as shells tell it."""
ERROR_MODULES = (
    "srl_envs.errors",
    "srl_agents.errors",
    "srl_train.errors",
    "srl_train.metrics.errors",
)
"""Where our own errors live: they are told in one line. Anything else is a fault of ours and
keeps its traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (0 done, 1 reader gone, 2 refused,
    130 interrupted). Raises SystemExit where it is told to end (143 terminated)."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(*[word for word in words if word in COMMANDS][:1])
    parser.words = words
    args = parser.parse_args(words)
    if args.print_completion is not None:
        return _print_completion(args.print_completion)
    if args.command is None:
        parser.print_help()
        return 0
    try:
        with notices.shown(quiet=getattr(args, "quiet", False)) as args.notices:
            return status("srl", args.command, lambda: _module(args.command).run(args))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"srl: interrupted{_how_to_go_on(args)}", file=sys.stderr)
        return 130
    except SystemExit as ended:
        if ended.code == TERMINATED:
            print(f"srl: terminated{_how_to_go_on(args)}", file=sys.stderr)
        raise


def status(program: str, command: str, run: Callable[[], int]) -> int:
    """What `run` returns; 2 for an error of ours or what is not installed, told in one line."""
    try:
        return run()
    except _own_errors() as error:
        told = " ".join(str(error).split())
    except ImportError as error:
        line = install_line(error, f"`{program} {command}`")
        if line is None:
            raise
        told = line
    # It may quote a file.
    print(f"{program}: error: {printable(told, multiline=False)}", file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    """Its errors name the nearest command, and the setting that an unknown option may mean."""

    words: Sequence[str] = ()
    """The command line."""

    def error(self, message: str) -> NoReturn:
        """Leave with the message and what may have been meant."""
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        if wrong and (near := difflib.get_close_matches(wrong[1], COMMANDS, n=1)):
            message += f"; did you mean {near[0]!r}?"
        option = re.search(r"unrecognized arguments: --([\w.-]+)", message)
        if option and self.words[:1] == ["train"]:
            name = option[1].replace("-", "_")
            message += f"; settings are given as --set KEY=VALUE, such as --set {name}=..."
        super().error(message)


def _parser(*filled: str) -> _Parser:
    """The whole parser; only the `filled` commands have their own arguments, so that only their
    modules, and what those need, are imported."""
    parser = _Parser(
        prog="srl", description="Train several language models at once with reinforcement learning."
    )
    parser.add_argument("--version", action="version", version=f"srl {_version()}")
    parser.add_argument(
        "--print-completion", choices=("bash", "zsh"), metavar="SHELL",
        help="print what has bash or zsh complete commands and options (docs/quick_start.md)",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        chosen = add_command(commands, name, purpose)
        if name in filled:
            _module(name).add_arguments(chosen)
    return parser


def _print_completion(shell: str) -> int:
    try:
        with needed_by("completion"):
            import shtab
    except ImportError as error:
        print(f"srl: error: {error}", file=sys.stderr)
        return 2
    print(shtab.complete(_parser(*COMMANDS), shell))
    return 0


def _module(command: str) -> ModuleType:
    folder = next((f"{name}." for name, held in FOLDERS.items() if command in held), "")
    if folder == "pages.":
        return importlib.import_module(f"srl_extensions.pages.command_{command}")
    return importlib.import_module(f"srl_train.cli.{folder}{command}")


def _how_to_go_on(args: argparse.Namespace) -> str:
    """The command that goes on from what an interrupted `srl train` has saved."""
    folder = getattr(args, "folder", None)
    if args.command != "train" or folder is None:
        return ""
    if not any((folder / "checkpoints").glob("*/")):
        return f"; no checkpoint was saved yet in {folder}: remove it and start again"
    return f"; to go on: srl train --resume --out {shlex.quote(str(folder))}"


def _version() -> str:
    try:
        return metadata.version("core-srl")
    except metadata.PackageNotFoundError:
        return "(run from a source folder, not installed)"


def _own_errors() -> tuple[type[BaseException], ...]:
    modules = map(importlib.import_module, ERROR_MODULES)
    return tuple(
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Exception)
    )
