"""`srl report`: the report of a run.

Other parts load this module from the table of commands: `summary` for the end of `srl train`;
`load`, `write_page` and `transcript` to read runs and to write pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from srl_extensions.pages.document import write_page
from srl_extensions.pages.transcript import transcript
from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust

if TYPE_CHECKING:
    from srl_extensions.pages.run_folder import RecordedRun

__all__ = ["add_arguments", "load", "run", "summary", "transcript", "write_page"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a folder of `srl train`")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="the page to write (default: report.html in the run's folder)",
    )  # fmt: skip
    add_trust(parser)


def load(folder: Path) -> RecordedRun:
    """Return the recorded rows, summary and configuration of a run."""
    from srl_extensions.pages import run_folder  # pydantic is not in the base install

    return run_folder.load(folder)


def summary(folder: Path) -> str:
    """Return the result of a run as lines of text."""
    from srl_extensions.pages.report import terminal_summary

    return terminal_summary(load(folder))


def run(args: argparse.Namespace) -> int:
    """Write the page, and print its path and the headline."""
    from srl_extensions.pages.report import write_report

    page = write_report(args.run, args.out, trusted=args.trust)
    tell(summary(args.run))
    tell(f"report: {page}")
    return 0
