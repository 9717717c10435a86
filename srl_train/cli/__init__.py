"""Command `srl`, with one module per subcommand, which is imported when it is called."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from srl_envs.loading import install_line
from srl_envs.tables import Plugin, PluginTable
from srl_envs.untrusted import printable
from srl_train.cli import notices
from srl_train.cli.options import Parser, add_command
from srl_train.errors import ConfigError
from srl_train.run_files import versions

COMMANDS = PluginTable(
    "core_srl.commands",
    {
        "train": Plugin("srl_train.cli.train", "train several models at once"),
        "collect": Plugin(
            "srl_extensions.offline.command_collect", "play episodes and save training data"
        ),
        "eval": Plugin("srl_extensions.judging.command_eval", "evaluate a policy in scenarios"),
        "crossplay": Plugin(
            "srl_extensions.judging.command_crossplay", "evaluate all pairs of players"
        ),
        "exploit": Plugin(
            "srl_extensions.judging.command_exploit", "train a best response to a policy"
        ),
        "compare": Plugin(
            "srl_extensions.judging.command_compare", "compare runs of training methods"
        ),
        "serve": Plugin("srl_train.cli.serve", "serve models or environments"),
        "export": Plugin("srl_extensions.export.command", "write trained models to a folder"),
        "report": Plugin("srl_extensions.pages.command_report", "write the report of a run"),
        "watch": Plugin("srl_extensions.pages.command_watch", "show runs in a browser"),
        "play": Plugin(
            "srl_extensions.judging.command_play", "play one agent yourself in the terminal"
        ),
        "replay": Plugin(
            "srl_extensions.pages.command_replay", "verify or animate recorded episodes"
        ),
        "doctor": Plugin("srl_train.cli.doctor", "list extras and devices"),
        "info": Plugin("srl_train.cli.info", "list environments, strategies, modes and algorithms"),
    },
    ConfigError,
)
"""Subcommands. Each module has `add_arguments(parser)` and `run(args) -> int`."""
TERMINATED = 128 + signal.SIGTERM
ERROR_MODULES = ("srl_envs.errors", "srl_agents.errors", "srl_train.errors")
"""Modules of the errors that are printed in one line. Other exceptions keep their traceback."""
OUT_OF_REACH = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
"""Numbers of OSErrors that are printed in one line too."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command `srl`, and print errors of this library in one line to stderr.

    Args:
        argv: Arguments. None uses those of the process, and sets `sys.excepthook`.

    Returns:
        Exit code of the command (0: success), or 2 for an error of this library or a missing extra,
        130 after SIGINT, and 1 if the reader of the output has ended.

    Raises:
        SystemExit: With code 143 after SIGTERM in training, 2 for wrong arguments, and 0 after
            --help or --version.
    """
    if argv is None:  # The console script.
        sys.excepthook = print_traceback
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(next((word for word in words if word in COMMANDS), None))
    args, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}; see srl {args.command} --help")
    if args.command is None:
        parser.print_help()
        return 0
    for name, value in vars(args).items():
        if isinstance(value, Path):  # Shells do not expand --out=~/run.
            setattr(args, name, Path(os.path.expanduser(value)))
    try:
        with notices.shown(quiet=getattr(args, "quiet", False)):
            return status("srl", args.command, lambda: COMMANDS.load(args.command).run(args))
    except BrokenPipeError:  # The reader of the output, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"srl: interrupted{_how_to_resume(args)}", file=sys.stderr)
        return 130
    except SystemExit as ended:
        if ended.code == TERMINATED:
            print(f"srl: terminated{_how_to_resume(args)}", file=sys.stderr)
        raise


def print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback to stderr with control characters escaped; for `sys.excepthook`."""
    text = "".join(traceback.format_exception(kind, error, trace))
    print(printable(text), end="", file=sys.stderr)


def status(program: str, command: str, run: Callable[[], int]) -> int:
    """Call `run` and return its exit code, or 2 for an error of this library or a missing extra.

    The error is printed to stderr in one line that begins with `program`. The line of a missing
    extra names the command and how to install the extra. Errors in OUT_OF_REACH are printed too.
    Other exceptions are raised, as are errors that occurred while one of them was handled.
    """
    handled = tuple(
        kind
        for name in ERROR_MODULES
        for kind in vars(importlib.import_module(name)).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    )
    caught: tuple[type[Exception], ...] = (*handled, OSError)
    try:
        return run()
    except caught as error:
        hidden = None if error.__suppress_context__ else error.__context__
        if isinstance(hidden, Exception) and not isinstance(hidden, handled):
            raise  # A cleanup failed after another exception, which one line would hide.
        line = " ".join(str(error).split())
        if isinstance(error, OSError) and not isinstance(error, handled):
            if error.errno not in OUT_OF_REACH or not isinstance(error.filename, str | Path):
                raise
            line = f"{error.filename}: {error.strerror}"
    except ImportError as error:
        install = install_line(error, f"`{program} {command}`")
        if install is None:
            raise
        line = install
    print(f"{program}: error: {printable(line, multiline=False)}", file=sys.stderr)
    return 2


def _parser(called: str | None) -> Parser:
    parser = Parser(
        prog="srl", description="Train several language models at once with reinforcement learning."
    )
    version = versions().get("core-srl", "(run from a source folder, not installed)")
    parser.add_argument("--version", action="version", version=f"srl {version}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, plugin in COMMANDS.items():
        command = add_command(commands, name, plugin.summary)
        if name == called and status("srl", name, partial(_add_arguments, plugin, command)):
            raise SystemExit(2)
    return parser


def _add_arguments(plugin: Plugin, parser: argparse.ArgumentParser) -> int:
    plugin.load().add_arguments(parser)
    return 0


def _how_to_resume(args: argparse.Namespace) -> str:
    folder = getattr(args, "folder", None)
    if args.command != "train" or folder is None or not (folder / "config.yaml").is_file():
        return ""
    return f"; to resume: srl train --resume --out {shlex.quote(str(folder))}"
