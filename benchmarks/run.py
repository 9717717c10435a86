"""python -m benchmarks.run: classic learners in repeated matrix games of two players."""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import general_suite
from benchmarks.records import Check, new_figure, table
from srl_agents.evaluation.matrix_game import check_counts, cross_play, run_benchmark

SUITES = ("matrix", "full", "general")
DEFAULT_RUNS = {"general": 1}  # of each of its games with each partner
VERSIONED = ("numpy", "gymnasium", "pettingzoo")
COOP_LEVELS = (0.2, 0.5, 0.55, 0.6, 0.8)
DIFFICULTIES = (0.3, 0.6)
SELF_PLAY_SHARE = 0.995
"""Least share of the oracle in self-play, on average."""
SELF_PLAY_WORST = 0.005
"""Reward per round by which the worst run may stay below the oracle."""
RESPONSE_SHARE = 0.99
"""Least share of the best possible reward with each partner, on average."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 where a check of the full or general suite failed."""
    options = _parser().parse_args(arguments)
    plots = not options.no_plot and options.suite != "general"
    if options.runs is None:
        options.runs = DEFAULT_RUNS.get(options.suite, 5)
    if plots:
        new_figure("a picture (--no-plot leaves it out)", 1, 1)
    began = time.perf_counter()
    settings = {
        "runs": options.runs,
        "episodes": options.episodes,
        "horizon": options.horizon,
        "seed": options.seed,
        "progress": _say,
    }
    results: Any
    try:
        check_counts(options.runs, options.episodes, options.horizon, options.seed)
        if options.suite == "full":
            results = all_settings(**settings)
            text = setting_tables(results)
        elif options.suite == "general":
            results = general_suite.general_suite(**settings)
            found = general_suite.checks(results["2 actions"])
            results["checks"] = [vars(check) for check in found]
            text = general_suite.tables(results, options.seed)
        else:
            level, difficulty = options.coop_level, options.difficulty
            results = [run_benchmark(coop_level=level, difficulty=difficulty, **settings)]
            text = setting_tables(results)
    except ValueError as error:
        raise SystemExit(f"benchmarks.run: {error}") from error
    print(text)
    given = sys.argv[1:] if arguments is None else list(arguments)
    written = _write(results, text, options, given, time.perf_counter() - began)
    if plots:
        written.append(options.out / f"{options.suite}.png")
        draw(results, written[-1])
    _say(f"wrote {', '.join(map(str, written))}")
    return int(not all_held(results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="matrix",
                        help="one setting; ten settings; many games")  # fmt: skip
    parser.add_argument("--runs", type=int, help="independent runs (default 5, general 1)")
    parser.add_argument("--episodes", type=int, default=200, help="per run (default 200)")
    parser.add_argument("--horizon", type=int, default=32, help="rounds per episode (default 32)")
    parser.add_argument("--coop-level", type=float, default=0.6, help="matrix suite (default 0.6)")
    parser.add_argument("--difficulty", type=float, default=0.3, help="matrix suite (default 0.3)")
    parser.add_argument("--seed", type=int, default=42, help="seed of all draws (default 42)")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"),
                        help="folder of the results (default runs/benchmark)")  # fmt: skip
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write(
    results: Any, text: str, options: argparse.Namespace, given: list[str], seconds: float
) -> list[Path]:
    """Write SUITE.json and SUITE.md."""
    options.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", "benchmarks.run", *given])
    versions = {"python": platform.python_version(), **{name: version(name) for name in VERSIONED}}
    record = {"command": command, "seed": options.seed, "versions": versions,
              "seconds": round(seconds, 1), "results": results}  # fmt: skip
    data, tables = (options.out / f"{options.suite}.{kind}" for kind in ("json", "md"))
    data.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    tables.write_text(f"`{command}` ({seconds:.0f} s)\n\n{text}\n", encoding="utf-8")
    return [data, tables]


# All settings of the benchmark -------------------------------------------------------------------


