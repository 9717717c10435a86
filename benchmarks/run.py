"""Classic learners in repeated matrix games of two players.

python -m benchmarks.run [--suite matrix|full|general] [--runs N] [--markdown FILE]

The suites are one setting of the benchmark, ten settings, and many games.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import general_suite, records
from benchmarks.records import Check, table
from srl_agents.evaluation.matrix_game import check_counts, run_benchmark

COOP_LEVELS = (0.2, 0.5, 0.55, 0.6, 0.8)
DIFFICULTIES = (0.3, 0.6)
SELF_PLAY_SHARE = 0.995  # least share of the oracle in self-play, on average
SELF_PLAY_WORST = 0.005
"""Reward per round by which the worst run may stay below the oracle."""
RESPONSE_SHARE = 0.99  # least share of the best possible reward with each partner, on average


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 where a check of the full or general suite failed."""
    parser = records.parser(__doc__)
    parser.add_argument("--suite", choices=("matrix", "full", "general"), default="matrix")
    parser.add_argument("--runs", type=int, help="independent runs (default 5, general 1)")
    parser.add_argument("--episodes", type=int, default=200, help="per run (default 200)")
    parser.add_argument("--horizon", type=int, default=32, help="rounds per episode (default 32)")
    parser.add_argument("--coop-level", type=float, default=0.6, help="matrix suite (default 0.6)")
    parser.add_argument("--difficulty", type=float, default=0.3, help="matrix suite (default 0.3)")
    parser.add_argument("--seed", type=int, default=42, help="seed of all draws (default 42)")
    options = parser.parse_args(arguments)
    runs = options.runs or (1 if options.suite == "general" else 5)
    lengths = {name: getattr(options, name) for name in ("episodes", "horizon", "seed")}
    settings: dict[str, Any] = {
        "runs": runs,
        **lengths,
        "progress": partial(print, file=sys.stderr),
    }
    try:
        check_counts(runs, **lengths)
        if options.suite == "general":
            found = general_suite.general_suite(**settings)
            text = general_suite.tables(found, options.seed)
            return records.keep(text, options, general_suite.checks(found))
        pairs = [(options.difficulty, options.coop_level)]
        if options.suite == "full":
            pairs = list(itertools.product(DIFFICULTIES, COOP_LEVELS))
        results = [
            run_benchmark(coop_level=level, difficulty=difficulty, **settings)
            for difficulty, level in pairs
        ]
    except ValueError as error:
        raise SystemExit(f"benchmarks.run: {error}") from error
    records.keep(setting_tables(results), options)
    return int(options.suite == "full" and not all(c.held for one in results for c in checks(one)))


def checks(result: Mapping[str, Any]) -> list[Check]:
    """Return the checks of OUR in the result of `run_benchmark` for one setting."""
    oracle, mirror = result["oracle"], result["self_play"]["OUR"]
    share, worse = _mean(result["metrics"]["OUR"]) / oracle, mirror["runs_in_the_worse_agreement"]
    found = {
        "self-play, share of the oracle": (share, SELF_PLAY_SHARE),
        "self-play, worst run minus oracle": (mirror["worst"] - oracle, -SELF_PLAY_WORST),
        "self-play, runs in the worse agreement (negated)": (-float(worse), 0.0),
    }
    for name in _partners(result):
        share = result["cross_play"]["OUR"][name]["avg"] / result["references"][name]
        found[f"with {name}, share of the best"] = (share, RESPONSE_SHARE)
    return [
        Check(f"{about}, at least {least:g}", measured >= least, f"{measured:.4f}")
        for about, (measured, least) in found.items()
    ]


# Tables ------------------------------------------------------------------------------------------


def setting_tables(results: Sequence[Mapping[str, Any]]) -> str:
    """Return Markdown tables of all results of `run_benchmark`; several also have summaries."""
    parts = [matrix_table(result) for result in results]
    names = list(results[0]["metrics"])
    rows = []
    for result in results:
        means = (f"{_mean(result['metrics'][name]):.4f}" for name in names)
        worst = f"{result['self_play']['OUR']['worst'] - result['oracle']:+.4f}"
        rate = f"{result['tuning']['rate']:g}"
        rows.append([_setting(result), f"{result['oracle']:.4f}", *means, worst, rate])
    headers = ["c / d", "oracle", *names, "OUR's worst - oracle", "tuned lr"]
    parts.append("With their own kind:\n\n" + table(headers, rows))
    if len(results) > 1:
        partners = _partners(results[0])
        shares = [
            [_setting(result), *(_share_of_best(result, name) for name in partners)]
            for result in results
        ]
        parts.append("OUR's share of the best possible:\n\n" + table(["c / d", *partners], shares))
        parts.append(check_summary(results))
    return "\n\n".join(parts)


def matrix_table(result: Mapping[str, Any]) -> str:
    """Return a Markdown table of the mean rewards in a result of `run_benchmark`."""
    params, cells = result["params"], result["cross_play"]
    names = list(cells)
    rows = [[name, *(f"{cells[name][other]['avg']:.4f}" for other in names)] for name in names]
    best = ["best possible", *(f"{result['references'][name]:.4f}" for name in names)]
    shares = ["OUR / best", *(_share_of_best(result, name) for name in names)]
    heading = (
        f"cooperation level {params['coop_level']:g}, difficulty {params['difficulty']:g}: "
        f"oracle {result['oracle']:.4f}, PG_TUNED has lr {result['tuning']['rate']:g}\n"
        "mean reward per round of the row's player with the column's, over all episodes\n\n"
    )
    return heading + table(["", *names], [*rows, best, shares])


def check_summary(results: Sequence[Mapping[str, Any]]) -> str:
    """Return a text with all checks that do not hold, and the number of those that do."""
    found = [(_setting(result), check) for result in results for check in checks(result)]
    missed = [
        f"NOT HELD at {setting}: {check.claim} ({check.seen})"
        for setting, check in found
        if not check.held
    ]
    return "\n".join([*missed, f"{len(found) - len(missed)} of {len(found)} checks held"])


def _partners(result: Mapping[str, Any]) -> list[str]:
    return [name for name in result["references"] if name != "OUR"]


def _share_of_best(result: Mapping[str, Any], partner: str) -> str:
    return f"{result['cross_play']['OUR'][partner]['avg'] / result['references'][partner]:.4f}"


def _setting(result: Mapping[str, Any]) -> str:
    return f"{result['params']['coop_level']:g} / {result['params']['difficulty']:g}"


def _mean(metrics: Mapping[str, float]) -> float:
    return (metrics["avg_A"] + metrics["avg_B"]) / 2


if __name__ == "__main__":
    sys.exit(main())
