"""Training with this library in a game of `benchmarks.peer_sides.games`."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch

from benchmarks.peer_sides import games
from benchmarks.peer_sides.words import Rounds, report
from srl_train.config import yaml_file
from srl_train.trainer import Trainer


def train(given: Mapping[str, Any]) -> None:
    """Train and report.

    `given` has `game` (name of the constructor), `base` (model folder), `rounds`, `rate` (learning
    rate), `seed` and `settings` (of this side, by dotted name).
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
        **given["settings"],
    })  # fmt: skip
    rounds, make_env = Rounds(), getattr(games, given["game"])
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        trainer = Trainer(config, folder, make_env=make_env, record_metrics=False)
        for _ in range(config.rounds):
            episodes = trainer.train_round().episodes
            turns = len(episodes[0].turns)
            steps = chain.from_iterable(turn for episode in episodes for turn in episode.turns)
            sampled = (step.decision.tokens for step in steps)
            rounds.tokens += sum(len(found.completion_ids) for found in sampled if found)
            total = sum(episode.returns()["agent_0"] for episode in episodes)
            rounds.end(total / turns / len(episodes))
    updates = config.algorithm.num_iterations * config.algorithm.minibatches
    report(rounds, updates, config.rollout.episodes * turns * config.models.count)


if __name__ == "__main__":
    train(json.loads(sys.argv[1]))
