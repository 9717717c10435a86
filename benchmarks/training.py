"""Measure a claim about training: print its tables and checks, and record the result.

python -m benchmarks.training NAME [--seeds 0 1 2] [--json FILE] [--markdown FILE]

A claim is a file of benchmarks/claims. The exit code is 1 if a check does not hold.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pkgutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import claim as claims
from benchmarks import records
from benchmarks.claim import Claim, Request, Result
from srl_train.cli.options import settings
from srl_train.errors import ConfigError

# Names instead of imports: measurements of memory start processes, and Linux counts the memory of
# the parent at the fork in the child's peak. So nothing imported here may import torch.
MEASUREMENTS = {
    **dict.fromkeys(("demo_seeds", "adapter_memory", "scaling", "vocabulary"),
                    "benchmarks.costs"),
    **dict.fromkeys(("maze", "trading", "arithmetic", "tools", "several_tasks", "algorithms",
                     "offline", "team_battle", "federated", "served"), "benchmarks.learning"),
    **dict.fromkeys(("round_cost", "ray", "asynchronous"), "benchmarks.rounds"),
    "named_algorithms": "benchmarks.comparisons",
    "credit": "benchmarks.credit",
    "zero_sum": "benchmarks.zero_sum",
}  # fmt: skip
"""Measurement -> module. The function is `measure` in a module with a single measurement."""


def measure(request: Request) -> Result:
    """Run the measurement that a claim names."""
    name = request.claim.measure
    module = MEASUREMENTS[name]
    function = "measure" if module.endswith(f".{name}") else name
    result: Result = pkgutil.resolve_name(f"{module}:{function}")(request)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record."""
    parser = _parser()
    options = parser.parse_args(arguments)
    # Set before transformers is imported, in this process or another one.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    claim = claims.load(options.name)
    _refuse_useless(parser, claim, options)
    if options.figure is not None:
        records.new_figure("--figure", 1, 1)
    with tempfile.TemporaryDirectory(prefix=f"{options.name}-") as temporary:
        try:
            request = Request(
                claim,
                claim.seeds if options.seeds is None else options.seeds,
                options.out or Path(temporary),
                claim.games if options.games is None else options.games,
                settings(options.overrides),
            )
            result = measure(request)
        except ConfigError as error:
            parser.error(str(error))
    if options.figure is not None and claim.figure is not None:
        claim.figure.draw(result.rows, options.figure)
    markdown, checks = claim.markdown(result, request), claim.judge(result)
    return records.keep(options.name, dataclasses.asdict(result), markdown, options, checks)


def _parser() -> argparse.ArgumentParser:
    parser = records.parser(__doc__)
    parser.add_argument("name", choices=claims.names(), metavar="NAME", help="see --list")
    parser.add_argument("--list", action=_List, nargs=0, help="list the claims and exit")
    parser.add_argument("--seeds", type=_whole, nargs="+", metavar="SEED", help="other seeds")
    parser.add_argument("--games", type=_count, help="another number of evaluation games")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE",
        help="replace one setting of all methods; may be repeated",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the runs in FOLDER")
    parser.add_argument("--figure", type=Path, metavar="FILE.png", help="also draw the figure")
    return parser


def _refuse_useless(
    parser: argparse.ArgumentParser, claim: Claim, options: argparse.Namespace
) -> None:
    useless = {
        "--seeds": options.seeds is not None and not claim.seeds,
        "--games": options.games is not None and not claim.games,
        "--out": options.out is not None and not claim.writes_runs,
        "--figure": options.figure is not None and claim.figure is None,
    }
    for option, is_useless in useless.items():
        if is_useless:
            parser.error(f"{option} has no effect on {options.name}: leave the option out")


class _List(argparse.Action):
    """Prints the names and titles of all claims, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        width = max(map(len, claims.names()))
        for name in claims.names():
            print(f"{name:{width}}  {claims.load(name).title}")
        parser.exit()


def _whole(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def _count(text: str) -> int:
    if _whole(text) < 2:
        raise argparse.ArgumentTypeError(f"{text} is too few, at least 2 are required")
    return int(text)


if __name__ == "__main__":
    raise SystemExit(main())
