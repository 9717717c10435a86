"""One configuration of examples/ in several variants: algorithms, learning from data, modes."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.training.claim import Claim, Curves, Request, Result, Table, Target
from benchmarks.training.runs import Settings, mean_return, options_of, trained
from srl_agents.episode import read_jsonl
from srl_agents.evaluation.episode_stats import winner
from srl_envs.games.team_battle import TeamBattleRules
from srl_extensions.pages.comparison import compare
from srl_train.evaluation import evaluate
from srl_train.run import Run

GAMES: Mapping[str, str] = {
    "coop_compete": "demo.yaml",
    "team_battle": "team_battle.yaml",
    "maze": "maze.yaml",
}
"""Game -> its configuration in examples/."""
UNSAVED: Settings = {"logging.evaluation_episodes": 0, "checkpoints.every": 0}
_OWN_SECTION: Settings = {"algorithm": {"schedule": "linear"}}  # RLOO does not scale rewards
ALGORITHMS: Mapping[str, Settings] = {
    "GRPO": {},
    "PPO": {"algorithm": {"name": "ppo", "schedule": "linear"}},
    "leave one out (RLOO)": {**_OWN_SECTION, "credit.name": "leave_one_out"},
    "SFT, then GRPO": {
        "sft": {"data_policy": "models", "episodes": 256, "top_fraction": 0.25, "epochs": 2,
                "learning_rate": 1e-3},
    },
}  # fmt: skip
"""Name -> the settings that make it; GRPO comes first, the others are compared with it."""
STAGES: Mapping[str, Settings] = {
    "SFT": {
        "sft": {"data_policy": "models", "episodes": 256, "top_fraction": 0.25, "epochs": 4,
                "learning_rate": 1e-3},
    },
    "DPO": {"dpo": {"episodes": 256, "epochs": 4, "learning_rate": 1e-3}},
}  # fmt: skip
SELFISH = "competitive, no rank bonus"
MODES: Mapping[str, Settings] = {
    "cooperative": {"mode.name": "cooperative", "mode.cooperation_strength": 1.0},
    "competitive": {"mode": {"name": "competitive"}},
    "mixed": {"mode.name": "mixed"},
    "hierarchical": {"mode.name": "hierarchical"},
    # Each agent is paid what it earns: the game whose equilibrium the payoffs tell.
    SELFISH: {"mode": {"name": "competitive", "competition_intensity": 0.0}},
}


def algorithms(
    request: Request, game: str, variants: Mapping[str, Settings] = ALGORITHMS
) -> Result:
    """One row per seed and algorithm."""
    rows: list[dict[str, Any]] = []
    theirs: dict[int, float] = {}
    exams = {"after": lambda run: mean_return(run, request.games)}
    for run in trained(request, GAMES[game], exams, variants, UNSAVED):
        after, curve = run["after"], run["curve"]
        reference = theirs.setdefault(run["seed"], after)
        rows.append({
            **run, "gain": after - run["before"], "half_way": curve[len(curve) // 2],
            "below_grpo": (reference - after) / abs(reference),
        })  # fmt: skip
    return Result(rows, facts={"game": game})


def offline(
    request: Request,
    games: Mapping[str, str] = GAMES,
    stages: Mapping[str, Settings] = STAGES,
) -> Result:
    """One row per game, stage and seed: nobody learns by playing."""
    rows: list[dict[str, Any]] = []
    exams = {"after": lambda run: mean_return(run, request.games)}
    for game, example in games.items():
        for run in trained(request, example, exams, stages, {**UNSAVED, "rounds": 0}):
            [recorded] = (Path(run["out"]) / "data").glob("*.jsonl")
            totals = [t for episode in read_jsonl(recorded) for t in episode.returns().values()]
            data = sum(totals) / len(totals)
            rows.append({**run, "game": game, "data": data, "gain": run["after"] - data})
    return Result(rows)


def team_battle(request: Request, variants: Mapping[str, Settings] = MODES) -> Result:
    """One row per seed and mode; comparison_SEED.html shows a seed's runs side by side."""
    example = GAMES["team_battle"]
    folders: dict[int, list[Path]] = {}
    cooperative: dict[int, float] = {}
    rows: list[dict[str, Any]] = []
    for run in trained(request, example, {"after": ends_of_games}, variants):
        after = run["after"]["raw_reward"]
        apart = cooperative.setdefault(run["seed"], after) - after
        folders.setdefault(run["seed"], []).append(Path(run["out"]))
        rows.append({**run, "below_cooperative": apart})
    for seed, own in folders.items():
        compare(own, request.folder / f"comparison_{seed}.html")
    known = known_values(options_of(request, example))
    said = ", ".join(f"{name} {value:.4f}" for name, value in known.items())
    return Result(rows, facts={"known": said})


