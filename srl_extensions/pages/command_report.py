"""`srl report`: the report of a run.

Other parts load this module from the table of commands: `summary` for the end of `srl train`;
`load`, `write_page` and `transcript` to read runs and to write pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_extensions.pages.document import write_page
from srl_extensions.pages.report import terminal_summary, write_report
from srl_extensions.pages.run_folder import load
from srl_extensions.pages.transcript import transcript
from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust

__all__ = ["add_arguments", "load", "run", "summary", "transcript", "write_page"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a folder of `srl train`")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="the page to write (default: report.html in the run's folder)",
    )  # fmt: skip
    add_trust(parser)


def summary(folder: Path) -> str:
    """Return what the run in `folder` learned as lines of text."""
    return terminal_summary(load(folder))


def run(args: argparse.Namespace) -> int:
    """Write the page, and print its path and the headline."""
    page = write_report(args.run, args.out, trusted=args.trust)
    tell(summary(args.run))
    tell(f"report: {page}")
    return 0
