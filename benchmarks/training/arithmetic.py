"""What a tiny model that learned one-digit arithmetic does with problems it has never seen.

python -m benchmarks.training.arithmetic [--seeds 0 1 2] [--tries 16] [--out FOLDER]

Trains with examples/math.yaml, once per seed, and asks every model every held-out problem `tries`
times before and after. No held-out problem is trained on, in either order of its numbers. FOLDER
gets one run per seed. Exit code 1 if a target is missed.
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
from benchmarks.training.exams import WatchedTrainer, all_played, share_in_words
from benchmarks.training.records import Check
from srl_agents.policy import Policy
from srl_envs import make
from srl_train.config import yaml_file

CONFIG = records.ROOT / "examples" / "math.yaml"
MOST_BEFORE, LEAST_AFTER = 0.20, 0.90  # share of right answers to held-out problems
SECONDS = 600.0  # all seeds together
TRIES = 16
SEARCHED = 4000  # problem seeds looked through: one-digit problems come up long before


class Exam:
    """All problems of a split, each as often as asked."""

    def __init__(self, options: Mapping[str, Any], split: str, tries: int) -> None:
        """`options` are the training environment's, but for the split."""
        self._options = {**options, "split": split}
        env = self.make()
        found: dict[str, int] = {}
        for seed in range(SEARCHED):
            found.setdefault(env.problem(seed).question, seed)
        self.questions = tuple(sorted(found))
        self.identities = {env.problem(seed).identity for seed in found.values()}
        self._seeds = [seed for seed in found.values() for _ in range(tries)]

    def make(self) -> Any:
        """The environment."""
        return make("math_v0", **self._options)

    def sit(self, seats: Mapping[str, Policy]) -> dict[str, float | None]:
        """Share of right answers at the first attempt, over questions, with its standard error."""
        episodes = all_played(
            self.make,
            seats,
            range(len(self._seeds)),
            reset_options=[{"problem_seed": seed} for seed in self._seeds],
        )
        right: dict[int, list[float]] = {}
        for seed, episode in zip(self._seeds, episodes, strict=True):
            right.setdefault(seed, []).append(float(episode.turns[0][0].info["correct"]))
        share, error = records.mean_and_error([sum(one) / len(one) for one in right.values()])
        return {"correct": share, "standard_error": error}


def measure(
    seeds: Sequence[int],
    folder: Path,
    tries: int = TRIES,
    config: Path = CONFIG,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{"problems": how many there are, "runs": [one mapping per seed]}."""
    runs = []
    exams: dict[str, Exam] = {}
    for seed in seeds:
        began, worked = time.perf_counter(), time.process_time()
        loaded = yaml_file.load(config, {**(overrides or {}), "seed": seed})
        options = dict(loaded.environment.options)
        exams = exams or {split: Exam(options, split, tries) for split in ("train", "test")}
        trainer = WatchedTrainer(loaded, folder / f"arithmetic_{seed}", named_by="problem")
        before = exams["test"].sit(trainer.run.policies)
        trainer.fit()
        runs.append(
            {
                "seed": seed,
                "before": before,
                "after": exams["test"].sit(trainer.run.policies),
                "after_on_training_problems": exams["train"].sit(trainer.run.policies),
                "problems_in_both": len(trainer.met & exams["test"].identities),
                "episodes": loaded.rounds * loaded.rollout.episodes,
                "wall_seconds": time.perf_counter() - began,
                "cpu_seconds": time.process_time() - worked,
            }
        )
    counts = {split: len(exam.questions) for split, exam in exams.items()}
    return {"problems": counts, "tries": tries, "runs": runs}


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The targets, over all seeds."""
    before = max(run["before"]["correct"] for run in result["runs"])
    after = min(run["after"]["correct"] for run in result["runs"])
    shared = max(run["problems_in_both"] for run in result["runs"])
    seconds = sum(run["wall_seconds"] for run in result["runs"])
    return [
        Check(
            f"at first under {MOST_BEFORE:.0%} of the unseen problems are right, on every seed",
            before < MOST_BEFORE,
            f"most {before:.1%} of {len(result['runs'])} seeds",
        ),
        Check(
            f"after it at least {LEAST_AFTER:.0%}, on every seed",
            after >= LEAST_AFTER,
            f"least {after:.1%}",
        ),
        Check("no problem was both trained on and asked here", shared == 0, f"{shared} were"),
        Check(
            f"all seeds together take under {SECONDS:.0f} s",
            seconds < SECONDS,
            f"{seconds:.0f} s",
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run, and the targets."""
    rows = [
        (
            run["seed"],
            _share(run["before"]),
            _share(run["after"]),
            _share(run["after_on_training_problems"]),
            run["episodes"],
            f"{run['wall_seconds']:.0f}",
            f"{run['cpu_seconds']:.0f}",
        )
        for run in result["runs"]
    ]
    headers = (
        "seed", "right before training", "right", "right on training problems",
        "training episodes", "whole run, s", "CPU-s",
    )  # fmt: skip
    counts = result["problems"]
    legend = (
        f"Share of right answers to {counts['test']} held-out problems such as 3 + 5 and 8 - 3 "
        f"({counts['train']} are trained on), each asked {result['tries']} times and answered as "
        "in training (temperature 1, one attempt), with its standard error over problems. A sum is "
        "held out in both orders of its numbers. The warm start shows working (3 + 5, 4 + 4, "
        "5 + 3, ...) that stops after a random number of steps; when to stop is what is learned."
    )
    return f"{records.table(headers, rows)}\n\n{legend}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--tries", type=int, default=TRIES, help="times each problem is asked")
    parser.add_argument("--out", type=Path, help="keep the runs there (default: nowhere)")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="arithmetic-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            asked.tries,
            overrides=records.settings_of(asked.overrides),
        )
    records.keep("arithmetic", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _share(sat: Mapping[str, Any]) -> str:
    return share_in_words(sat["correct"], sat["standard_error"])


if __name__ == "__main__":
    raise SystemExit(main())
