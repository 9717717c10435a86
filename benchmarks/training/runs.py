"""Training runs of an example's configuration, with exams before and after each."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.records import CONFIGS
from benchmarks.training.claim import Request, Target
from srl_agents.episode import Episode, read_jsonl
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.build import build_run
from srl_train.evaluation import evaluate
from srl_train.round import RoundResult, train_round
from srl_train.run import Run
from srl_train.trainer import Trainer

Settings = Mapping[str, Any]
"""What replaces a configuration's own, by dotted name."""
Exam = Callable[[Run], Any]
"""What a run's models can do now; nobody learns from it."""
AS_IT_IS: Mapping[str, Settings] = MappingProxyType({"": {}})
COST = {"whole run, s": "{wall_seconds:.0f}", "CPU-s": "{cpu_seconds:.0f}"}
"""Columns of a table of runs."""
QUICK = Target(
    "a run, from nothing to its last evaluation, takes under 600 CPU-seconds",
    "cpu_seconds", "<", 600.0, "{:.0f} s",
)  # fmt: skip


def trained(
    request: Request,
    example: str,
    exams: Mapping[str, Exam],
    variants: Mapping[str, Settings] = AS_IT_IS,
    fixed: Settings = MappingProxyType({}),
    named_by: str = "",
) -> Iterator[dict[str, Any]]:
    """One row per seed and variant of a file of examples/, as soon as it is there.

    Of the exams, "after" is also sat before training. `fixed` are settings that no override
    changes; `named_by` is the entry of an episode's last info that names its level or problem.
    """
    for seed in request.seeds:
        for name, own in variants.items():
            settings = {**own, **request.overrides, **fixed, "seed": seed}
            config = yaml_file.load(CONFIGS / example, settings)
            began, worked = time.perf_counter(), time.process_time()
            words = re.findall(
                "[a-z0-9]+", f"{example.removesuffix('.yaml')} {name} {seed}".lower()
            )
            out = request.folder / "_".join(words)
            with _WatchedTrainer(config, out, named_by=named_by) as trainer:
                before = exams["after"](trainer.run)
                training = time.process_time()
                results = trainer.fit()
                training = time.process_time() - training
                watched = _games_before_rounds(out)
                if named_by:
                    trainer.met.update(last_info(episode)[named_by] for episode in watched)
                yield {
                    "variant": name,
                    "seed": seed,
                    "before": before,
                    **{paper: sit(trainer.run) for paper, sit in exams.items()},
                    "curve": results["training_metrics"]["total_rewards"],
                    "met": sorted(trainer.met),
                    "episodes": config.rounds * config.rollout.episodes + len(watched),
                    "training_seconds": trainer.run.seconds,
                    "training_cpu_seconds": training,
                    "wall_seconds": time.perf_counter() - began,
                    "cpu_seconds": time.process_time() - worked,
                    "out": str(out),
                }


@contextmanager
def assembled(
    settings: Settings | RunConfig, make_env: Callable[[], Any] | None = None
) -> Iterator[Run]:
    """A run of a configuration or of settings alone, which writes no files, in the configured game
    or in another."""
    if not isinstance(settings, RunConfig):
        settings = yaml_file.from_tree({}, settings)
    run = build_run(settings, make_env)
    try:
        yield run
    finally:
        run.players.close()


def rounds_of(run: Run) -> Iterator[RoundResult]:
    """All rounds of a run, each as soon as it is learned from."""
    while run.next_round < run.config.rounds:
        result = train_round(run, run.next_round)
        run.next_round += 1
        yield result


def options_of(request: Request, example: str) -> dict[str, Any]:
    """The options of the environment that is trained in."""
    return dict(yaml_file.load(CONFIGS / example, request.overrides).environment.options)


def mean_return(run: Run, games: int) -> float:
    """Mean raw return per agent in `games` games that no round plays."""
    _, played = evaluate(run, games)
    totals = [total for e in played if e.failure is None for total in e.returns().values()]
    return sum(totals) / len(totals)


def last_info(episode: Episode) -> Mapping[str, Any]:
    """What the first agent was told at the end."""
    return episode.turns[-1][0].info


def _games_before_rounds(out: Path) -> list[Episode]:
    """The games that `sft` and `dpo` were given."""
    return [
        episode for file in sorted((out / "data").glob("*.jsonl")) for episode in read_jsonl(file)
    ]


class _WatchedTrainer(Trainer):
    """Keeps what was trained on, as the last info of each episode names it."""

    def __init__(self, *arguments: Any, named_by: str, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.met: set[str] = set()
        self._named_by = named_by

    def train_round(self) -> RoundResult:
        """The next round."""
        result = super().train_round()
        if self._named_by:
            self.met.update(last_info(episode)[self._named_by] for episode in result.episodes)
        return result
