"""Measure a claim about training: its tables and checks, and the record that is kept.

python -m benchmarks.training NAME [--seeds 0 1 2] [--json FILE] [--docs FILE] [--figure FILE.png]

Exit code 1 if the claim did not hold on every seed.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import figures, records
from benchmarks.training import claims
from benchmarks.training.claim import Claim, Request
from srl_train.cli.options import settings
from srl_train.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    # Before transformers is imported, here or in a process of its own.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    claim = claims.load(asked.name)
    refused = _refused(claim, asked)
    if refused:
        parser.error(f"{refused} means nothing to {asked.name}: leave it out")
    if asked.figure is not None:
        figures.require_plots("--figure")
    with tempfile.TemporaryDirectory(prefix=f"{asked.name}-") as temporary:
        try:
            request = Request(
                claim.seeds if asked.seeds is None else asked.seeds,
                asked.out or Path(temporary),
                claim.games if asked.games is None else asked.games,
                settings(asked.overrides),
            )
            result = claim.measure(request)
        except ConfigError as error:
            parser.error(str(error))
    if asked.figure is not None and claim.figure is not None:
        claim.figure.draw(result.rows, asked.figure)
    markdown, checks = claim.markdown(result, request), claim.checks(result)
    return records.keep(asked.name, dataclasses.asdict(result), markdown, asked, checks)


def _parser() -> argparse.ArgumentParser:
    parser = records.parser(__doc__)
    parser.add_argument("name", choices=list(claims.CLAIMS), metavar="NAME", help="see --list")
    parser.add_argument("--list", action=_List, nargs=0, help="list the claims, and leave")
    parser.add_argument(
        "--seeds", type=_whole, nargs="+", metavar="SEED", help="in place of its own"
    )
    parser.add_argument("--games", type=_count, help="evaluation games, in place of its own number")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE",
        help="replace one setting of its configuration; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="keep the runs (default: nowhere)"
    )
    parser.add_argument("--figure", type=Path, metavar="FILE.png", help="also draw the figure")
    return parser


def _refused(claim: Claim, asked: argparse.Namespace) -> str | None:
    """The first option that was given and that this claim has no use for."""
    useless = {
        "--seeds": asked.seeds is not None and not claim.seeds,
        "--games": asked.games is not None and not claim.games,
        "--out": asked.out is not None and not claim.writes_runs,
        "--figure": asked.figure is not None and claim.figure is None,
    }
    return next((option for option, is_useless in useless.items() if is_useless), None)


class _List(argparse.Action):
    """Print the table of claims and leave."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        width = max(map(len, claims.CLAIMS))
        for name, (title, _place) in claims.CLAIMS.items():
            print(f"{name:{width}}  {title}")
        parser.exit()


def _whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return int(text)


def _count(text: str) -> int:
    if _whole(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is too few: give 2 or more")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
