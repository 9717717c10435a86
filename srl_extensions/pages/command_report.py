"""`srl report`: the report of a run. `srl train` loads this module for its `summary`."""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl report`."""
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="report to write (default: report.html in the run's folder)",
    )  # fmt: skip
    add_trust(parser)


def summary(folder: Path) -> str:
    """Return `terminal_summary` of the run in a folder; raise the errors of `run_folder.load`."""
    from srl_extensions.pages.report import terminal_summary  # The base install has no pydantic.
    from srl_extensions.pages.run_folder import load

    return terminal_summary(load(folder))


def run(args: argparse.Namespace) -> int:
    """Write the report, print a summary and its path, return 0; errors as `write_report`."""
    from srl_extensions.pages.report import write_report

    page = write_report(args.run, args.out, trusted=args.trust)
    tell(summary(args.run))
    tell(f"report: {page}")
    return 0
