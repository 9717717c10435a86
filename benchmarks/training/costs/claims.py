"""Costs of whole processes: the demo on seeds, adapters, one to eight models, vocabularies.

Nothing here may import torch, see `processes`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from benchmarks.records import CONFIGS
from benchmarks.repeats import Estimate, Repeats, in_turns, ratios
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.costs import processes

Settings = Mapping[str, Any]
KINDS: Mapping[str, Settings] = {"full": {}, "LoRA": {"models.adapters": {"rank": 16}}}
AGENTS = 8
ADAPTERS: Settings = {
    "environment.name": "coop_compete_v0",
    "environment.options": {"num_agents": AGENTS, "max_cycles": 1},
    "models.adapters": {"rank": 8},
    # A model with random weights writes nothing legal of its own, and then learns nothing.
    "models.constrained": True,
    "rollout.group_size": 2,
    "rollout.groups_per_round": 1,
    "rounds": 2,
}
TINY = "tiny"
LAYERS, WIDTH = 8, 1280
"""Of the Qwen2 base."""
TURNS, ROUNDS = 8, 4
A_ROUND: Settings = {
    "environment.name": "coop_compete_v0",
    "rollout.group_size": 8,
    "rollout.groups_per_round": 2,
    "logging.evaluation_episodes": 0,
    "checkpoints.every": 0,
    "rounds": ROUNDS,
}
COUNTS = (1, 2, 4, 8)
SLACK = 1.1  # of what n models may take, in times of n single ones


def demo_seeds(request: Request) -> Result:
    """One row per seed and kind of models: `srl train` in a process of its own, with one thread.

    The embedded model is built afresh, which the first run pays for. Rewards are raw, per agent
    and turn.
    """
    rows: list[dict[str, Any]] = []
    cache = request.folder / "cache"
    for seed in request.seeds:
        full_gain = math.nan
        for kind, own in KINDS.items():
            built_before = cache.is_dir()
            out = request.folder / f"{kind}_{seed}"
            # JSON is YAML, which is what --set reads.
            changed = {**request.overrides, **own}
            settings = [w for k, v in changed.items() for w in ("--set", f"{k}={json.dumps(v)}")]
            words = ("--out", out, "--seed", str(seed), "--quiet", *settings)
            command = processes.srl("train", CONFIGS / "demo.yaml", *words)
            cost = processes.run(command, {"CORE_SRL_CACHE": str(cache)})
            summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
            before, after = (
                Estimate(told["raw_reward"], told["standard_error"])
                for told in (summary["evaluation"][when] for when in ("before", "after"))
            )
            low, high = summary["baselines"]["uniform"], summary["baselines"]["optimum"]
            gain = after.mean - before.mean
            full_gain = gain if kind == "full" else full_gain
            rows.append({
                "kind": kind, "seed": seed, "before": before, "after": after,
                "uniform": low, "optimum": high, "way": (after.mean - low) / (high - low),
                "of_full": gain / full_gain if full_gain else math.nan,
                "training_seconds": summary["seconds"],
                "wall_seconds": cost.wall, "cpu_seconds": cost.cpu,
                "peak_gb": cost.peak_rss / 1e9, "built": "" if built_before else " *",
            })  # fmt: skip
    return Result(rows, facts={name: rows[0][name] for name in ("uniform", "optimum")})


def adapter_memory(request: Request, counts: Sequence[int] = (1, AGENTS)) -> Result:
    """One row per base and number of adapters, the fewest first, in MB of a million bytes.

    The same game with eight agents in every run: each adapter holds one, uniform players the rest,
    so that every adapter trains on equally much. In the large base, a randomly initialised Qwen2,
    the base outweighs its adapters as it does in practice.
    """
    setting = {**ADAPTERS, **request.overrides}
    large = str(request.folder / "qwen2")
    parameters, _ = processes.call("random_qwen2", large, LAYERS, WIDTH, setting)
    rows: list[dict[str, Any]] = []
    for name, base in (("tiny", TINY), (f"Qwen2 {parameters / 1e6:.0f}M", large)):
        fewest: dict[str, float] = {}
        for count in counts:
            seats = {f"agent_{agent}": "uniform" for agent in range(count, AGENTS)}
            own = {"models.base": base, "models.count": count, "seats": seats}
            held, cost = processes.call("tensor_bytes", {**setting, **own})
            found = {kind: size / 1e6 for kind, size in {**held, "rss": cost.peak_rss}.items()}
            fewest = fewest or found
            rows.append({
                "base": name, "count": count, "held": found, "large": base == large,
                "times": {kind: size / fewest[kind] for kind, size in found.items()},
            })  # fmt: skip
    return Result(rows)


def scaling(request: Request, counts: Sequence[int] = COUNTS) -> Result:
    """One row per number of models: median seconds of a round, in a process of their own.

    As many agents as models, so that every model plays and trains on equally much.
    """
    rows: list[dict[str, Any]] = []
    for count in counts:
        options = {"num_agents": count, "max_cycles": TURNS}
        own = {"models.count": count, "environment.options": options}
        seconds, cost = processes.call("round_seconds", {**A_ROUND, **own, **request.overrides})
        parts = {part: median(values) for part, values in seconds.items()}
        first = rows[0]["round"] if rows else parts["round"]
        times = parts["round"] / first
        rows.append({"count": count, **parts, "times": times, "rss_mb": cost.peak_rss / 1e6})
    return Result(rows)


def vocabulary(
    request: Request, size: int = 2**18, width: int = 256, layers: int = 6, repeats: int = 3
) -> Result:
    """One row per side: an update in a process of its own, all sides in turns."""
    found: dict[str, list[dict[str, float]]] = {}

    def measured(side: str, _: int) -> float:
        told, _cost = processes.call("update_cost", side, size, width, layers)
        found.setdefault(side, []).append(told)
        return float(told["token_seconds"])

    sides = ("TRL", "ours", "ours, constrained")
    seconds = in_turns({side: partial(measured, side) for side in sides}, repeats)
    grown = {side: Repeats(told["grown"] / 1e6 for told in found[side]) for side in sides}
    rows = [
        {
            "side": side,
            "milliseconds": Repeats(1e3 * value for value in seconds[side]),
            "faster": ratios(seconds["TRL"], seconds[side]),
            "least_faster": min(ratios(seconds["TRL"], seconds[side])),
            "grown_mb": grown[side],
            "memory": max(ratios(grown[side], grown["TRL"])),
        }
        for side in sides
    ]
    return Result(rows, facts={**found["TRL"][0], "size": size, "repeats": repeats})


DEMO_SEEDS = Claim(
    demo_seeds,
    tables=[
        Table(
            {
                "models": "{kind}",
                "seed": "{seed}",
                "reward before": "{before:.4f}",
                "after": "{after:.4f}",
                "share of the way": "{way:.1%}",
                "gain / full's gain": "{of_full:.1%}",
                "training, s": "{training_seconds:.1f}",
                "process, s": "{wall_seconds:.1f}{built}",
                "process, CPU-s": "{cpu_seconds:.1f}",
                "peak RSS, GB": "{peak_gb:.2f}",
            }
        )
    ],
    targets=[
        Target(
            "full models end at least 97% of the way to the optimum on every seed",
            "way", ">=", 0.97, "{:.1%}", {"kind": "full"},
        ),
        Target(
            "adapters reach at least 95% of the full models' gain on every seed",
            "of_full", ">=", 0.95, "{:.1%}", {"kind": "LoRA"},
        ),
        Target(
            "training the full models takes under 60 s",
            "training_seconds", "<", 60.0, "{:.1f} s", {"kind": "full"},
        ),
        Target("peak memory is under 3 GB", "peak_gb", "<", 3.0, "{:.2f} GB"),
    ],
    legend="Raw reward per agent and turn, with its standard error over games; uniform play earns "
    "{uniform:.4f}, the optimum is {optimum:.4f}. Training: the rounds. Process: from start to "
    "end, with imports and both evaluations; * it also built the embedded model.",
    seeds=(0, 1, 2, 3, 4),
    writes_runs=True,
)  # fmt: skip
ADAPTER_MEMORY = Claim(
    adapter_memory,
    tables=[
        Table(
            {
                "base": "{base}",
                "adapters": "{count}",
                "base, MB": "{held[base]:.2f}",
                "adapters, MB": "{held[adapters]:.2f}",
                "gradients, MB": "{held[gradients]:.2f}",
                "optimizers, MB": "{held[optimizers]:.2f}",
                "all tensors, MB": "{held[tensors]:.2f}",
                "/ one adapter's tensors": "{times[tensors]:.3f}",
                "peak RSS, MB": "{held[rss]:.2f}",
                "/ one adapter's RSS": "{times[rss]:.3f}",
            }
        )
    ],
    targets=[
        Target(
            f"{{base}}: {{count}} adapters take under 1.3 times the {what} of 1",
            f"times[{kind}]", "<", 1.3, "{:.3f} times", {"large": True, "count": AGENTS},
        )
        for kind, what in (("rss", "memory"), ("tensors", "tensor bytes"))
    ],
    legend="The base's tensors are counted once, by their storage; gradients where all adapters "
    "have theirs, just before they are applied. Peak RSS: of the whole process, with Python and "
    "its libraries, loading, play and activations.",
    seeds=(),
)  # fmt: skip
SCALING = Claim(
    scaling,
    tables=[
        Table(
            {
                "models": "{count}",
                "a round, s": "{round:.2f}",
                "of it rollout, s": "{rollout:.2f}",
                "of it training, s": "{train:.2f}",
                "times the first": "{times:.2f}",
                "peak RSS, MB": "{rss_mb:.0f}",
            }
        )
    ],
    targets=[
        Target(
            f"a round with {COUNTS[-1]} models takes at most {COUNTS[-1]} times one with 1",
            "times", "<=", SLACK * COUNTS[-1], "{:.2f} times", {"count": COUNTS[-1]},
        )
    ],
    legend=f"Medians of {ROUNDS - 1} rounds, after one to warm up; 16 games of {TURNS} turns a "
    "round, one agent per model. Peak RSS is that of the whole process.",
    seeds=(),
)  # fmt: skip
VOCABULARY = Claim(
    vocabulary,
    tables=[
        Table(
            {
                "": "{side}",
                "a trained token, CPU-ms": "{milliseconds:.1f}",
                "times faster than TRL": "{faster:.2f}",
                "memory beside the model, MB": "{grown_mb:.0f}",
                "/ TRL's": "{memory:.2f}",
            }
        )
    ],
    targets=[
        Target(
            "a trained token takes at most a third of bare TRL's time",
            "least_faster", ">=", 3.0, "{:.2f} times faster", {"side": "ours"},
        ),
        Target(
            "an update takes at most half the memory beside the model",
            "memory", "<=", 0.5, "{:.2f} of TRL's", {"side": "ours"},
        ),
    ],
    legend="One update of adapters of rank 8 on a random Qwen2 of {parameters:,} parameters with "
    "a vocabulary of {size:,}, on one core: {read} tokens, of which the model chose {trained}, "
    "freely or (constrained) among eight ids. {repeats} repeats in turns, each in a process of its "
    "own; median (least to greatest). Memory: how much the process grew at most once the model "
    "was there.",
    seeds=(),
)  # fmt: skip
