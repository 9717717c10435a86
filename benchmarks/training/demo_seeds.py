"""What the demo's models learn on several seeds: full models, and LoRA adapters on one base.

python -m benchmarks.training.demo_seeds [--seeds 0 1 2 3 4] [--out FOLDER]

Every run is `srl train` in a process of its own, with one thread; its peak memory and CPU time are
the process's. The embedded model is built afresh, which the first run pays for. Exit code 1 if a
seed misses a target.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.training import processes, records
from benchmarks.training.records import Check

DEMO = records.ROOT / "examples" / "demo.yaml"
KINDS: Mapping[str, Mapping[str, Any]] = {
    "full": {},
    "LoRA": {"models.adapters": {"rank": 16}},
}
SHARE_OF_WAY = 0.97  # of the way from uniform play to the optimum, every full run
SHARE_OF_GAIN = 0.95  # of the full models' gain on the same seed, every LoRA run
TRAINING_SECONDS = 60.0
PEAK_RSS = 3e9  # bytes


def measure(
    seeds: Sequence[int],
    folder: Path,
    config: Path = DEMO,
    overrides: Mapping[str, Any] | None = None,
    lora: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """{"runs": [one mapping per run]}; runs and the model's cache are written into `folder`.

    `overrides` are for all runs, `lora` on top of them for those with adapters.
    """
    runs = []
    for seed in seeds:
        for kind, own in KINDS.items():
            extra = (lora or {}) if kind == "LoRA" else {}
            changed = {**(overrides or {}), **own, **extra}
            run = one_run(config, folder / f"{kind}_{seed}", folder / "cache", seed, changed)
            runs.append({"kind": kind, "seed": seed, **run})
    for run in runs:
        full = next(r for r in runs if r["kind"] == "full" and r["seed"] == run["seed"])
        run["share_of_full_gain"] = run["gain"] / full["gain"] if full["gain"] else None
    return {"runs": runs}


def one_run(
    config: Path, out: Path, cache: Path, seed: int, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Train once; rewards are raw, per seat and turn."""
    built_before = cache.is_dir()
    # JSON is YAML, which is what --set reads.
    settings = [w for k, v in overrides.items() for w in ("--set", f"{k}={json.dumps(v)}")]
    command = processes.srl(
        "train", config, "--out", out, "--seed", str(seed), "--quiet", *settings
    )
    cost = processes.run(command, {"CORE_SRL_CACHE": str(cache)})
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    before, after = summary["evaluation"]["before"], summary["evaluation"]["after"]
    low, high = summary["baselines"]["uniform"], summary["baselines"]["optimum"]
    return {
        "before": before["raw_reward"],
        "before_error": before["standard_error"],
        "after": after["raw_reward"],
        "after_error": after["standard_error"],
        "parse_failures": after["parse_failures"],
        "uniform": low,
        "optimum": high,
        "share_of_way": (after["raw_reward"] - low) / (high - low),
        "gain": after["raw_reward"] - before["raw_reward"],
        "training_seconds": summary["seconds"],
        "wall_seconds": cost.wall,
        "cpu_seconds": cost.cpu,
        "peak_rss": cost.peak_rss,
        "built_the_model": not built_before,
    }


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The targets, over all seeds."""
    full = [run for run in result["runs"] if run["kind"] == "full"]
    lora = [run for run in result["runs"] if run["kind"] == "LoRA"]
    ways = [run["share_of_way"] for run in full]
    gains = [run["share_of_full_gain"] for run in lora]
    slowest = max(run["training_seconds"] for run in full)
    largest = max(run["peak_rss"] for run in result["runs"])
    return [
        Check(
            f"full models end at least {SHARE_OF_WAY:.0%} of the way to the optimum on every seed",
            min(ways) >= SHARE_OF_WAY,
            f"least {min(ways):.1%} of {len(ways)} seeds",
        ),
        Check(
            f"adapters reach at least {SHARE_OF_GAIN:.0%} of the full models' gain on every seed",
            None not in gains and min(gains) >= SHARE_OF_GAIN,
            f"least {min(gains):.1%} of {len(gains)} seeds",
        ),
        Check(
            f"training the full models takes under {TRAINING_SECONDS:.0f} s",
            slowest < TRAINING_SECONDS,
            f"slowest {slowest:.1f} s",
        ),
        Check(
            f"peak memory is under {PEAK_RSS / 1e9:.0f} GB",
            largest < PEAK_RSS,
            f"largest {largest / 1e9:.2f} GB",
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run, and the targets."""
    rows = [
        (
            run["kind"],
            run["seed"],
            _with_error(run["before"], run["before_error"]),
            _with_error(run["after"], run["after_error"]),
            f"{run['share_of_way']:.1%}",
            f"{run['share_of_full_gain']:.1%}",
            f"{run['training_seconds']:.1f}",
            f"{run['wall_seconds']:.1f}" + (" *" if run["built_the_model"] else ""),
            f"{run['cpu_seconds']:.1f}",
            f"{run['peak_rss'] / 1e9:.2f}",
        )
        for run in result["runs"]
    ]
    headers = (
        "models", "seed", "reward before", "after", "share of the way", "gain / full's gain",
        "training, s", "process, s", "process, CPU-s", "peak RSS, GB",
    )  # fmt: skip
    low, high = result["runs"][0]["uniform"], result["runs"][0]["optimum"]
    legend = (
        f"Raw reward per seat and turn, with its standard error over games; uniform play earns "
        f"{low:.4f}, the optimum is {high:.4f}. Training: the rounds. Process: from start to end, "
        "with imports and both evaluations; * it also built the embedded model."
    )
    return f"{records.table(headers, rows)}\n\n{legend}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="keep the runs there (default: nowhere)")
    records.add_overrides(parser)
    parser.add_argument(
        "--lora-set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="as --set, for the runs with adapters only",
    )
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="demo-seeds-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            overrides=records.settings_of(asked.overrides),
            lora=records.settings_of(asked.lora_set),
        )
    records.keep("demo_seeds", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.4f}" if error is None else f"{value:.4f} ± {error:.4f}"


if __name__ == "__main__":
    raise SystemExit(main())
