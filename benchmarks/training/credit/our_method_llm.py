"""Opponent modelling for language models, part by part: in the prompt, and in the credit.

One embedded model learns the two-player coop_compete against a scripted partner: tit_for_tat,
always_compete, uniform, or one of the three drawn anew for every game. Every variant has the same
rounds and games. Nothing is asked for: the tables say what came out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.training.claim import Claim, Request, Result, Table
from benchmarks.training.runs import assembled, rounds_of
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, Policy
from srl_agents.scripted.registry import classic_policy
from srl_train.evaluation import evaluate

SETTING: Mapping[str, Any] = {
    "environment.name": "coop_compete_v0",
    # At this level whoever knows the partner earns most beside always cooperating or competing.
    "environment.options": {
        "variant": "pair",
        "num_agents": 2,
        "max_cycles": 8,
        "cooperation_level": 0.8,
    },
    "models.count": 1,
    # The model is paid what it earns.
    "mode.name": "cooperative",
    "mode.cooperation_strength": 0.0,
    "rollout.group_size": 8,
    "rollout.groups_per_round": 2,
    "rounds": 24,
    # A third of the default: at that one all settings are at their end after a few rounds.
    "algorithm.learning_rate": 1e-3,
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"credit.name": "agent_turn"},
    "notes": {"credit.name": "agent_turn", "models.opponent_notes": True},
    "credit": {"credit.name": "opponent_model"},
    "both": {"credit.name": "opponent_model", "models.opponent_notes": True},
}
PARTNERS = ("tit_for_tat", "always_compete", "uniform")
MIXTURE = "one of the three"
MODEL_SEAT, PARTNER_AGENT = "agent_0", "agent_1"


class DrawnPartner:
    """A partner that is one of several for a whole game, each as likely as the others."""

    name = "drawn_partner"

    def __init__(self, partners: Sequence[Policy]) -> None:
        self._partners = partners

    def start(self, seed: int) -> tuple[int, Any]:
        """Who it is in this game, and that one's memory."""
        who = int(np.random.default_rng([seed, len(self._partners)]).integers(len(self._partners)))
        return who, self._partners[who].start(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[tuple[int, Any]]
    ) -> tuple[list[Decision], list[tuple[int, Any]]]:
        """One decision per agent."""
        decisions: list[Decision] = []
        memories: list[tuple[int, Any]] = []
        for one, (who, memory) in zip(seen, states, strict=True):
            [decision], [after] = self._partners[who].act([one], [memory])
            decisions.append(decision)
            memories.append((who, after))
        return decisions, memories


def measure(request: Request, partners: Sequence[str] = (*PARTNERS, MIXTURE)) -> Result:
    """One row per partner and seed: {"before", variant: {"after", "during"}, "best"}."""
    began = time.process_time()
    rows: list[dict[str, Any]] = []
    unread = []
    for partner in partners:
        for seed in request.seeds:
            row: dict[str, Any] = {"partner": partner, "seed": seed}
            before = []
            for name, own in VARIANTS.items():
                settings = {**SETTING, **own, **request.overrides, "seed": seed}
                found = _trained(settings, partner, request.games)
                unread.append(found["unread"])
                row |= {f"{name}_after": found["after"], f"{name}_during": found["during"]}
                before.append(found["before"])
            rows.append({
                **row, "before": math.fsum(before) / len(before), "best": found["best"],
                "played": found["played"],
            })  # fmt: skip
    facts = {"cpu": time.process_time() - began, "unread": max(unread), **rows[0]["played"]}
    return Result(rows, facts=facts)


def best_value(env: Any, partner: str) -> float:
    """Mean reward per turn of the best answer to a known partner, exact."""
    pays: list[list[float]] = [
        [env.rules.expected_rewards((own, other))[0] for other in (0, 1)] for own in (0, 1)
    ]
    values = {
        "always_compete": max(pays[0][0], pays[1][0]),
        "uniform": max(sum(row) / 2 for row in pays),
        "tit_for_tat": _against_repeating(pays, env.max_cycles),
    }
    if partner == MIXTURE:
        return sum(values.values()) / len(values)
    return values[partner]


def _against_repeating(pays: Sequence[Sequence[float]], rounds: int) -> float:
    """Backward over what tit_for_tat does next, which is what was done last; it begins with 1."""
    ahead = [0.0, 0.0]
    for _ in range(rounds):
        ahead = [max(pays[own][other] + ahead[own] for own in (0, 1)) for other in (0, 1)]
    return ahead[1] / rounds


def _trained(settings: Mapping[str, Any], partner: str, games: int) -> dict[str, Any]:
    named = PARTNERS[0] if partner == MIXTURE else partner
    with assembled({**settings, f"seats.{PARTNER_AGENT}": named}) as run:
        if partner == MIXTURE:
            game = run.make_env()
            drawn = DrawnPartner([classic_policy(name, game) for name in PARTNERS])
            run.policies = {**run.policies, PARTNER_AGENT: drawn}
        before, _ = evaluate(run, games)
        during = []
        for result in rounds_of(run):
            steps = [one for episode in result.episodes for one in episode.steps_of(MODEL_SEAT)]
            during.append(math.fsum(step.reward for step in steps) / len(steps))
        after, _ = evaluate(run, games)
    return {
        "before": before["per_model"]["model_0"],
        "after": after["per_model"]["model_0"],
        "during": math.fsum(during) / len(during),
        "unread": max(before["parse_failures"], after["parse_failures"]),
        "best": best_value(run.make_env(), partner),
        "played": {
            "rounds": run.config.rounds,
            "games_a_round": run.config.rollout.episodes,
            "turns": run.make_env().max_cycles,
        },
    }


def _table(when: str, title: str = "") -> Table:
    cells = {name: f"{{{name}_{when}:.3f}}" for name in VARIANTS}
    columns = {"partner": "{partner}", "before": "{before.middle:.3f}", **cells}
    return Table({**columns, "partner known": "{best:.3f}"}, title, over_seeds=("partner",))


OUR_METHOD_LLM = Claim(
    measure,
    tables=[
        _table(
            "after", "**reward per turn after training, mean (least to greatest of the seeds)**"
        ),
        _table("during", "**reward per turn over all training games, the same**"),
    ],
    legend="{rounds} rounds of {games_a_round} games of {turns} turns each; {cpu:.0f} CPU seconds "
    "in all; at most {unread:.1%} of a run's answers could not be read. Last column: the most that "
    "can be earned by whoever knows the partner, noise left out.",
    games=128,
)
