"""Runs stopped by SIGKILL and resumed, against one that was never stopped: equal to the bit?

python -m benchmarks.training.kill_resume [--kills 10] [--rounds 6] [--seed 0]

The demo, shortened, with a checkpoint after every round. A run is killed at a random moment of its
rounds, resumed, killed again, until it gets through; then the next run, until the kills are used
up. Every second kill waits, from its random moment on, for a checkpoint to be under way. Exit code
1 if anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training import records
from benchmarks.training.killing import Kill, Victim
from benchmarks.training.records import Check
from benchmarks.training.same_outcome import differences

CONFIG = records.ROOT / "examples" / "demo.yaml"
SETTING: Mapping[str, Any] = {
    "rounds": 6,
    "checkpoints.every": 1,
    "logging.evaluation_episodes": 8,
}


def measure(
    folder: Path,
    kills: int,
    seed: int = 0,
    config: Path = CONFIG,
    setting: Mapping[str, Any] = SETTING,
) -> dict[str, Any]:
    """{"kills": [one mapping per kill], "runs": [{"kills", "restarts", "differences"}],
    "seconds": of the rounds of the run that was not killed}.
    """
    reference = Victim(config, folder / "reference", setting)
    seconds = reference.run_through()
    rng = np.random.default_rng(seed)
    made: list[Kill] = []
    runs: list[dict[str, Any]] = []
    while len(made) < kills:
        victim = Victim(config, folder / f"killed_{len(runs)}", setting)
        before = len(made)
        while len(made) < kills:
            kill = victim.run_and_kill(
                float(rng.uniform(0.0, seconds)), while_saving=len(made) % 2 == 1, rng=rng
            )
            if kill is None:
                break
            made.append(kill)
        else:
            victim.run_through()
        runs.append(
            {
                "kills": len(made) - before,
                "restarts": victim.restarts,
                "differences": differences(reference.out, victim.out),
            }
        )
    return {"kills": [dataclasses.asdict(kill) for kill in made], "runs": runs, "seconds": seconds}


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The claims."""
    kills, runs = result["kills"], result["runs"]
    found = [text for run in runs for text in run["differences"]]
    listed = sum(kill["listed"] for kill in kills)
    damaged = [text for kill in kills for text in kill["damaged"]]
    saving = sum(kill["while_saving"] for kill in kills)
    return [
        Check(
            "killed and resumed runs end with the same weights, optimizers, metrics and models, "
            "to the bit",
            not found,
            found[0] if found else f"{len(kills)} kills, {len(runs)} runs",
        ),
        Check(
            "no half checkpoint was listed after any kill",
            not damaged,
            damaged[0] if damaged else f"{listed} listed, every file of each as it was written",
        ),
        Check("some kills hit while a checkpoint was being written", saving > 0, f"{saving} did"),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per kill, and the claims."""
    rows = [
        (
            number,
            f"{kill['after']:.2f}",
            kill["rounds_written"],
            "yes" if kill["while_saving"] else "no",
            kill["listed"],
        )
        for number, kill in enumerate(result["kills"], start=1)
    ]
    headers = (
        "kill", "s after the rounds began", "rounds in metrics.jsonl", "a checkpoint half written",
        "complete checkpoints",
    )  # fmt: skip
    restarts = sum(run["restarts"] for run in result["runs"])
    head = (
        f"{len(result['runs'])} runs, killed {len(result['kills'])} times; never killed, a run "
        f"takes {result['seconds']:.1f} s from its first round on. A run killed before its first "
        f"checkpoint begins anew ({restarts} times)."
    )
    return f"{head}\n\n{records.table(headers, rows)}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=SETTING["rounds"])
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    setting = {**SETTING, "rounds": asked.rounds, **records.settings_of(asked.overrides)}
    with tempfile.TemporaryDirectory(prefix="kill-resume-") as folder:
        result = measure(Path(folder), asked.kills, asked.seed, setting=setting)
    records.keep("kill_resume", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
