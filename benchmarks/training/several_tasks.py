"""What one tiny model that learned three tasks in one run does with problems it has never seen.

python -m benchmarks.training.several_tasks [--seeds 0 1 2] [--problems 200] [--figure FILE.png]

Trains with examples/several_tasks.yaml, once per seed, and asks every model the same held-out
problems of each task before and after. The figure has one curve per task. Exit code 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks.training import records
from benchmarks.training.exams import all_played, last_info, share_in_words
from benchmarks.training.records import Check
from srl_agents.policy import Policy
from srl_envs import make
from srl_train.config import yaml_file
from srl_train.metrics import run_folder
from srl_train.metrics.report import plots
from srl_train.metrics.report.document import Line, Panel, smoothing_window
from srl_train.trainer import MultiModelTrainer

CONFIG = records.ROOT / "examples" / "several_tasks.yaml"
PROBLEMS = 200  # of each task


class Exam:
    """Held-out problems of each task, each worked on once."""

    def __init__(self, options: Mapping[str, Any], count: int) -> None:
        """`options` are the training environment's, but for the splits."""
        members = {
            label: {**told, "options": {**told["options"], "split": "test"}}
            for label, told in options["environments"].items()
        }
        self._options = {**options, "environments": members}
        self.labels = tuple(members)
        self._count = count

    def make(self) -> Any:
        """The environment."""
        return make("multitask_v0", **self._options)

    def sit(self, seats: Mapping[str, Policy]) -> dict[str, dict[str, float | None]]:
        """Task -> share solved, and its standard error."""
        places = [(label, seed) for label in self.labels for seed in range(self._count)]
        episodes = all_played(
            self.make,
            seats,
            range(len(places)),
            reset_options=[{"environment": label, "problem_seed": seed} for label, seed in places],
        )
        found = {}
        for label in self.labels:
            ends = [
                float(last_info(episode)["success"])
                for (asked, _), episode in zip(places, episodes, strict=True)
                if asked == label
            ]
            share, error = records.mean_and_error(ends)
            found[label] = {"solved": share, "standard_error": error}
        return found


def measure(
    seeds: Sequence[int],
    folder: Path,
    problems: int = PROBLEMS,
    config: Path = CONFIG,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{"problems": of each task, "runs": [one mapping per seed]}; curves are shares solved."""
    runs = []
    for seed in seeds:
        loaded = yaml_file.load(config, {**(overrides or {}), "seed": seed})
        exam = Exam(dict(loaded.environment.options), problems)
        began, worked = time.perf_counter(), time.process_time()
        out = folder / f"several_tasks_{seed}"
        trainer = MultiModelTrainer(loaded, out)
        before = exam.sit(trainer.run.policies)
        trainer.fit()
        run = run_folder.load(out)
        curves = {label: run.series("by_environment", label, "success") for label in exam.labels}
        episodes = {
            label: int(run.total("by_environment", label, "episodes")) for label in exam.labels
        }
        runs.append(
            {
                "seed": seed,
                "before": before,
                "after": exam.sit(trainer.run.policies),
                "episodes": episodes,
                # JSON has no NaN: a round that did not play the task.
                "curves": {
                    label: [None if math.isnan(y) else y for y in curve]
                    for label, curve in curves.items()
                },
                "wall_seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - worked,
            }
        )
    return {"problems": problems, "runs": runs}


def checks(result: Mapping[str, Any]) -> list[Check]:
    """Every task is learned on every seed, by more than chance would have it."""
    found = []
    for label in result["runs"][0]["before"]:
        rises = []
        for run in result["runs"]:
            before, after = run["before"][label], run["after"][label]
            error = math.hypot(before["standard_error"] or 0.0, after["standard_error"] or 0.0)
            rises.append((after["solved"] - before["solved"], error))
        found.append(
            Check(
                f"{label}: more unseen problems are solved than before, by at least two standard "
                "errors on every seed",
                all(rise >= 2 * error for rise, error in rises),
                "; ".join(f"{rise:.1%} ± {error:.1%} more" for rise, error in rises),
            )
        )
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """One row per seed and task, and the targets."""
    rows = [
        (
            f"{label}, seed {run['seed']}",
            _solved(run["before"][label]),
            _solved(run["after"][label]),
            run["episodes"][label],
            f"{run['wall_seconds']:.0f}",
            f"{run['cpu_seconds']:.0f}",
        )
        for run in result["runs"]
        for label in run["before"]
    ]
    headers = (
        "task", "solved before training", "solved", "training episodes", "whole run, s", "CPU-s",
    )  # fmt: skip
    legend = (
        f"Share of {result['problems']} held-out problems of each task that are solved, with its "
        "standard error; answered as sampled in training (temperature 1). A run, its seconds and "
        "its model are those of all three tasks together."
    )
    return f"{records.table(headers, rows)}\n\n{legend}\n\n{records.listed(checks(result))}"


def figure(result: Mapping[str, Any], path: Path) -> Path:
    """Share solved in training over the rounds, per task, the mean of the seeds, as a PNG file."""
    lines = []
    for label in result["runs"][0]["before"]:
        rounds = zip(*(run["curves"][label] for run in result["runs"]), strict=True)
        points = []
        for place, column in enumerate(rounds):
            seen = [share for share in column if share is not None]
            if seen:
                points.append((place, sum(seen) / len(seen)))
        lines.append(Line(label, [x for x, _ in points], [y for _, y in points]))
    window = smoothing_window(max(len(line.y) for line in lines))
    panel = Panel("Share of training problems solved, by task", lines, percent=True, window=window)
    return plots.save_png([panel], path, columns=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="asked of each task")
    parser.add_argument("--figure", type=Path, metavar="FILE.png", help="also draw the curves")
    parser.add_argument("--out", type=Path, help="keep the runs there (default: nowhere)")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="several-tasks-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            asked.problems,
            overrides=records.settings_of(asked.overrides),
        )
    if asked.figure is not None:
        figure(result, asked.figure)
    records.keep("several_tasks", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _solved(worked: Mapping[str, Any]) -> str:
    return share_in_words(worked["solved"], worked["standard_error"])


if __name__ == "__main__":
    raise SystemExit(main())
