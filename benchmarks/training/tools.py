"""What a tiny model that learned to use two tools does with problems it has never seen.

python -m benchmarks.training.tools [--seeds 0 1 2] [--problems 200] [--out FOLDER]

Trains with examples/tool_use.yaml, once per seed, and has every model work on the same held-out
problems before and after: no held-out calculation is trained on. FOLDER gets one run per seed.
Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks.training import records
from benchmarks.training.exams import WatchedTrainer, all_played, last_info, share_in_words
from benchmarks.training.records import Check
from srl_agents.policy import Policy
from srl_envs import make
from srl_train.config import yaml_file

CONFIG = records.ROOT / "examples" / "tool_use.yaml"
LEAST_AFTER = 0.80  # share of held-out problems that are solved
SECONDS = 600.0  # a run, from nothing to its last evaluation
PROBLEMS = 200


class Exam:
    """Held-out problems, each worked on once."""

    def __init__(self, options: Mapping[str, Any], count: int) -> None:
        """`options` are the training environment's, but for the split."""
        self._options = {**options, "split": "test"}
        self._count = count
        env = self.make()
        self.identities = {env.problem(seed).identity for seed in range(count)}

    def make(self) -> Any:
        """The environment."""
        return make("tool_use_v0", **self._options)

    def sit(self, seats: Mapping[str, Policy]) -> dict[str, float | None]:
        """Share solved, its standard error, and turns per problem."""
        seeds = range(self._count)
        episodes = all_played(
            self.make, seats, seeds, reset_options=[{"problem_seed": seed} for seed in seeds]
        )
        ends = [last_info(episode) for episode in episodes]
        share, error = records.mean_and_error([float(end["success"]) for end in ends])
        turns = sum(len(episode.turns) for episode in episodes) / len(episodes)
        return {"solved": share, "standard_error": error, "turns": turns}


def measure(
    seeds: Sequence[int],
    folder: Path,
    problems: int = PROBLEMS,
    config: Path = CONFIG,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{"problems": how many are held out, "runs": [one mapping per seed]}."""
    runs = []
    for seed in seeds:
        loaded = yaml_file.load(config, {**(overrides or {}), "seed": seed})
        exam = Exam(dict(loaded.environment.options), problems)
        began, worked = time.perf_counter(), time.process_time()
        trainer = WatchedTrainer(loaded, folder / f"tools_{seed}", named_by="problem")
        before = exam.sit(trainer.run.policies)
        trainer.fit()
        runs.append(
            {
                "seed": seed,
                "before": before,
                "after": exam.sit(trainer.run.policies),
                "held_out": len(exam.identities),
                "trained_on": len(trainer.met),
                "problems_in_both": len(trainer.met & exam.identities),
                "episodes": loaded.rounds * loaded.rollout.episodes,
                "wall_seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - worked,
            }
        )
    return {"problems": problems, "runs": runs}


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The targets, over all seeds."""
    runs = result["runs"]
    before = max(run["before"]["solved"] for run in runs)
    after = min(run["after"]["solved"] for run in runs)
    shared = max(run["problems_in_both"] for run in runs)
    slowest = max(run["wall_seconds"] for run in runs)
    return [
        Check(
            f"at least {LEAST_AFTER:.0%} of the unseen problems are solved, on every seed",
            after >= LEAST_AFTER,
            f"least {after:.1%} of {len(runs)} seeds, at most {before:.1%} before training",
        ),
        Check("no problem was both trained on and asked here", shared == 0, f"{shared} were"),
        Check(
            f"a run, from nothing to its last evaluation, takes under {SECONDS:.0f} s",
            slowest < SECONDS,
            f"slowest {slowest:.0f} s",
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run, and the targets."""
    rows = [
        (
            f"seed {run['seed']}",
            _solved(run["before"]),
            _solved(run["after"]),
            f"{run['after']['turns']:.2f}",
            run["trained_on"],
            run["held_out"],
            run["episodes"],
            f"{run['wall_seconds']:.0f}",
            f"{run['cpu_seconds']:.0f}",
        )
        for run in result["runs"]
    ]
    headers = (
        "run", "solved before training", "solved", "turns", "calculations trained on",
        "held out", "training episodes", "whole run, s", "CPU-s",
    )  # fmt: skip
    legend = (
        f"Share of {result['problems']} problems with held-out calculations that are solved by "
        "reading a file, calculating and answering, with its standard error. The model answers as "
        "it is sampled in training (temperature 1)."
    )
    return f"{records.table(headers, rows)}\n\n{legend}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--problems", type=int, default=PROBLEMS, help="held-out problems asked")
    parser.add_argument("--out", type=Path, help="keep the runs there (default: nowhere)")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="tools-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            asked.problems,
            overrides=records.settings_of(asked.overrides),
        )
    records.keep("tools", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _solved(worked: Mapping[str, Any]) -> str:
    return share_in_words(worked["solved"], worked["standard_error"])


if __name__ == "__main__":
    raise SystemExit(main())
