"""Two models of this library in the common-payoff game; see `benchmarks.peers`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch

from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import GROUP, NODES, TURNS, Rounds, report
from srl_train.config import yaml_file
from srl_train.trainer import Trainer


def train(
    given: Mapping[str, Any], settings: Mapping[str, Any], make_env: Callable[[], Any], turns: int
) -> None:
    """Train and report.

    Args:
        given: `base` (model folder), `rounds`, `rate` (learning rate), `seed` and, optionally,
            `settings` of this side.
        settings: Settings of the comparison, by dotted name.
        make_env: Constructor of the game.
        turns: Number of steps per episode.
    """
    torch.set_num_threads(1)
    config = yaml_file.from_tree({}, {
        "environment.name": "coop_compete_v0",
        "algorithm.learning_rate": given["rate"],
        "mode.name": "raw",
        "models.base": given["base"],
        "models.sampling.max_new_tokens": 4,
        "rounds": given["rounds"],
        "seed": given["seed"],
        "logging.evaluation_episodes": 0,
        "checkpoints.every": 0,
        **settings,
        **given.get("settings", {}),
    })  # fmt: skip
    rounds = Rounds()
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        trainer = Trainer(config, folder, make_env=make_env, record_metrics=False)
        for _ in range(config.rounds):
            episodes = trainer.train_round().episodes
            total = sum(episode.returns()["agent_0"] for episode in episodes)
            rounds.end(total / turns / len(episodes))
    steps = config.algorithm.num_iterations * config.algorithm.minibatches
    report(rounds, steps, config.rollout.episodes * turns * config.models.count)


def main(given: Mapping[str, Any]) -> None:
    """Train two models on as many answers as MAGRPO's tree has."""
    settings = {
        "models.count": 2,
        "rollout.group_size": GROUP,
        "rollout.groups_per_round": NODES // TURNS,
    }
    train(given, settings, games.Team, TURNS)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
