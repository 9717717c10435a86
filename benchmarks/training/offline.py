"""What models earn that learned from recorded games alone, against what was earned in these.

python -m benchmarks.training.offline [--games coop_compete team_battle maze] [--seeds 0 1 2]

The models as they start play the games that are learned from: by imitation of the best quarter
(SFT), or from better and worse answers to the same situation (DPO). Nobody learns by playing. The
same unseen games are played before and after. Exit code 1 if a target is missed.
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
from benchmarks.training.algorithms import GAMES, GAMES_PLAYED, mean_and_range, mean_return
from benchmarks.training.records import Check
from srl_agents.episode import read_jsonl
from srl_train.config import yaml_file
from srl_train.trainer import MultiModelTrainer

STAGES: Mapping[str, Mapping[str, Any]] = {
    "SFT": {
        "sft": {"players": "models", "episodes": 256, "top_share": 0.25, "epochs": 4,
                "learning_rate": 1e-3},
    },
    "DPO": {"dpo": {"episodes": 256, "epochs": 4, "learning_rate": 1e-3}},
}  # fmt: skip
"""Name -> the settings that make it."""


def measure(
    games: Sequence[str],
    seeds: Sequence[int],
    folder: Path,
    overrides: Mapping[str, Any] | None = None,
    stages: Mapping[str, Mapping[str, Any]] = STAGES,
    games_played: int = GAMES_PLAYED,
) -> dict[str, Any]:
    """{"runs": [one mapping per game, stage and seed]}; returns per seat and game."""
    runs = []
    for game in games:
        for name, own in stages.items():
            for seed in seeds:
                settings = {
                    **own, **(overrides or {}), "seed": seed, "rounds": 0,
                    "logging.evaluation_episodes": 0, "checkpoints.every": 0,
                }  # fmt: skip
                config = yaml_file.load(records.ROOT / "examples" / GAMES[game], settings)
                out = folder / f"{game}_{name.lower()}_{seed}"
                trainer = MultiModelTrainer(config, out)
                before = mean_return(trainer.run, games_played)
                began = time.process_time()
                trainer.fit()
                spent = time.process_time() - began
                [data] = (out / "data").glob("*.jsonl")
                totals = [t for episode in read_jsonl(data) for t in episode.returns().values()]
                runs.append({
                    "game": game,
                    "stage": name,
                    "seed": seed,
                    "before": before,
                    "data": sum(totals) / len(totals),
                    "after": mean_return(trainer.run, games_played),
                    "cpu_seconds": spent,
                })  # fmt: skip
    return {"runs": runs}


def checks(result: Mapping[str, Any]) -> list[Check]:
    """Every stage ends above its data's mean, on every seed."""
    found = []
    for (game, stage), runs in _groups(result).items():
        gains = [run["after"] - run["data"] for run in runs]
        found.append(
            Check(
                f"{game}: after {stage} the return is above its data's mean, on every seed",
                min(gains) > 0,
                f"by {records.spread(gains)}",
            )
        )
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """One row per game and stage; mean and range over the seeds."""
    rows = [
        (
            f"{game}, {stage}",
            *(mean_and_range([run[key] for run in runs], 3) for key in ("before", "data", "after")),
            mean_and_range([run["cpu_seconds"] for run in runs], 0),
        )
        for (game, stage), runs in _groups(result).items()
    ]
    headers = ("learned from games of", "return before", "in the data", "after", "CPU-s")
    seeds = sorted({run["seed"] for run in result["runs"]})
    return (
        f"{records.table(headers, rows)}\n\n"
        f"Seeds {', '.join(map(str, seeds))}: mean (least to greatest). Returns are raw, per seat "
        f"and game; before and after in {GAMES_PLAYED} games that are not learned from. CPU-"
        "seconds are those of playing the games and learning from them.\n\n"
        f"{records.listed(checks(result))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--games", nargs="+", choices=list(GAMES), default=list(GAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    records.add_overrides(parser)
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory(prefix="offline-") as temporary:
        result = measure(
            asked.games,
            asked.seeds,
            Path(temporary),
            overrides=records.settings_of(asked.overrides),
        )
    records.keep("offline", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


def _groups(result: Mapping[str, Any]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in result["runs"]:
        found.setdefault((run["game"], run["stage"]), []).append(run)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
