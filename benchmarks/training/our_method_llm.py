"""Opponent modelling for language models, part by part: in the prompt, and in the credit.

python -m benchmarks.training.our_method_llm [--seeds 0 1 2] [--rounds 24]

One embedded model learns the two-player coop_compete against a scripted partner: tit_for_tat,
always_compete, uniform, or one of the three drawn anew for every game. Every setting has the same
rounds and games: `plain` (credit.name agent_turn), `notes` (models.partner_notes), `credit`
(credit.name opponent_model) and `both`. Nothing is asked for: the table says what came out.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import transformers

from benchmarks.training import records
from srl_agents.episode import Decision
from srl_agents.policy import Policy, Seen
from srl_agents.scripted.registry import classic_policy
from srl_train.config import yaml_file
from srl_train.engine.assemble import assemble
from srl_train.engine.evaluation import evaluate
from srl_train.engine.rounds import run_round

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
    # A third of the default: at that one all settings are at their end after a few rounds.
    "grpo.learning_rate": 1e-3,
}
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "plain": {"credit.name": "agent_turn"},
    "notes": {"credit.name": "agent_turn", "models.partner_notes": True},
    "credit": {"credit.name": "opponent_model"},
    "both": {"credit.name": "opponent_model", "models.partner_notes": True},
}
PARTNERS = ("tit_for_tat", "always_compete", "uniform")
MIXTURE = "one of the three"
MODEL_SEAT, PARTNER_SEAT = "agent_0", "agent_1"


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
        self, seen: Sequence[Seen], states: Sequence[tuple[int, Any]]
    ) -> tuple[list[Decision], list[tuple[int, Any]]]:
        """One decision per seat."""
        decisions: list[Decision] = []
        memories: list[tuple[int, Any]] = []
        for one, (who, memory) in zip(seen, states, strict=True):
            [decision], [after] = self._partners[who].act([one], [memory])
            decisions.append(decision)
            memories.append((who, after))
        return decisions, memories


def measure(
    seeds: Sequence[int],
    rounds: int,
    games: int = 128,
    setting: Mapping[str, Any] = SETTING,
    partners: Sequence[str] = (*PARTNERS, MIXTURE),
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS,
) -> dict[str, Any]:
    """{"runs": [one mapping per partner, variant and seed], "cpu_seconds": of all of them}."""
    began = time.process_time()
    runs = [
        {
            "partner": partner,
            "variant": name,
            "seed": seed,
            **_trained({**setting, **own, "seed": seed, "rounds": rounds}, partner, games),
        }
        for partner in partners
        for name, own in variants.items()
        for seed in seeds
    ]
    return {
        "rounds": rounds,
        "games": setting["rollout.group_size"] * setting["rollout.groups_per_round"],
        "turns": setting["environment.options"]["max_cycles"],
        "runs": runs,
        "cpu_seconds": time.process_time() - began,
    }


def markdown(result: Mapping[str, Any]) -> str:
    """Mean reward after training by partner and variant, with the range over seeds."""
    runs = result["runs"]
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    parts = []
    for what, words in (
        ("after", "reward per turn after training, mean (least to greatest of the seeds)"),
        ("during", "reward per turn over all training games, the same"),
    ):
        rows = []
        for partner in dict.fromkeys(run["partner"] for run in runs):
            cells = [_cell([r for r in runs if r["partner"] == partner], v, what) for v in variants]
            best = {r["best"] for r in runs if r["partner"] == partner}
            before = [r["before"] for r in runs if r["partner"] == partner]
            rows.append(
                (partner, f"{math.fsum(before) / len(before):.3f}", *cells, f"{max(best):.3f}")
            )
        headers = ("partner", "before", *variants, "partner known")
        parts += [f"**{words}**", records.table(headers, rows)]
    unread = max(run["unread"] for run in runs)
    parts.append(
        f"{result['rounds']} rounds of {result['games']} games of {result['turns']} turns each; "
        f"{result['cpu_seconds']:.0f} CPU seconds in all; at most {unread:.1%} of a run's answers "
        "could not be read. Last column: the most that can be earned by whoever knows the partner, "
        "noise left out."
    )
    return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=24)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    result = measure(asked.seeds, asked.rounds)
    records.keep("our_method_llm", result, markdown(result), asked)
    return 0


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
    run = assemble(yaml_file.from_tree({}, {**settings, f"seats.{PARTNER_SEAT}": named}))
    if partner == MIXTURE:
        game = run.make_env()
        drawn = DrawnPartner([classic_policy(name, game) for name in PARTNERS])
        run.policies = {**run.policies, PARTNER_SEAT: drawn}
    before, _ = evaluate(run, games)
    during = []
    for number in range(run.config.rounds):
        episodes = run_round(run, number).episodes
        steps = [step for episode in episodes for step in episode.steps_of(MODEL_SEAT)]
        during.append(math.fsum(step.reward for step in steps) / len(steps))
        run.next_round = number + 1
    after, _ = evaluate(run, games)
    return {
        "before": before["per_model"]["model_0"],
        "after": after["per_model"]["model_0"],
        "during": math.fsum(during) / len(during),
        "by_round": during,
        "unread": max(before["parse_failures"], after["parse_failures"]),
        "best": best_value(run.make_env(), partner),
    }


def _cell(runs: Sequence[Mapping[str, Any]], variant: str, what: str) -> str:
    values = [run[what] for run in runs if run["variant"] == variant]
    mean = math.fsum(values) / len(values)
    return f"{mean:.3f} ({min(values):.3f} to {max(values):.3f})"


if __name__ == "__main__":
    raise SystemExit(main())
