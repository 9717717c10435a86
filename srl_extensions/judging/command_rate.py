"""`srl rate`: ratings of players from the games of cross-plays, which are not played again."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from srl_extensions.judging.crossplay_page import as_lines, ratings
from srl_extensions.judging.payoffs import read_played
from srl_extensions.judging.ratings import rate_together
from srl_extensions.judging.shared import write_results
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_record, add_seed, check_numbers
from srl_train.errors import ConfigError
from srl_train.run_files import refuse_unwritable

SCHEMA_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "results", metavar="RESULTS", nargs="+", type=Path,
        help="a folder of `srl crossplay`, or its results.json; players with the same name are one "
        "player",
    )  # fmt: skip
    add_list(
        parser, "--environment", "NAME", "only games of this environment or scenario",
        dest="environments",
    )  # fmt: skip
    add_seed(parser, "seed of the order of matches")
    add_record(parser)
    parser.add_argument("--quiet", action="store_true", help="print no table")


def run(args: argparse.Namespace) -> int:
    """Rate the players, print the ratings and write them."""
    check_numbers(args)
    files = [path / "results.json" if path.is_dir() else path for path in args.results]
    if len({path.resolve() for path in files}) < len(files):
        raise ConfigError("RESULTS contains the same file twice, its games would count twice")
    played = [one for path in files for one in read_played(path)]
    names = dict.fromkeys(one.arena for one in played)
    for name in args.environments:
        if name not in names:
            raise ConfigError(f"--environment must be one of {', '.join(names)}, got {name}")
    chosen = [one for one in played if one.arena in (args.environments or names)]
    if args.out is not None:
        refuse_unwritable("--out", args.out)
    rated = asdict(rate_together(chosen, args.seed))
    if not args.quiet:
        tell("\n".join(as_lines(ratings(rated, None))))
    if args.out is not None:
        environments = list(dict.fromkeys(one.arena for one in chosen))
        head = {"schema_version": SCHEMA_VERSION, "environments": environments, "seed": args.seed}
        write_results(args.out, {**head, **rated}, quiet=args.quiet)
    return 0