def all_settings(
    *, runs: int, episodes: int, horizon: int, seed: int, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return `cross_play` at every level and difficulty, with its "params" and its "checks"."""
    lengths = {"runs": runs, "episodes": episodes, "horizon": horizon, "seed": seed}
    results = []
    for difficulty, level in itertools.product(DIFFICULTIES, COOP_LEVELS):
        progress(f"cooperation level {level:g}, difficulty {difficulty:g}")
        params: dict[str, Any] = {**lengths, "coop_level": level, "difficulty": difficulty}
        result = {"params": params, **cross_play(**params)}
        results.append({**result, "checks": [vars(check) for check in checks(result)]})
    return results


def checks(result: Mapping[str, Any]) -> list[Check]:
    """Return the checks of OUR in one setting's result (see `cross_play`)."""
    oracle, mirror = result["oracle"], result["self_play"]["OUR"]
    found = {
        "self-play, share of the oracle": (
            _mean(result["metrics"]["OUR"]) / oracle,
            SELF_PLAY_SHARE,
        ),
        "self-play, worst run minus oracle": (mirror["worst"] - oracle, -SELF_PLAY_WORST),
        "self-play, runs in the worse agreement (negated)": (
            -float(mirror["runs_in_the_worse_agreement"]),
            0.0,
        ),
    }
    for name in _partners(result):
        share = result["cross_play"]["OUR"][name]["avg"] / result["references"][name]
        found[f"with {name}, share of the best"] = (share, RESPONSE_SHARE)
    return [
        Check(f"{about}, at least {least:g}", measured >= least, f"{measured:.4f}")
        for about, (measured, least) in found.items()
    ]


def all_held(results: Any) -> bool:
    """Return whether every check of a suite holds."""
    parts = results if isinstance(results, list) else [results]
    return all(check["held"] for part in parts for check in part.get("checks", ()))


# Tables and pictures -----------------------------------------------------------------------------


def setting_tables(results: Sequence[Mapping[str, Any]]) -> str:
    """Return every setting's cross-play; for several settings also the summaries."""
    parts = [matrix_table(result) for result in results]
    names = list(results[0]["metrics"])
    rows = []
    for result in results:
        row = [_setting(result), f"{result['oracle']:.4f}"]
        row += [f"{_mean(result['metrics'][name]):.4f}" for name in names]
        own = result["self_play"]["OUR"]
        row += [f"{own['worst'] - result['oracle']:+.4f}", f"{result['tuning']['rate']:g}"]
        rows.append(row)
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
    """Return the mean rewards of one setting as Markdown."""
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
    """Return the number of checks that hold, and every check that does not."""
    found = [(_setting(result), check) for result in results for check in result["checks"]]
    missed = [
        f"NOT HELD at {setting}: {check['claim']} ({check['seen']})"
        for setting, check in found
        if not check["held"]
    ]
    return "\n".join([*missed, f"{len(found) - len(missed)} of {len(found)} checks held"])


def draw(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write self-play learning curves of every setting, and one setting's matrix (PNG)."""
    columns = min(len(results) + (len(results) == 1), 5)
    rows = -(-len(results) // columns)
    figure = new_figure("a picture", max(13, 4 * columns), 5 * rows)
    places = figure.subplots(rows, columns, squeeze=False)
    for axes, result in zip(places.flat, results, strict=False):
        for name, curve in result["curves"].items():
            axes.plot(curve, label=name, linewidth=1)
        axes.axhline(result["oracle"], color="black", linestyle=":", label="oracle")
        axes.set_title(f"self-play, c / d = {_setting(result)}, {result['params']['runs']} runs")
        axes.set_xlabel("episode")
        axes.set_ylabel("mean reward per round")
        axes.legend()
    if len(results) == 1:
        axes, cells = places.flat[1], results[0]["cross_play"]
        names = list(cells)
        values = [[cells[row][column]["avg"] for column in names] for row in names]
        figure.colorbar(axes.imshow(values, cmap="viridis"), ax=axes)
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
        axes.set_yticks(range(len(names)), names)
        axes.set_title("mean reward per round: row's player with column's")
    figure.savefig(path, dpi=70)


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
