"""Which samples and tokens are trained on: budgets, agents without a turn, forced answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks.training.claim import Request
from benchmarks.training.repairs.sticks import PLAYERS, game
from benchmarks.training.runs import Settings, assembled, rounds_of
from srl_train.samples import TokenSample, in_groups
from srl_train.round import train_round

Row = dict[str, Any]
ENTROPY = "entropy as told / that of real choices"
FORCED = "share of forced tokens among those trained on"
NEVER_ASKED = "an agent that is never asked in some games"
BUDGET = "a sample budget of a quarter of a round, four agents of one model"
BUDGETED: Settings = {
    "environment.name": "coop_compete_v0",
    "environment.options": {"num_agents": 4, "max_cycles": 2},
    "models.count": 1,
    "rollout.group_size": 16,
    "updates.sample_budget": {"model_0": 16},
    "updates.max_staleness": 1,
    "rounds": 6,
}
"""One model in four places, updated by a quarter of a round's samples at a time."""
IN_TURNS: Settings = {
    "models.count": 3,
    "models.constrained": True,
    "rollout.group_size": 2,
    "rollout.groups_per_round": 16,
    "rounds": 1,
}
OFTEN_OVER, LONGER = 4, 7
"""Sticks, with which the third player often has no turn; and with which all have one."""
SMALL: Settings = {"rollout.groups_per_round": 1, "logging.evaluation_episodes": 0}


def measure(request: Request) -> list[Row]:
    """Rows of every seed."""
    rows = []
    for seed in request.seeds:
        own = {**request.overrides, "seed": seed}
        rows += [budget({**SMALL, **BUDGETED, **own})]
        rows += [
            without_a_turn(algorithm, {**SMALL, **IN_TURNS, **own}) for algorithm in ("grpo", "ppo")
        ]
        rows += forced({**SMALL, **IN_TURNS, **own})
    return rows


def budget(settings: Settings) -> Row:
    """Samples that each place's agent was trained on: least by most."""
    trained: Counter[str] = Counter()
    with assembled(settings) as run:
        learner = run.learners["model_0"]
        learn = learner.learn

        def counted(samples: Sequence[TokenSample], seed: int, version: int) -> Any:
            trained.update(sample.group[2] for sample in samples)
            return learn(samples, seed, version)

        learner.learn = counted  # type: ignore[method-assign]
        for _ in rounds_of(run):
            pass
        numbers = [trained[agent] for agent in run.seats]
    return {
        "what": BUDGET,
        "case": "samples trained, least / most of the agents",
        "seed": run.config.seed,
        "found": min(numbers) / max(numbers),
    }


def without_a_turn(algorithm: str, settings: Settings) -> Row:
    """Games of the third player that are left out, beyond the groups in which it was not asked."""
    with assembled({**settings, "algorithm.name": algorithm}, partial(game, OFTEN_OVER)) as run:
        result = train_round(run, 0)
        size, seed = run.config.rollout.group_size, run.config.seed
    third = PLAYERS[2]
    due = sum(
        len(group)
        for group in in_groups(result.episodes, size)
        if not all(episode.asked_of(third) for episode in group)
    )
    models = result.row["models"]
    left_out = models["model_2"]["never_asked_by_agent"][third]
    return {
        "what": NEVER_ASKED,
        "case": f"its games left out, {algorithm.upper()}",
        "seed": seed,
        "found": left_out / len(result.episodes),
        "plain": due / len(result.episodes),
        "beyond": left_out - due + sum(not math.isfinite(one["loss"]) for one in models.values()),
    }


def forced(settings: Settings) -> list[Row]:
    """Forced tokens, and the entropy that is told beside that of the model's real choices.

    That is the mean of -log p of what it chose: the same in expectation.
    """
    seen: list[TokenSample] = []
    with assembled(settings, partial(game, LONGER)) as run:
        for buffer in run.buffers.values():
            _watch(buffer, seen)
        models = train_round(run, 0).row["models"].values()
    answers = [
        (mask, ids is not None and len(ids) == 1, logprob)
        for sample in seen
        for start, stop in sample.turns
        for mask, ids, logprob in zip(
            sample.mask[start:stop],
            (sample.allowed or [None] * len(sample.mask))[start:stop],
            sample.logprobs[start:stop],
            strict=True,
        )
    ]
    trained = [is_forced for mask, is_forced, _ in answers if mask]
    chosen = [logprob for _, is_forced, logprob in answers if not is_forced]
    weights = [model["samples"] for model in models]
    told = sum(w * model["entropy"] for w, model in zip(weights, models, strict=True))
    told /= sum(weights)
    real = -math.fsum(chosen) / len(chosen)
    everywhere = -math.fsum(logprob for *_, logprob in answers) / len(answers)
    where: Row = {"seed": settings["seed"], "what": "a game in turns, answers constrained"}
    return [
        {
            **where,
            "case": FORCED,
            "found": sum(trained) / len(trained),
            "plain": sum(is_forced for _, is_forced, _ in answers) / len(answers),
        },
        {
            **where,
            "case": ENTROPY,
            "off": abs(told / real - 1.0),
            "found": told / real,
            "plain": everywhere / real,
        },
    ]


def _watch(buffer: Any, seen: list[TokenSample]) -> None:
    add = buffer.add

    def watched(samples: Sequence[TokenSample]) -> None:
        seen.extend(samples)
        add(samples)

    buffer.add = watched
