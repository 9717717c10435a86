"""python -m benchmarks.run: classic learners in repeated matrix games of two players."""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.matrix_game.ablation import without_parts
from benchmarks.matrix_game.full import all_settings
from benchmarks.matrix_game.general import criteria
from benchmarks.matrix_game.general.suite import general_suite
from benchmarks.matrix_game.tables import ablation_table, setting_tables
from srl_agents.evaluation.matrix_game import check_counts, run_benchmark

SUITES = ("matrix", "full", "ablation", "general")
DEFAULT_RUNS = {"general": 1}  # of each of its games with each partner
VERSIONED = ("numpy", "gymnasium", "pettingzoo")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns 1 where a check of the full or general suite failed."""
    options = _parser().parse_args(arguments)
    plots = not options.no_plot and options.suite not in ("ablation", "general")
    if options.runs is None:
        options.runs = DEFAULT_RUNS.get(options.suite, 5)
    if plots:
        figures.require_plots("a picture (--no-plot leaves it out)")
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
        elif options.suite == "ablation":
            results = without_parts(**settings)
            text = ablation_table(results)
        elif options.suite == "general":
            results = general_suite(**settings)
            results["checks"] = [vars(check) for check in criteria.checks(results["2 actions"])]
            text = criteria.tables(results, options.seed)
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
        picture = options.out / f"{options.suite}.png"
        figures.draw(results, picture)
        written.append(picture)
    _say(f"wrote {', '.join(map(str, written))}")
    return int(not all_held(results))


def all_held(results: Any) -> bool:
    """Whether every check of a suite held: of all settings together, or of each by itself."""
    parts = results if isinstance(results, list) else [results]
    return all(check["held"] for part in parts for check in part.get("checks", ()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="matrix",
                        help="one setting; ten; OUR without its parts; many games")  # fmt: skip
    parser.add_argument("--runs", type=int, help="independent runs (default 5, general 1)")
    parser.add_argument("--episodes", type=int, default=200, help="per run (default 200)")
    parser.add_argument("--horizon", type=int, default=32, help="rounds per episode (default 32)")
    parser.add_argument("--coop-level", type=float, default=0.6, help="matrix suite (default 0.6)")
    parser.add_argument("--difficulty", type=float, default=0.3, help="matrix suite (default 0.3)")
    parser.add_argument("--seed", type=int, default=42, help="of everything drawn (default 42)")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"),
                        help="folder for what is written (default runs/benchmark)")  # fmt: skip
    parser.add_argument("--no-plot", action="store_true", help="write no picture")
    return parser


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _write(
    results: Any, text: str, options: argparse.Namespace, given: list[str], seconds: float
) -> list[Path]:
    """SUITE.json and SUITE.md in the folder asked for."""
    options.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "-m", "benchmarks.run", *given])
    versions = {"python": platform.python_version(), **{name: version(name) for name in VERSIONED}}
    record = {"command": command, "seed": options.seed, "versions": versions,
              "seconds": round(seconds, 1), "results": results}  # fmt: skip
    data, tables = (options.out / f"{options.suite}.{kind}" for kind in ("json", "md"))
    data.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    tables.write_text(f"`{command}` ({seconds:.0f} s)\n\n{text}\n", encoding="utf-8")
    return [data, tables]


if __name__ == "__main__":
    sys.exit(main())
