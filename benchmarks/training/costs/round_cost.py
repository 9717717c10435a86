"""What a training round costs over a bare TRL GRPOTrainer that is fed the same tokens.

The demo is played once and recorded. Then, in turns: our rounds on the recorded episodes, from
shaping to accounting, everything but the play; and, for each model, `GRPOTrainer.train()` on the
samples its learner was handed. CPU time of this process, building either side left out. Both must
arrive at the same weights, but for rounding.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.records import CONFIGS
from benchmarks.repeats import Repeats, in_turns, ratios
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.costs.bare_trl import BareTrainer, Update
from srl_agents.episode import Episode
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.data.samples import TokenSample
from srl_train.engine import rounds
from srl_train.engine.assemble import assemble
from srl_train.engine.builders.environment import build_env
from srl_train.engine.games import play_groups
from srl_train.loading import build_backends

REPEATS = 7
ROUNDING = 1e-5
"""Of a weight: our learner computes logits for the answers' tokens alone, TRL for all, and sums in
another order. An update moves weights by about the learning rate, 3e-3."""
Weights = Mapping[str, Mapping[str, Tensor]]
"""Model -> parameter name -> tensor."""


@dataclass
class Recording:
    """One run: what was played, and what every learner was handed."""

    episodes: list[list[Episode]] = field(default_factory=list)
    """Per round."""
    updates: dict[str, list[Update]] = field(default_factory=dict)
    """Model -> its updates in order."""


def measure(request: Request) -> Result:
    """One row per side: ours, TRL's train() and its loop alone."""
    config = yaml_file.load(CONFIGS / "demo.yaml", request.overrides)
    recording = record(config)
    loops: list[float] = []
    weights: dict[str, Weights] = {}
    difference = 0.0

    def compare() -> None:
        nonlocal difference
        if len(weights) == 2:
            difference = max(difference, _difference(weights.pop("ours"), weights.pop("bare")))

    def bare(_: int) -> float:
        spent, loop, weights["bare"] = train_bare(config, recording)
        loops.append(loop)
        compare()
        return spent

    def ours(_: int) -> float:
        spent, weights["ours"] = replay(config, recording)
        compare()
        return spent

    seconds = in_turns({"bare": bare, "ours": ours}, REPEATS, warm_ups=1)
    sides = {
        "our rounds without the play": seconds["ours"],
        "GRPOTrainer.train(), whole": seconds["bare"],
        "GRPOTrainer.train(), its loop alone": Repeats(loops[1:]),
    }
    rows = []
    for side, own in sides.items():
        times = ratios(seconds["ours"], own)
        rows.append({"side": side, "seconds": own, "times": times, "overhead": times.middle - 1.0})
    updates = recording.updates.values()
    facts = {
        "rounds": config.rounds,
        "models": len(updates),
        "samples": sum(len(samples) for own in updates for samples, _ in own),
        "repeats": REPEATS,
    }
    return Result([{**row, "difference": difference} for row in rows], facts=facts)


def record(config: RunConfig) -> Recording:
    """Train as configured, and keep what was played and handed on."""
    run = assemble(config)
    recording = Recording()
    for name, learner in run.learners.items():
        _keep_updates(learner, recording.updates.setdefault(name, []))
    for number in range(config.rounds):
        episodes = play_groups(run, number)
        recording.episodes.append(episodes)
        with _played_already(episodes):
            rounds.run_round(run, number)
        run.next_round = number + 1
    return recording


def replay(config: RunConfig, recording: Recording) -> tuple[float, Weights]:
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


def train_bare(config: RunConfig, recording: Recording) -> tuple[float, float, Weights]:
    """(CPU seconds of all train() calls, of their loops alone, final weights), model by model."""
    spent = loop = 0.0
    weights = {}
    players = build_backends(config, partial(build_env, config))
    for name, updates in recording.updates.items():
        tokenizer = players.backends[name].tokenizer
        trainer = BareTrainer(players.modules[name], tokenizer, config, updates)
        gc.collect()
        began = time.process_time()
        trainer.train()
        spent += time.process_time() - began
        loop += trainer.loop_seconds
        weights[name] = trainer.weights()
    return spent, loop, weights


@contextmanager
def _played_already(episodes: list[Episode]) -> Iterator[None]:
    """Inside, a round finds these episodes instead of playing."""
    rounds.play_groups = lambda run, number: episodes
    try:
        yield
    finally:
        rounds.play_groups = play_groups


def _keep_updates(learner: Any, kept: list[Update]) -> None:
    inner = learner.begin_update

    def begin_update(samples: Sequence[TokenSample], seed: int, *arguments: Any) -> int:
        kept.append((samples, seed))
        steps: int = inner(samples, seed, *arguments)
        return steps

    learner.begin_update = begin_update


def _difference(ours: Weights, bare: Weights) -> float:
    with torch.no_grad():
        return max(
            float((tensor - bare[model][name]).abs().max())
            for model, own in ours.items()
            for name, tensor in own.items()
        )


ROUND_COST = Claim(
    measure,
    tables=[Table({"": "{side}", "CPU-s": "{seconds:.3f}", "ours / this": "{times:.3f}"})],
    targets=[
        Target(
            "a round costs less than 15% more than bare TRL",
            "overhead", "<", 0.15, "{:+.1%} over TRL's loop alone, median of the repeats",
            {"side": "GRPOTrainer.train(), its loop alone"},
        ),
        Target(
            "both sides end with the same weights but for rounding",
            "difference", "<", ROUNDING, "greatest difference {:.1e}",
            {"side": "our rounds without the play"},
        ),
    ],
    legend="{rounds} rounds, {models} models, {samples} samples in all; {repeats} repeats; median "
    "(least to greatest).",
    seeds=(),
)  # fmt: skip
