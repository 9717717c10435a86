"""python -m benchmarks.training.population: cross-play of four seeds of two algorithms."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srl_train import cli
from srl_train.config.yaml_file import from_tree
from srl_train.trainer import Trainer

ALGORITHMS = ("grpo", "ppo")
SEEDS = range(4)
TRAINED_IN = {
    "name": "team_battle_v0",
    "options": {"team_size": 2, "max_cycles": 6, "warmup_episodes": 0},
}
MET_IN = (
    *("--environment", "team_battle_v0"),
    *("--set", "team_battle_v0.team_size=2", "--set", "team_battle_v0.max_cycles=6"),
    *("--environment", "social_negotiation_v0", "--set", "social_negotiation_v0.max_cycles=4"),
    *("--environment", "maze_meet_v0", "--set", "maze_meet_v0.width=5"),
    *("--set", "maze_meet_v0.height=5", "--set", "maze_meet_v0.max_cycles=10"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train whoever is not there yet, then let all meet; the exit code of `srl crossplay`."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training.population", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=Path("runs/population"), metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=10, help="of training (default: 10)")
    parser.add_argument("--episodes", type=int, default=4, help="starts per pair (default: 4)")
    args = parser.parse_args(arguments)
    began = time.perf_counter()
    players = []
    for algorithm in ALGORITHMS:
        for seed in SEEDS:
            folder = args.out / f"{algorithm}_{seed}"
            players.append(f"{algorithm}={folder}")
            if not (folder / "models").is_dir():
                Trainer(from_tree(_training(algorithm, seed, args.rounds)), folder).fit()
    print(f"trained after {time.perf_counter() - began:.0f} s")
    began = time.perf_counter()
    met = args.out / "met"
    if met.exists():
        shutil.rmtree(met)  # of an earlier call: all meet anew
    words = [*players, *MET_IN, "--episodes", str(args.episodes), "--out", str(met)]
    code = cli.main(["crossplay", *words])
    print(f"cross-play took {time.perf_counter() - began:.0f} s")
    return code


def _training(algorithm: str, seed: int, rounds: int) -> dict[str, Any]:
    return {
        "environment": TRAINED_IN,
        "models": {"count": 1, "base": "tiny", "constrained": True},
        "mode": {"name": "cooperative", "cooperation_strength": 1.0},
        "rollout": {"group_size": 8, "groups_per_round": 1},
        "algorithm": {"name": algorithm},
        "logging": {"evaluation_episodes": 16, "episodes": 0},
        "checkpoints": {"every": 0},
        "rounds": rounds,
        "seed": seed,
    }


if __name__ == "__main__":
    raise SystemExit(main())
