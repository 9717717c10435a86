"""Where selfish and cooperative training end in team_battle: examples/team_battle.yaml, every mode.

python -m benchmarks.training.team_battle [--seeds 0 1 2] [--out FOLDER]

FOLDER gets one run per mode and seed and, per seed, comparison_SEED.html: the report that shows
them side by side. Exit code 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks.training import records
from benchmarks.training.records import Check
from srl_agents.episode import Episode
from srl_agents.episode_stats import winner
from srl_envs.games.team_battle.payoffs import TeamBattleRules
from srl_train.config import yaml_file
from srl_train.engine.evaluation import evaluate
from srl_train.metrics.report.comparison import compare
from srl_train.trainer import MultiModelTrainer

CONFIG = records.ROOT / "examples" / "team_battle.yaml"
SELFISH = "competitive, no rank bonus"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "cooperative": {"mode.name": "cooperative", "mode.cooperation_strength": 1.0},
    "competitive": {"mode": {"name": "competitive"}},
    "mixed": {"mode.name": "mixed"},
    "hierarchical": {"mode.name": "hierarchical"},
    # Each seat is paid what it earns: the game whose equilibrium the payoffs tell.
    SELFISH: {"mode": {"name": "competitive", "competition_intensity": 0.0}},
}
LEAST = 0.80  # raw reward per agent in cooperative mode


def measure(
    seeds: Sequence[int],
    folder: Path,
    config: Path = CONFIG,
    overrides: Mapping[str, Any] | None = None,
    variants: Mapping[str, Mapping[str, Any]] = VARIANTS,
) -> dict[str, Any]:
    """{"reference": what the rules say, "runs": [one mapping per variant and seed]}."""
    runs = []
    reference: dict[str, Any] = {}
    for seed in seeds:
        folders = []
        for name, own in variants.items():
            out = folder / f"{name.replace(', ', '_').replace(' ', '_')}_{seed}"
            loaded = yaml_file.load(config, {**(overrides or {}), **own, "seed": seed})
            reference = reference or known_values(loaded.environment.options)
            trainer = MultiModelTrainer(loaded, out)
            trainer.fit()
            # Once more the games that fit() ended with, for what its summary does not keep.
            games = loaded.logging.evaluation_episodes
            measured, played = evaluate(trainer.run, games)
            runs.append({"variant": name, "seed": seed, **final(measured, played, trainer.run)})
            folders.append(out)
        compare(folders, folder / f"comparison_{seed}.html")
    return {"reference": reference, "runs": runs}


def known_values(options: Mapping[str, Any]) -> dict[str, float]:
    """Mean rewards per seat and turn, exact from the rules, noise left out."""
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


def final(measured: Mapping[str, Any], played: Sequence[Episode], run: Any) -> dict[str, Any]:
    """What the trained models do in the evaluation games."""
    good = [episode for episode in played if episode.failure is None]
    agents = {}
    for seat in run.seats:
        own = [step.reward for episode in good for step in episode.steps_of(seat)]
        agents[seat] = sum(own) / len(own)
    return {
        "raw_reward": measured["raw_reward"],
        "standard_error": measured["standard_error"],
        "cooperation_rate": measured["cooperation_rate"],
        "parse_failures": measured["parse_failures"],
        "agents": agents,
        "winners": dict(Counter(w for e in good if (w := winner(e)) is not None)),
        "training_seconds": run.seconds,
    }


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The targets, over all seeds."""
    cooperative = [run for run in result["runs"] if run["variant"] == "cooperative"]
    competitive = [run for run in result["runs"] if run["variant"] == "competitive"]
    worst = min(min(run["agents"].values()) for run in cooperative)
    distance = min(
        one["raw_reward"] - other["raw_reward"]
        for one, other in zip(cooperative, competitive, strict=True)
    )
    return [
        Check(
            f"in cooperative mode every agent earns at least {LEAST:.2f}",
            worst >= LEAST,
            f"the least {worst:.4f}",
        ),
        Check(
            "competitive mode ends elsewhere",
            distance > 0.05,
            f"at least {distance:.4f} per agent below cooperative mode",
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run, what the rules say, and the targets."""
    rows = [
        (
            run["variant"],
            run["seed"],
            f"{run['raw_reward']:.4f}"
            + ("" if run["standard_error"] is None else f" ± {run['standard_error']:.4f}"),
            f"{min(run['agents'].values()):.4f} to {max(run['agents'].values()):.4f}",
            f"{run['cooperation_rate']:.1%}",
            ", ".join(f"{who} {count}" for who, count in sorted(run["winners"].items())),
            f"{run['training_seconds']:.0f}",
        )
        for run in result["runs"]
    ]
    headers = (
        "mode", "seed", "raw reward per agent", "least to most of the agents", "cooperation",
        "winners", "training, s",
    )  # fmt: skip
    known = ", ".join(f"{name} {value:.4f}" for name, value in result["reference"].items())
    return (
        f"{records.table(headers, rows)}\n\nExact, from the rules: {known}.\n\n"
        f"{records.listed(checks(result))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="keep the runs and the comparison there")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="team-battle-") as temporary:
        result = measure(
            asked.seeds,
            asked.out or Path(temporary),
            overrides=records.settings_of(asked.overrides),
        )
    records.keep("team_battle", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
