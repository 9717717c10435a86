"""`srl compare`: methods against each other, over their runs of several seeds and environments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_train.cli.notices import tell
from srl_train.cli.options import add_record, add_seed, check_numbers
from srl_train.errors import ConfigError
from srl_train.metrics.document import aligned

if TYPE_CHECKING:
    from srl_agents.evaluation.aggregates import Estimate

SCHEMA_VERSION = 1
ENOUGH = 10
"""Seeds from which a bootstrap interval covers about 95 %, see `Estimate.interval`."""
COLUMNS = {
    "interquartile_mean": "interquartile mean",
    "mean": "mean",
    "median": "median of tasks",
    "optimality_gap": "optimality gap",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "runs", metavar="[METHOD=]RUN", nargs="+",
        help="folders of `srl train`; those of one METHOD are its seeds, by default those that "
        "differ in nothing but the seed",
    )  # fmt: skip
    add_seed(parser, "resampling for the intervals comes from it")
    add_record(parser)


def run(args: argparse.Namespace) -> int:
    """Read, compare and tell."""
    from srl_train.metrics.methods import methods_of, scored
    from srl_train.metrics.run_folder import load
    from srl_train.metrics.seeds import labels
    from srl_train.run_files import asked_for, refuse_unwritable, write_whole

    check_numbers(args)
    words = [_split(word) for word in args.runs]
    folders = [folder for _, folder in words]
    loaded = [
        (method, label, load(folder))
        for (method, folder), label in zip(words, labels(folders), strict=True)
    ]
    if args.out is not None:
        refuse_unwritable("--out", args.out)
    found = scored(methods_of(loaded))
    record = {
        "schema_version": SCHEMA_VERSION,
        "score": found.score,
        "interval": "95 %, by stratified bootstrap over the seeds of each environment",
        "seed": args.seed,
        "methods": [
            {
                "name": name,
                "scores": {task: list(own) for task, own in scores.items()},
                **{key: _plain(one) for key, one in found.aggregates(name, args.seed).items()},
            }
            for name, scores in found.scores.items()
        ],
        "probability_of_improvement": [
            {"method": ours, "over": theirs, **_plain(one)}
            for (ours, theirs), one in found.improvements(args.seed).items()
        ],
    }
    tell(table(record))
    if args.out is not None:
        with asked_for("--out", args.out):
            write_whole(args.out, json.dumps(record, indent=1, allow_nan=False) + "\n")
        tell(f"written: {args.out}")
    return 0


def table(record: Mapping[str, Any]) -> str:
    """The comparison as lines of text."""
    methods = record["methods"]
    shown = [key for key in COLUMNS if all(key in method for method in methods)]
    lines = [f"{record['score']}, with 95 % intervals:"]
    rows = [["", "tasks", "runs", *(COLUMNS[key] for key in shown)]]
    for method in methods:
        runs = sum(map(len, method["scores"].values()))
        told = [_told(method[key]) for key in shown]
        rows.append([method["name"], str(len(method["scores"])), str(runs), *told])
    lines += aligned(rows)
    fewest = min(len(own) for method in methods for own in method["scores"].values())
    single = [one["name"] for one in methods if min(map(len, one["scores"].values())) == 1]
    if single:
        lines.append(
            f"caution: only one seed of {', '.join(single)}: any difference may be chance; "
            "compare several seeds"
        )
    elif fewest < ENOUGH:
        lines.append(
            f"fewer than {ENOUGH} seeds per environment: the intervals are too narrow "
            "(with 3 seeds they cover 76 % instead of 95 %, with 5 seeds 89 %)"
        )
    if record["probability_of_improvement"]:
        lines.append("probability that a run of the first scores more than one of the second:")
        lines += aligned(
            [
                [f"{one['method']} over {one['over']}", _told(one)]
                for one in record["probability_of_improvement"]
            ]
        )
    return "\n".join(lines)


def _split(word: str) -> tuple[str | None, Path]:
    method, equals, folder = word.partition("=")
    if not equals or Path(word).exists():
        return None, Path(word)
    if not method or not folder:
        raise ConfigError(f"{word!r} names no run: give RUN or METHOD=RUN")
    return method, Path(folder)


def _plain(estimate: Estimate) -> dict[str, Any]:
    interval = estimate.interval
    return {"value": estimate.value, "interval": None if interval is None else list(interval)}


def _told(estimate: Mapping[str, Any]) -> str:
    interval = estimate["interval"]
    spread = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
    return f"{estimate['value']:.3f}{spread}"
