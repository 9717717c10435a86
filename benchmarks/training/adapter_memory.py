"""What eight LoRA adapters on one shared base take in memory, against one.

python -m benchmarks.training.adapter_memory [--layers 8] [--hidden 1280]

Two bases: the embedded model, and a randomly initialised Qwen2 made on the spot, in which the base
outweighs its adapters as it does in practice. The same game with eight seats in every run: each
adapter holds one seat, uniform players the rest, so that every adapter trains on equally much. Each
run is a process of its own and plays and trains two rounds. Exit code 1 if the large base misses
the target.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.training import processes, records
from benchmarks.training.records import Check

SEATS = 8
ROUNDS = 2
RATIO = 1.3
SETTING: Mapping[str, Any] = {
    "environment.name": "coop_compete_v0",
    "environment.options": {"num_agents": SEATS, "max_cycles": 1},
    "models.adapters": {"rank": 8},
    # A model with random weights writes nothing legal of its own, and then learns nothing.
    "models.constrained": True,
    "rollout.group_size": 2,
    "rollout.groups_per_round": 1,
    "rounds": ROUNDS,
}


def measure(
    bases: Mapping[str, str],
    adapters: Sequence[int] = (1, SEATS),
    setting: Mapping[str, Any] = SETTING,
) -> dict[str, Any]:
    """{base's name: {"runs": {number of adapters: bytes by kind}, "ratios": {...}}}.

    `bases` maps names to what models.base takes. Ratios are of the most adapters to the fewest.
    """
    result = {}
    for name, base in bases.items():
        runs = {}
        for count in adapters:
            seats = {f"agent_{seat}": "uniform" for seat in range(count, SEATS)}
            own = {**setting, "models.base": base, "models.count": count, "seats": seats}
            command = [sys.executable, "-m", "benchmarks.training.tensor_bytes", json.dumps(own)]
            cost = processes.run(command)
            held = json.loads(cost.output.splitlines()[-1])
            runs[count] = {**held, "peak_rss": cost.peak_rss}
        few, many = runs[min(adapters)], runs[max(adapters)]
        result[name] = {
            "runs": {str(count): run for count, run in runs.items()},
            "ratios": {kind: many[kind] / few[kind] for kind in ("tensors", "peak_rss")},
        }
    return result


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The target, on the base that outweighs its adapters."""
    name, found = list(result.items())[-1]
    few, *_, many = found["runs"]
    return [
        Check(
            f"{name}: {many} adapters take under {RATIO} times the {what} of {few}",
            found["ratios"][kind] < RATIO,
            f"{found['ratios'][kind]:.3f} times",
        )
        for kind, what in (("peak_rss", "memory"), ("tensors", "tensor bytes"))
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run, in MB of a million bytes."""
    kinds = {
        "base": "base, MB",
        "adapters": "adapters, MB",
        "gradients": "gradients, MB",
        "optimizers": "optimizers, MB",
        "tensors": "all tensors, MB",
        "peak_rss": "peak RSS, MB",
    }
    rows: list[tuple[object, ...]] = []
    for name, found in result.items():
        for count, run in found["runs"].items():
            rows.append((name, count, *(f"{run[kind] / 1e6:.2f}" for kind in kinds)))
        ratios = {kind: f"{value:.3f}" for kind, value in found["ratios"].items()}
        rows.append((name, "ratio", *(ratios.get(kind, "") for kind in kinds)))
    text = records.table(("base", "adapters", *kinds.values()), rows)
    legend = (
        "The base's tensors are counted once, by their storage; gradients where all adapters have "
        "theirs, just before they are applied. Peak RSS: of the whole process, with Python and its "
        "libraries, loading, play and activations."
    )
    return f"{text}\n\n{legend}\n\n{records.listed(checks(result))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layers", type=int, default=8, help="of the Qwen2 base")
    parser.add_argument("--hidden", type=int, default=1280, help="its width")
    parser.add_argument("--adapters", type=int, nargs="+", default=[1, SEATS])
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="adapter-memory-") as folder:
        large = make_base(Path(folder) / "qwen2", asked.layers, asked.hidden)
        result = measure({"tiny": "tiny", large["name"]: large["folder"]}, asked.adapters)
    records.keep("adapter_memory", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def make_base(folder: Path, layers: int, hidden: int) -> dict[str, str]:
    """Write the Qwen2 base, in a process of its own; {"name", "folder"}."""
    command = [
        sys.executable, "-m", "benchmarks.training.random_qwen2",
        str(folder), str(layers), str(hidden), json.dumps(dict(SETTING)),
    ]  # fmt: skip
    made: dict[str, str] = json.loads(processes.run(command).output.splitlines()[-1])
    return made


if __name__ == "__main__":
    raise SystemExit(main())
