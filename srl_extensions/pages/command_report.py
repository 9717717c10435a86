"""`srl report`: the report of one run, or of several side by side.

Other parts load this module from the table of commands: `summary` for the end of `srl train`;
`load`, `labels`, `write_page` and `transcript` to read runs and to write pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_extensions.pages.comparison import compare, final_values, labeled
from srl_extensions.pages.document import as_lines, write_page
from srl_extensions.pages.report import terminal_summary, write_report
from srl_extensions.pages.run_folder import labels, load
from srl_extensions.pages.transcript import transcript
from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust

__all__ = ["add_arguments", "labels", "load", "run", "summary", "transcript",
           "write_page"]  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a folder of `srl train`")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="the page to write (default: report.html in the run's folder, "
        "or comparison.html next to the first run)",
    )  # fmt: skip
    add_trust(parser)


def summary(folder: Path) -> str:
    """Return what the run in `folder` learned as lines of text."""
    return terminal_summary(load(folder))


def run(args: argparse.Namespace) -> int:
    """Write the page, and print its path and the headline."""
    if len(args.runs) == 1:
        page = write_report(args.runs[0], args.out, trusted=args.trust)
        tell(summary(args.runs[0]))
    else:
        page = compare(args.runs, args.out)
        loaded = labeled(args.runs)
        for label, one in loaded.items():
            for line in one.warnings:
                tell(f"warning: {label}: {line}")
        tell("\n".join(as_lines([final_values(loaded)])))
    tell(f"report: {page}")
    return 0
