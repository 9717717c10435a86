"""`srl report`: the report of one run, or of several side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a folder of `srl train`")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="the page to write (default: report.html in the run's folder, "
        "or comparison.html next to the first run)",
    )  # fmt: skip
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER",
        help="also write each run's figures there as PNG files",
    )  # fmt: skip
    add_trust(parser)


def summary(folder: Path) -> str:
    """Return what the run in `folder` learned as lines of text."""
    from srl_extensions.pages.report import terminal_summary
    from srl_train.metrics.run_folder import load

    return terminal_summary(load(folder))


def run(args: argparse.Namespace) -> int:
    """Write the page, and print its path and the headline."""
    from srl_extensions.pages.comparison import compare, final_values
    from srl_extensions.pages.figures import save_plots
    from srl_extensions.pages.report import write_report
    from srl_train.metrics.document import as_lines
    from srl_train.metrics.run_folder import load
    from srl_train.metrics.seeds import entries, labels

    runs: list[Path] = args.runs
    if len(runs) == 1:
        page = write_report(runs[0], args.out, trusted=args.trust)
        tell(summary(runs[0]))
    else:
        page = compare(runs, args.out)
        loaded = [(name, load(run)) for name, run in zip(labels(runs), runs, strict=True)]
        for label, one in loaded:
            for line in one.warnings:
                tell(f"warning: {label}: {line}")
        tell("\n".join(as_lines([final_values(entries(loaded))])))
    if args.plots is not None:
        for label, folder in zip(labels(runs), runs, strict=True):
            target = args.plots if len(runs) == 1 else args.plots / label
            for path in save_plots(folder, target):
                tell(f"figure: {path}")
    tell(f"report: {page}")
    return 0
