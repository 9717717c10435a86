"""What a training round costs over a bare TRL GRPOTrainer that is fed the same tokens.

python -m benchmarks.training.round_cost [--rounds 14] [--repeats 7] [--profile]

The demo is played once and recorded. Then, in turns: our rounds on the recorded episodes, from
shaping to accounting, everything but the play; and, for each model, `GRPOTrainer.train()` on the
samples its learner was handed. CPU time of this process, building either side left out. Both must
arrive at the same weights.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import gc
import pstats
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from benchmarks.training import records
from benchmarks.training.bare_trl import BareTrainer, Update, fresh_models
from benchmarks.training.records import Check
from srl_agents.episode import Episode
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.data.samples import TokenSample
from srl_train.engine import rounds
from srl_train.engine.assemble import assemble
from srl_train.engine.state import Run

CONFIG = records.ROOT / "examples" / "demo.yaml"
OVERHEAD = 0.15
SHOWN = 25  # functions of a profile


@dataclass
class Recording:
    """One run: what was played, and what every learner was handed."""

    episodes: list[list[Episode]] = field(default_factory=list)
    """Per round."""
    updates: dict[str, list[Update]] = field(default_factory=dict)
    """Model -> its updates in order."""


def measure(
    config: Path = CONFIG, overrides: Mapping[str, Any] | None = None, repeats: int = 7
) -> dict[str, Any]:
    """{"ours", "bare", "bare_loop": CPU seconds per repeat, "difference": greatest of the final
    weights, ...}. The first repeat warms up and is thrown away.
    """
    loaded = yaml_file.load(config, overrides)
    recording = record(loaded)
    seconds: dict[str, list[float]] = {"ours": [], "bare": [], "bare_loop": []}
    difference = 0.0
    for repeat in range(repeats + 1):
        # Neither side is always the one that goes first.
        for side in ("ours", "bare") if repeat % 2 else ("bare", "ours"):
            if side == "ours":
                ours, our_weights = replay(loaded, recording)
            else:
                bare, loop, bare_weights = train_bare(loaded, recording)
        difference = max(difference, _difference(our_weights, bare_weights))
        if repeat:
            seconds["ours"].append(ours)
            seconds["bare"].append(bare)
            seconds["bare_loop"].append(loop)
    return {
        "rounds": loaded.rounds,
        "models": len(recording.updates),
        "samples": sum(len(samples) for own in recording.updates.values() for samples, _ in own),
        **seconds,
        "difference": difference,
    }


def record(config: RunConfig) -> Recording:
    """Train as configured, and keep what was played and handed on."""
    run = assemble(config)
    recording = Recording()
    for name, learner in run.learners.items():
        _keep_updates(learner, recording.updates.setdefault(name, []))
    play = rounds.play_groups
    for number in range(config.rounds):
        episodes = play(run, number)
        recording.episodes.append(episodes)
        with _played_already(episodes):
            rounds.run_round(run, number)
        run.next_round = number + 1
    return recording


def replay(config: RunConfig, recording: Recording) -> tuple[float, dict[str, dict[str, Tensor]]]:
    """(CPU seconds of all our rounds without the play, final weights)."""
    run = assemble(config)
    gc.collect()
    spent = 0.0
    for number, episodes in enumerate(recording.episodes):
        with _played_already(episodes):
            began = time.process_time()
            rounds.run_round(run, number)
            run.next_round = number + 1
            spent += time.process_time() - began
    return spent, {name: dict(learner.weights()) for name, learner in run.learners.items()}


def train_bare(
    config: RunConfig, recording: Recording
) -> tuple[float, float, dict[str, dict[str, Tensor]]]:
    """(CPU seconds of all train() calls, of their loops alone, final weights), model by model."""
    spent = loop = 0.0
    weights = {}
    models, tokenizer = fresh_models(config)
    for name, updates in recording.updates.items():
        trainer = BareTrainer(models[name], tokenizer, config, updates)
        gc.collect()
        began = time.process_time()
        trainer.train()
        spent += time.process_time() - began
        loop += trainer.loop_seconds
        weights[name] = trainer.weights()
    return spent, loop, weights


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The target, and that the two sides did the same work."""
    ratios = _ratios(result, "bare_loop")
    median = sorted(ratios)[len(ratios) // 2]
    return [
        Check(
            f"a round costs less than {OVERHEAD:.0%} more than bare TRL",
            median - 1.0 < OVERHEAD,
            f"{median - 1.0:+.1%} over TRL's loop alone, median of {len(ratios)}",
        ),
        Check(
            "both sides end with the same weights",
            result["difference"] == 0.0,
            f"greatest difference {result['difference']:.1e}",
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """Seconds and ratios: median (least to greatest)."""
    rows = [
        ("our rounds without the play", records.spread(result["ours"]), "1"),
        (
            "GRPOTrainer.train(), whole",
            records.spread(result["bare"]),
            records.spread(_ratios(result, "bare")),
        ),
        (
            "GRPOTrainer.train(), its loop alone",
            records.spread(result["bare_loop"]),
            records.spread(_ratios(result, "bare_loop")),
        ),
    ]
    head = (
        f"{result['rounds']} rounds, {result['models']} models, {result['samples']} samples in "
        f"all; {len(result['ours'])} repeats; median (least to greatest)."
    )
    headers = ("", "CPU-s", "ours / this")
    return f"{head}\n\n{records.table(headers, rows)}\n\n{records.listed(checks(result))}"


def profile(config: Path = CONFIG, overrides: Mapping[str, Any] | None = None) -> None:
    """Print where the time of one pass of either side goes, by function."""
    loaded = yaml_file.load(config, overrides)
    recording = record(loaded)
    for name, side in (("ours", replay), ("bare TRL", train_bare)):
        side(loaded, recording)
        profiler = cProfile.Profile(time.process_time)
        profiler.runcall(side, loaded, recording)
        print(f"== {name}")
        statistics = pstats.Stats(profiler)
        statistics.sort_stats("cumulative").print_stats(r"srl_train|_step|_inputs", SHOWN)
        statistics.sort_stats("tottime").print_stats(SHOWN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="in place of the demo's")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="show where the time goes instead")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    overrides = records.settings_of(asked.overrides)
    if asked.rounds is not None:
        overrides["rounds"] = asked.rounds
    if asked.profile:
        profile(overrides=overrides)
        return 0
    result = measure(overrides=overrides, repeats=asked.repeats)
    records.keep("round_cost", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


@contextlib.contextmanager
def _played_already(episodes: list[Episode]) -> Iterator[None]:
    """Inside, a round finds these episodes instead of playing."""
    play = rounds.play_groups

    def recorded(run: Run, number: int) -> list[Episode]:
        return episodes

    rounds.play_groups = recorded
    try:
        yield
    finally:
        rounds.play_groups = play


def _keep_updates(learner: Any, kept: list[Update]) -> None:
    inner = learner.begin_update

    def begin_update(samples: Sequence[TokenSample], seed: int, *arguments: Any) -> int:
        kept.append((samples, seed))
        steps: int = inner(samples, seed, *arguments)
        return steps

    learner.begin_update = begin_update


def _difference(
    ours: Mapping[str, Mapping[str, Tensor]], bare: Mapping[str, Mapping[str, Tensor]]
) -> float:
    with torch.no_grad():
        return max(
            float((tensor - bare[model][name]).abs().max())
            for model, own in ours.items()
            for name, tensor in own.items()
        )


def _ratios(result: Mapping[str, Any], side: str) -> list[float]:
    return [ours / bare for ours, bare in zip(result["ours"], result[side], strict=True)]


if __name__ == "__main__":
    raise SystemExit(main())
