"""How many games each credit assignment needs where one act alone matters, and what advantage
alignment does in a dilemma.

The key game (`key_game.py`): sixteen agents, eight turns, and one act of one agent that pays; all
else is weather. Tabular softmax learners (`tabular.py`) count the games; the embedded model
then finds the key through the trainer itself. The dilemma is the iterated prisoner's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.credit.key_game import (
    AGENTS,
    COLOUR,
    COLOURS,
    HOLDER,
    TURNS,
    WEATHER,
    WHEN,
    KeyGame,
)
from benchmarks.training.credit.tabular import (
    DILEMMA_TURNS,
    GROUP,
    KEPT,
    dilemma,
    games_until_found,
)
from benchmarks.training.runs import assembled, rounds_of
from srl_agents.episode import Episode
from srl_train.credit import (
    AlignmentCredit,
    CounterfactualCredit,
    CreditConfig,
    PlainCredit,
    ScaledCredit,
)
from srl_train.evaluation import evaluate

KEY_CREDIT: Mapping[str, CreditConfig | None] = {
    "per_agent": PlainCredit(),
    "agent_turn": ScaledCredit(name="agent_turn"),
    "team_joint": ScaledCredit(name="team_joint"),
    "difference": ScaledCredit(name="difference"),
    "counterfactual": CounterfactualCredit(alternatives=len(COLOURS) - 1),
    "branching": None,
}
REPLAY = AGENTS * TURNS * (TURNS + 1) // 2  # steps from every act of a game to its end
STEPS = {
    **dict.fromkeys(KEY_CREDIT, TURNS),
    "difference": TURNS + REPLAY,
    "counterfactual": TURNS + (len(COLOURS) - 1) * REPLAY,
    # One game of GROUP answers: its turns, and the branches of each.
    "branching": TURNS * (1 + 1 + AGENTS * (GROUP - 1)) / GROUP,
}
"""Environment steps of a game at most, replays and branches counted."""
RATES = (0.3, 1.0, 3.0)
LEARNERS = 15  # per seed and rate, of which the median counts
MOST = 12_000  # games after which a learner is given up
DILEMMA_CREDIT: Mapping[str, CreditConfig] = {
    "agent_turn": ScaledCredit(name="agent_turn"),
    "advantage_alignment": AlignmentCredit(alignment=1.0),
}
DILEMMA_RATE, DILEMMA_UPDATES = 0.1, 400
# The other agents are held by a scripted policy: the embedded model plays where the key is.
TINY: Mapping[str, Any] = {
    **{f"seats.agent_{agent}": "uniform" for agent in range(AGENTS) if agent != HOLDER},
    "models.count": 1,
    "mode.name": "cooperative",
    "mode.cooperation_strength": 0.0,
    "rollout.group_size": 16,
    "rollout.groups_per_round": 2,
    "rounds": 10,
}
TINY_CREDIT: Mapping[str, Mapping[str, Any]] = {
    "agent_turn": {"credit.name": "agent_turn"},
    "difference": {"credit.name": "difference"},
    "counterfactual": {"credit.name": "counterfactual"},
    "branching": {"preset": "at_grpo"},
}


def measure(request: Request) -> Result:
    """The rows of all three parts; the model is trained on the first seed alone."""
    models = [
        {"credit": name}
        | with_the_model({**TINY, **own, **request.overrides, "seed": request.seeds[0]})
        for name, own in TINY_CREDIT.items()
    ]
    return Result([*key_games(request.seeds), *dilemmas(request.seeds), *models])


def key_games(seeds: Sequence[int]) -> list[dict[str, Any]]:
    """One row per seed and rate: the median of games until the key is found, by credit."""
    rows = []
    for seed in seeds:
        for rate in RATES:
            medians = {}
            for name, credit in KEY_CREDIT.items():
                games = [
                    games_until_found(credit, rate, seed * LEARNERS + index, MOST)
                    for index in range(LEARNERS)
                ]
                ordered = sorted(math.inf if one is None else one for one in games)
                medians[name] = ordered[LEARNERS // 2]
            times = {f"times_{name}": medians["team_joint"] / own for name, own in medians.items()}
            fewer = {f"fewer_{name}": medians["agent_turn"] / own for name, own in medians.items()}
            steps = {f"steps_{name}": STEPS[name] * own for name, own in medians.items()}
            rows.append(
                {"part": "key", "seed": seed, "rate": rate, **medians, **times, **fewer, **steps}
            )
    return rows


def dilemmas(seeds: Sequence[int], updates: int = DILEMMA_UPDATES) -> list[dict[str, Any]]:
    """One row per credit and seed: cooperation and reward in the last tenth of the updates."""
    rows: list[dict[str, Any]] = []
    plain: dict[int, float] = {}
    for name, credit in DILEMMA_CREDIT.items():
        for seed in seeds:
            found = dilemma(credit, DILEMMA_RATE, seed, updates)
            more = found["cooperation"] - plain.setdefault(seed, found["cooperation"])
            rows.append({"part": "dilemma", "credit": name, "seed": seed, **found, "more": more})
    return rows


def with_the_model(settings: Mapping[str, Any]) -> dict[str, Any]:
    """One run of the embedded model: how often it opens, before and after."""
    began = time.process_time()
    with assembled(settings, KeyGame) as run:
        _, before = evaluate(run, 64)
        rounds, rollout = run.config.rounds, run.config.rollout
        steps = rounds * rollout.episodes * TURNS
        steps += sum(result.row.get("replayed_steps", 0) for result in rounds_of(run))
        _, after = evaluate(run, 64)
    return {
        "part": "model",
        "seed": run.config.seed,
        "answers": rounds * rollout.groups_per_round * rollout.group_size * TURNS,
        "steps": steps,
        "before": opened(before),
        "after": opened(after),
        "cpu_seconds": time.process_time() - began,
    }


def opened(episodes: Sequence[Episode]) -> float:
    """Share of the games in which the key turned."""
    acts = [int(one.steps_of(f"agent_{HOLDER}")[WHEN].decision.action) for one in episodes]
    return acts.count(COLOUR) / len(acts)


def _fewer(name: str) -> Target:
    return Target(
        f"{name} finds the act in at least 3x fewer games than team_joint, at every rate on every "
        "seed",
        f"times_{name}", ">=", 3.0, "{:.1f}x", {"part": "key"},
    )  # fmt: skip


CREDIT = Claim(
    measure,
    tables=[
        Table(
            {
                "seed": "{seed}",
                "rate": "{rate:g}",
                **{name: f"{{{name}:g}}" for name in KEY_CREDIT},
                "team_joint / per_agent": "{times_per_agent:.1f}x",
                "team_joint / agent_turn": "{times_agent_turn:.1f}x",
            },
            f"**The key game**, {AGENTS} agents, {TURNS} turns, weather of deviation {WEATHER:g} "
            f"at every turn of every agent: games until the key is found (90 %, lasting {KEPT} "
            f"updates), median of {LEARNERS} tabular learners per seed and learning rate, groups "
            f"of {GROUP}; a branching game of {GROUP} answers to every situation counts as {GROUP}",
            {"part": "key"},
        ),
        Table(
            {
                "seed": "{seed}",
                "rate": "{rate:g}",
                **{name: f"{{steps_{name}:,.0f}}" for name in KEY_CREDIT},
            },
            "The same in environment steps at most, replays and branches counted (an act that is "
            "the default has no replay)",
            {"part": "key"},
        ),
        Table(
            {
                "credit": "{credit}",
                "seed": "{seed}",
                "cooperation": "{cooperation:.1%}",
                "reward per turn": "{reward:.3f}",
            },
            f"**The iterated prisoner's dilemma**, {DILEMMA_TURNS} turns, two tabular learners "
            f"that see the last turn, {DILEMMA_UPDATES} updates: the last tenth of them",
            {"part": "dilemma"},
        ),
        Table(
            {
                "credit": "{credit}",
                "seed": "{seed}",
                "answers": "{answers}",
                "environment steps": "{steps}",
                "opens before": "{before:.0%}",
                "after": "{after:.0%}",
                "CPU-s": "{cpu_seconds:.0f}",
            },
            "**The key game, the embedded model through the trainer**",
            {"part": "model"},
        ),
    ],
    targets=[
        _fewer("per_agent"),
        _fewer("agent_turn"),
        *(
            Target(
                f"{name} finds the act in at least {least:g}x fewer games than agent_turn, at "
                "every rate on every seed",
                f"fewer_{name}", ">=", least, "{:.1f}x", {"part": "key"},
            )
            for name, least in (("difference", 3.0), ("counterfactual", 3.0), ("branching", 1.5))
        ),
        Target(
            "advantage alignment cooperates more in the dilemma, on every seed",
            "more", ">", 0.25, "by {:.0%}", {"part": "dilemma", "credit": "advantage_alignment"},
        ),
        Target(
            "at first the embedded model opens less than twice as often as by chance",
            "before", "<", 2 / len(COLOURS), "{:.0%} of its games", {"part": "model"},
        ),
        Target(
            "it finds the key through the trainer",
            "after", ">=", 0.9, "opens {:.0%} of its games", {"part": "model"},
        ),
    ],
)  # fmt: skip
