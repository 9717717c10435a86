"""`srl compare`: comparison of methods over their runs of several seeds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_extensions.judging.aggregates import interquartile_mean, mean
from srl_extensions.judging.shared import with_interval, write_results
from srl_train.cli.notices import tell
from srl_train.cli.options import add_record, add_seed, check_numbers
from srl_train.errors import ConfigError, RunFolderError
from srl_train.metrics.tables import aligned
from srl_train.run_files import refuse_unwritable

if TYPE_CHECKING:
    from srl_extensions.pages.run_folder import RecordedRun

SCHEMA_VERSION = 2
ENOUGH_SEEDS = 10
"""Number of seeds from which bootstrap intervals cover about 95 %, see `Estimate.interval`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl compare`."""
    parser.add_argument(
        "runs", metavar="[METHOD=]RUN", nargs="+",
        help="folders of `srl train`; runs of one METHOD are its seeds (default: the folder)",
    )  # fmt: skip
    add_seed(parser, "seed of the bootstrap intervals")
    add_record(parser)


def run(args: argparse.Namespace) -> int:
    """Print a table of methods, write --out if set, return 0.

    Raise RunFolderError for runs that cannot be compared.
    """
    from srl_extensions.pages.run_folder import load  # The base install has no pydantic.

    check_numbers(args)
    methods: dict[str, list[RecordedRun]] = {}
    for word in args.runs:
        method, folder = _split(word)
        methods.setdefault(method, []).append(load(folder))
    if args.out is not None:
        refuse_unwritable("--out", args.out)
    score, scores = scores_of(methods)
    record = {
        "schema_version": SCHEMA_VERSION,
        "score": score,
        "interval": "95 %, by bootstrap over seeds",
        "seed": args.seed,
        "methods": [
            {
                "name": name,
                "scores": own,
                "interquartile_mean": interquartile_mean({name: own}, args.seed)._asdict(),
                "mean": mean({name: own}, args.seed)._asdict(),
            }
            for name, own in scores.items()
        ],
    }
    tell(table(record))
    if args.out is not None:
        write_results(args.out, record)
    return 0


def _split(word: str) -> tuple[str, Path]:
    method, equals, folder = word.partition("=")
    if not equals or Path(word).exists():
        return word, Path(word)
    if not method or not folder:
        raise ConfigError(f"runs must be RUN or METHOD=RUN, got {word!r}")
    return method, Path(folder)


def scores_of(methods: Mapping[str, Sequence[RecordedRun]]) -> tuple[str, dict[str, list[float]]]:
    """Return a description of the scores, and method -> the score of each of its runs.

    A score is the mean raw reward per agent and step: of the evaluation after training if all runs
    have one, else of the last tenth of the rounds. Scores are normalized, with uniform play at 0
    and the optimum at 1, if both are known and different for all runs. Raise RunFolderError if a
    run has no reward, a method has a seed twice, or runs have different environments or options.
    """
    runs = [run for own in methods.values() for run in own]
    evaluated = all(math.isfinite(run.evaluated("after", "raw_reward")) for run in runs)
    normalized = all(math.isfinite(run.position(0.0)) for run in runs)
    first = runs[0]
    scores: dict[str, list[float]] = {}
    for method, own in methods.items():
        seen = set()
        for run in own:
            if (run.environment, run.options) != (first.environment, first.options):
                raise RunFolderError(
                    f"runs must have the same environment and options, got {first.folder} "
                    f"({first.environment}) and {run.folder} ({run.environment})"
                )
            if run.seed in seen:
                raise RunFolderError(f"{method} has seed {run.seed} twice")
            seen.add(run.seed)
            value = (
                run.evaluated("after", "raw_reward") if evaluated else run.edges("raw_reward")[1]
            )
            if not math.isfinite(value):
                raise RunFolderError(f"{run.folder} has no reward yet")
            scores.setdefault(method, []).append(run.position(value) if normalized else value)
    when = "evaluated after training" if evaluated else "over the last tenth of the rounds"
    scale = ", between uniform play (0) and the optimum (1)" if normalized else ""
    return f"mean raw reward {when}{scale}", scores


def table(record: Mapping[str, Any]) -> str:
    """Return `record`, the content of --out, as text, with a caution below ENOUGH_SEEDS seeds."""
    methods = record["methods"]
    rows = [["method", "runs", "interquartile mean", "mean"]]
    for method in methods:
        values = [with_interval(**method[key]) for key in ("interquartile_mean", "mean")]
        rows.append([method["name"], str(len(method["scores"])), *values])
    lines = [f"Score: {record['score']}. 95 % intervals in parentheses.", *aligned(rows)]
    if min(len(method["scores"]) for method in methods) < ENOUGH_SEEDS:
        lines.append(
            f"Caution: fewer than {ENOUGH_SEEDS} seeds, so the intervals are too "
            "narrow (with 3 seeds they cover 76 % instead of 95 %, with 5 seeds 89 %). A "
            "difference between single seeds may be chance."
        )
    return "\n".join(lines)
