"""Measure a claim about training: print its tables and checks, and record the result.

python -m benchmarks.training NAME [--seeds 0 1 2] [--json FILE]

A claim is a file of benchmarks/claims. The exit code is 1 if a check does not hold.
"""

from __future__ import annotations

import json
import os
import pkgutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import claim as claims
from benchmarks import records
from benchmarks.claim import Request, Result
from srl_train.cli.options import settings
from srl_train.errors import ConfigError
from srl_train.run_files import write_whole


def measure(request: Request) -> Result:
    """Run the measurement that the claim of a request names, and return its result.

    It is imported here only: measurements of memory start processes, and Linux counts the memory of
    the parent at the fork in the child's peak. So nothing else in this module may import torch.
    """
    result: Result = pkgutil.resolve_name(f"benchmarks.{request.claim.measure}")(request)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a claim, print and record it; return 1 if a check does not hold, else 0."""
    parser = records.parser(__doc__)
    parser.add_argument("name", choices=claims.names(), help="a file of benchmarks/claims")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="SEED", help="other seeds")
    parser.add_argument("--games", type=int, help="another number of evaluation games")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE",
        help="replace one setting of all methods; may be repeated",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the runs in FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the record to FILE")
    options = parser.parse_args(arguments)
    # Set before transformers is imported, in this process or another one.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    claim = claims.load(options.name)
    with tempfile.TemporaryDirectory(prefix=f"{options.name}-") as temporary:
        try:
            request = Request(
                claim,
                claim.seeds if options.seeds is None else options.seeds,
                options.out or Path(temporary),
                claim.games if options.games is None else options.games,
                settings(options.overrides),
            )
            began = sum(os.times()[:4])
            result = measure(request)
            minutes = (sum(os.times()[:4]) - began) / 60  # with ended child processes
        except ConfigError as error:
            parser.error(str(error))
    if options.json is not None:
        record = records.circumstances() | claim.record(result, request)
        record["cpu_minutes"] = round(result.facts.get("minutes", minutes))
        write_whole(options.json, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return records.keep(claim.markdown(result, request), options, claim.judge(result))


if __name__ == "__main__":
    raise SystemExit(main())
