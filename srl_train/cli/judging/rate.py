"""`srl rate`: ratings of players by the games of cross-plays, which are not played again."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_record, add_seed, check_numbers
from srl_train.errors import ConfigError
from srl_train.metrics.document import as_lines

SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "results", metavar="RESULTS", nargs="+", type=Path,
        help="a folder of `srl crossplay`, or its results.json; players of one name in several are "
        "one player",
    )  # fmt: skip
    only = "take the games of this environment or scenario only"
    add_list(parser, "--environment", "NAME", only, dest="environments")
    add_seed(parser, "the order of the matches comes from it")
    add_record(parser)
    parser.add_argument("--quiet", action="store_true", help="print no table")


def run(args: argparse.Namespace) -> int:
    """Read, rate and tell."""
    from srl_agents.evaluation.population.results import rated_together, read_played
    from srl_train.cli.judging.population import ratings
    from srl_train.run_files import asked_for, refuse_unwritable, write_whole

    check_numbers(args)
    files = [path / "results.json" if path.is_dir() else path for path in args.results]
    if len({path.resolve() for path in files}) < len(files):
        raise ConfigError("the same results were given twice: their games would count twice")
    played = [one for path in files for one in read_played(path)]
    there = dict.fromkeys(one.arena for one in played)
    for name in args.environments:
        if name not in there:
            raise ConfigError(f"--environment {name}: there are games of {', '.join(there)}")
    chosen = [one for one in played if one.arena in (args.environments or there)]
    if args.out is not None:
        refuse_unwritable("--out", args.out)
    rated = rated_together(chosen, args.seed)
    if not args.quiet:
        tell("\n".join(as_lines(ratings(asdict(rated), None))))
    if args.out is not None:
        record = {
            "schema_version": SCHEMA_VERSION,
            "environments": list(dict.fromkeys(one.arena for one in chosen)),
            "seed": args.seed,
            **asdict(rated),
        }
        with asked_for("--out", args.out):
            write_whole(args.out, json.dumps(record, indent=1, allow_nan=False) + "\n")
        if not args.quiet:
            tell(f"written: {args.out}")
    return 0