def ends_of_games(run: Run) -> dict[str, Any]:
    """What the trained models do in the evaluation games."""
    measured, played = evaluate(run, run.config.logging.evaluation_episodes)
    good = [episode for episode in played if episode.failure is None]
    earned = []
    for agent in run.seats:
        own = [step.reward for episode in good for step in episode.steps_of(agent)]
        earned.append(sum(own) / len(own))
    winners = Counter(w for e in good if (w := winner(e)) is not None)
    return {
        "raw_reward": measured["raw_reward"],
        "standard_error": measured["standard_error"],
        "cooperation_rate": measured["cooperation_rate"],
        "least": min(earned),
        "most": max(earned),
        "winners": ", ".join(f"{who} {count}" for who, count in sorted(winners.items())),
    }


def known_values(options: Mapping[str, Any]) -> dict[str, float]:
    """Mean rewards per agent and turn, exact from the rules, noise left out."""
    size = options.get("team_size", 4)
    sizes = (size, size) if isinstance(size, int) else tuple(size)
    given = {k: options[k] for k in ("difficulty", "cooperation_weight") if k in options}
    rules = TeamBattleRules(sizes, **given)
    probability, value = rules.selfish_equilibrium()
    return {
        "all cooperate": rules.all_cooperate(),
        "all compete": rules.all_compete(),
        "uniform play": rules.uniform_value(),
        "selfish equilibrium": value,
        "selfish equilibrium, probability of cooperating": probability,
    }


def _algorithms(game: str) -> Claim:
    return Claim(
        functools.partial(algorithms, game=game),
        tables=[
            Table(
                {
                    "algorithm": "{variant}",
                    "return before": "{before:.3f}",
                    "return after": "{after:.3f}",
                    "reward a turn, half way": "{half_way:.3f}",
                    "CPU-s": "{training_cpu_seconds:.0f}",
                },
                over_seeds=("variant",),
            )
        ],
        targets=[
            Target("{variant} learns on every seed", "gain", ">", 0.0, "{:+.3f}"),
            Target(
                "PPO ends at most 5% below GRPO, on every seed",
                "below_grpo", "<=", 0.05, "{:.1%} below", {"variant": "PPO"},
            ),
        ],
        legend="{game}, seeds {seeds}: mean (least to greatest). Returns are raw, per agent and "
        "game, in {games} games that no round plays. CPU-seconds are those of the whole training, "
        "SFT's games included, with its evaluations left out.",
        games=128,
        writes_runs=True,
        figure=Curves(f"{game}: reward per agent and turn", by="variant"),
    )  # fmt: skip


ALGORITHMS_COOP_COMPETE, ALGORITHMS_TEAM_BATTLE, ALGORITHMS_MAZE = map(_algorithms, GAMES)
OFFLINE = Claim(
    offline,
    tables=[
        Table(
            {
                "learned from games of": "{game}, {variant}",
                "return before": "{before:.3f}",
                "in the data": "{data:.3f}",
                "after": "{after:.3f}",
                "CPU-s": "{training_cpu_seconds:.0f}",
            },
            over_seeds=("game", "variant"),
        )
    ],
    targets=[
        Target(
            "{game}: after {variant} the return is above its data's mean, on every seed",
            "gain", ">", 0.0, "{:+.3f}",
        )
    ],
    legend="Seeds {seeds}: mean (least to greatest). Returns are raw, per agent and game; before "
    "and after in {games} games that are not learned from. CPU-seconds are those of playing the "
    "games and learning from them.",
    games=128,
    writes_runs=True,
)  # fmt: skip
TEAM_BATTLE = Claim(
    team_battle,
    tables=[
        Table(
            {
                "mode": "{variant}",
                "seed": "{seed}",
                "raw reward per agent": "{after[raw_reward]:.4f} ± {after[standard_error]:.4f}",
                "least to most of the agents": "{after[least]:.4f} to {after[most]:.4f}",
                "cooperation": "{after[cooperation_rate]:.1%}",
                "winners": "{after[winners]}",
                "training, s": "{training_seconds:.0f}",
            }
        )
    ],
    targets=[
        Target(
            "in cooperative mode every agent earns at least 0.80",
            "after[least]", ">=", 0.80, "{:.4f}", {"variant": "cooperative"},
        ),
        Target(
            "competitive mode ends elsewhere",
            "below_cooperative", ">", 0.05,
            "{:.4f} per agent below cooperative mode", {"variant": "competitive"},
        ),
    ],
    legend="Exact, from the rules: {known}.",
    writes_runs=True,
)  # fmt: skip
