"""Training runs of a claim's methods, with evaluations before and after each run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claim import Request, Settings
from srl_agents.episode import Episode, read_jsonl
from srl_agents.policy import AgentObservation, Policy
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.environment import build_env
from srl_train.evaluation import evaluate
from srl_train.pools import grow_pools
from srl_train.round import RoundResult, train_round
from srl_train.run import Run
from srl_train.trainer import Trainer

__all__ = ["HeldOut", "Run", "answer_chances", "assembled", "build_env", "evaluate", "grow_pools",
           "mean_return", "rounds_of", "train_methods"]  # fmt: skip
# Other modules import the parts of the core's engine that they need from here.

Exam = Callable[[Run], Any]
"""An evaluation of a run's models, from which no model learns."""


def train_methods(
    request: Request, exams: Mapping[str, Exam], named_by: str = ""
) -> Iterator[dict[str, Any]]:
    """Train every method of a claim for every seed, and yield one row per run.

    `exams` is name -> evaluation after training; "after" is also evaluated before it, as "before".
    `named_by` is the entry of an episode's last info that names its level or problem. The names
    that occur in training are the row's `met`.
    """
    example = Path(str(request.claim.config)).stem
    for seed in request.seeds:
        for name in request.claim.methods:
            config = request.config({**request.settings(name), "seed": seed})
            began, worked = time.perf_counter(), time.process_time()
            words = re.findall("[a-z0-9]+", f"{example} {name} {seed}".lower())
            out = request.folder / "_".join(words)
            with _WatchedTrainer(config, out, named_by=named_by) as trainer:
                before, ready = exams["after"](trainer.run), time.process_time()
                results = trainer.fit()
                training = time.process_time() - ready
                recorded = [
                    episode
                    for file in sorted((out / "data").glob("*.jsonl"))  # of `sft` and `dpo`
                    for episode in read_jsonl(file)
                ]
                trainer.meet(recorded)
                yield {
                    "variant": name,
                    "seed": seed,
                    "before": before,
                    **{exam: measure(trainer.run) for exam, measure in exams.items()},
                    "curve": results["training_metrics"]["total_rewards"],
                    "met": sorted(trainer.met),
                    "episodes": config.rounds * config.rollout.episodes + len(recorded),
                    "training_seconds": trainer.run.seconds,
                    "training_cpu_seconds": training,
                    "wall_seconds": time.perf_counter() - began,
                    "cpu_seconds": time.process_time() - worked,
                    "out": str(out),
                }


class _WatchedTrainer(Trainer):
    """A trainer that collects the names of the levels or problems it trains on."""

    def __init__(self, *arguments: Any, named_by: str, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.met: set[str] = set()
        self._named_by = named_by

    def meet(self, episodes: Sequence[Episode]) -> None:
        if self._named_by:
            self.met.update(one.turns[-1][0].info[self._named_by] for one in episodes)

    def train_round(self) -> RoundResult:
        result = super().train_round()
        self.meet(result.episodes)
        return result


@contextmanager
def assembled(settings: Settings, make_env: Callable[[], Any] | None = None) -> Iterator[Run]:
    """Context with a run that writes no files, in the configured environment or `make_env`'s."""
    run = build_run(yaml_file.from_tree({}, settings), make_env)
    with closing(run.players):
        yield run


def rounds_of(run: Run) -> Iterator[RoundResult]:
    """Train all remaining rounds of a run, and yield the result of each."""
    while run.next_round < run.config.rounds:
        result = train_round(run, run.next_round)
        run.next_round += 1
        yield result


def mean_return(run: Run, games: int) -> float:
    """Play `games` evaluation games; return the mean raw return per agent and game."""
    _, played = evaluate(run, games)
    totals = [total for e in played if e.failure is None for total in e.returns().values()]
    return sum(totals) / len(totals)


def answer_chances(
    run: Run, players: Sequence[str], row: Any, mask: Any = None
) -> NDArray[np.float64]:
    """Return the exact probabilities (player, answer) after the first observation `row`."""
    seen = AgentObservation("agent_0", np.asarray(row, np.float32), mask)
    policies: list[Any] = [run.engine.policies_of({seen.agent: one})[seen.agent] for one in players]
    return np.stack([policy.probabilities(seen, policy.start(0)) for policy in policies])


@dataclass(frozen=True)
class HeldOut:
    """Evaluation episodes on levels or problems that are excluded from training."""

    make: Callable[[], Any]
    seeds: Sequence[int]
    score: Callable[[Sequence[Episode]], dict[str, Any]]
    reset_options: Sequence[Mapping[str, Any]] | None = None
    identities: frozenset[str] = frozenset()
    """Names of the levels or problems in an episode's last info."""

    def __call__(self, run: Run) -> dict[str, Any]:
        """Return the scores of a run's current models."""
        return self.play(run.engine.policies_of(run.seats))

    def scripted(self, name: str) -> dict[str, Any]:
        """Return the scores if the scripted policy `name` plays all agents."""
        env = self.make()
        return self.play(dict.fromkeys(env.possible_agents, classic_policy(name, env)))

    def play(self, policies: Mapping[str, Policy]) -> dict[str, Any]:
        """Return the scores of policies (by agent); raise RuntimeError if an episode failed."""
        episodes = play_many(self.make, policies, self.seeds, reset_options=self.reset_options)
        if failed := [episode.failure for episode in episodes if episode.failure is not None]:
            raise RuntimeError(f"{len(failed)} evaluation games failed; the first: {failed[0]}")
        return self.score(episodes)

    def overlap(self, met: Sequence[str]) -> dict[str, int]:
        """Count the names in `met` (of training), the held-out names, and those in both."""
        both = len(self.identities.intersection(met))
        return {"trained_on": len(met), "held_out": len(self.identities), "trained_and_asked": both}
