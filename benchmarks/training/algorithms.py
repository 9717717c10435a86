"""GRPO, PPO, a leave-one-out baseline and SFT before GRPO, on three games of the embedded model.

python -m benchmarks.training.algorithms GAME [--seeds 0 1 2] [--figure FILE.png]

GAME is coop_compete, team_battle or maze: the configuration of examples/, in which only the
algorithm differs. The same unseen games are played before and after. Exit code 1 if a target is
missed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import transformers

from benchmarks.training import records
from benchmarks.training.records import Check
from srl_train.config import yaml_file
from srl_train.engine.evaluation import evaluate
from srl_train.engine.state import Run
from srl_train.metrics.report import plots
from srl_train.metrics.report.document import Line, Panel
from srl_train.trainer import MultiModelTrainer

GAMES: Mapping[str, str] = {
    "coop_compete": "demo.yaml",
    "team_battle": "team_battle.yaml",
    "maze": "maze.yaml",
}
"""Game -> its configuration in examples/."""
_OWN_SECTION = {"grpo": {"schedule": "linear"}}  # what only GRPO reads would be refused
ALGORITHMS: Mapping[str, Mapping[str, Any]] = {
    "GRPO": {},
    "PPO": {"algorithm": "ppo", "grpo": {}, "ppo": {"schedule": "linear"}},
    "leave one out (RLOO)": {**_OWN_SECTION, "credit.name": "leave_one_out"},
    "SFT, then GRPO": {
        "sft": {"players": "models", "episodes": 256, "top_share": 0.25, "epochs": 2,
                "learning_rate": 1e-3},
    },
}  # fmt: skip
"""Name -> the settings that make it."""
GAMES_PLAYED = 128
SHORTFALL = 0.05  # that PPO may end below GRPO, as a share of GRPO's mean final return


def measure(
    game: str,
    seeds: Sequence[int],
    folder: Path,
    overrides: Mapping[str, Any] | None = None,
    algorithms: Mapping[str, Mapping[str, Any]] = ALGORITHMS,
    games: int = GAMES_PLAYED,
) -> dict[str, Any]:
    """{"game": ..., "runs": [one mapping per algorithm and seed]}; returns per seat and game."""
    config = records.ROOT / "examples" / GAMES[game]
    runs = []
    for seed in seeds:
        for name, own in algorithms.items():
            settings = {
                **own, **(overrides or {}), "seed": seed, "logging.evaluation_episodes": 0,
                "checkpoints.every": 0,
            }  # fmt: skip
            out = folder / f"{name.split()[0].strip(',').lower()}_{seed}"
            trainer = MultiModelTrainer(yaml_file.load(config, settings), out)
            before = mean_return(trainer.run, games)
            began = time.process_time()
            results = trainer.fit()
            spent = time.process_time() - began
            shares = results["training_metrics"]["total_rewards"]
            runs.append({
                "algorithm": name,
                "seed": seed,
                "before": before,
                "after": mean_return(trainer.run, games),
                "rewards": shares,
                "cpu_seconds": spent,
            })  # fmt: skip
    return {"game": game, "runs": runs}


def mean_return(run: Run, games: int) -> float:
    """Mean raw return per seat in `games` games that no round plays."""
    _, played = evaluate(run, games)
    totals = [total for e in played if e.failure is None for total in e.returns().values()]
    return sum(totals) / len(totals)


def checks(result: Mapping[str, Any]) -> list[Check]:
    """Everyone learns, and PPO keeps up with GRPO."""
    found = []
    for name in algorithms_of(result):
        gains = [run["after"] - run["before"] for run in _of(result, name)]
        found.append(Check(f"{name} learns on every seed", min(gains) > 0,
                           f"the return rises by {records.spread(gains)}"))  # fmt: skip
    if {"GRPO", "PPO"} <= set(algorithms_of(result)):
        ours, theirs = ([run["after"] for run in _of(result, name)] for name in ("PPO", "GRPO"))
        kept_up = [
            own >= other - SHORTFALL * abs(other) for own, other in zip(ours, theirs, strict=True)
        ]
        found.append(
            Check(
                f"PPO ends at most {SHORTFALL:.0%} below GRPO, on every seed",
                all(kept_up),
                f"{records.spread(ours)} and {records.spread(theirs)}",
            )
        )
    return found


def algorithms_of(result: Mapping[str, Any]) -> list[str]:
    """In the order in which they were run."""
    return list(dict.fromkeys(run["algorithm"] for run in result["runs"]))


def markdown(result: Mapping[str, Any]) -> str:
    """One row per algorithm; mean and range over the seeds."""
    rows = []
    for name in algorithms_of(result):
        runs = _of(result, name)
        halves = [run["rewards"][len(run["rewards"]) // 2] for run in runs]
        rows.append((
            name,
            *(mean_and_range([run[key] for run in runs], 3) for key in ("before", "after")),
            mean_and_range(halves, 3),
            mean_and_range([run["cpu_seconds"] for run in runs], 0),
        ))  # fmt: skip
    headers = ("algorithm", "return before", "return after", "reward a turn, half way", "CPU-s")
    seeds = sorted({run["seed"] for run in result["runs"]})
    return (
        f"{records.table(headers, rows)}\n\n"
        f"{result['game']}, seeds {', '.join(map(str, seeds))}: mean (least to greatest). Returns "
        f"are raw, per seat and game, in {GAMES_PLAYED} games that no round plays. CPU-seconds are "
        "those of the whole training, SFT's games included, with its evaluations left out.\n\n"
        f"{records.listed(checks(result))}"
    )


def figure(result: Mapping[str, Any], path: Path) -> Path:
    """Reward per seat and turn over the rounds, the mean of the seeds, as a PNG file."""
    lines = []
    for name in algorithms_of(result):
        rewards = [run["rewards"] for run in _of(result, name)]
        means = [sum(column) / len(column) for column in zip(*rewards, strict=True)]
        lines.append(Line(name, range(len(means)), means))
    panel = Panel(f"{result['game']}: reward per seat and turn", lines)
    return plots.save_png([panel], path, columns=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("game", choices=list(GAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--figure", type=Path, metavar="FILE.png", help="also draw the curves")
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="algorithms-") as temporary:
        result = measure(
            asked.game,
            asked.seeds,
            Path(temporary),
            overrides=records.settings_of(asked.overrides),
        )
    if asked.figure is not None:
        figure(result, asked.figure)
    records.keep(f"algorithms_{asked.game}", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _of(result: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [run for run in result["runs"] if run["algorithm"] == name]


def mean_and_range(values: Sequence[float], digits: int) -> str:
    """'mean (least to greatest)'."""
    mean = sum(values) / len(values)
    return f"{mean:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    raise SystemExit(main())
