"""Training run that `benchmarks.costs` measures in a separate process.

python -m benchmarks.child SETTINGS

SETTINGS is JSON, and the last line of output is the result as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from srl_train.config import yaml_file
from srl_train.round import learn_round, plan_round, play
from srl_train.trainer import Trainer


def round_seconds(settings: Mapping[str, Any]) -> list[tuple[float, float]]:
    """Train a run with these settings; return the CPU-seconds of all rounds but the first.

    A round has two numbers, for its episodes and for the updates of the models.
    """
    rounds = []
    with tempfile.TemporaryDirectory(prefix="round-seconds-") as folder:
        config = yaml_file.from_tree({}, settings)
        run = Trainer(config, folder, record_metrics=False).run
        for number in range(config.rounds):
            began = time.process_time()
            episodes = play(run, plan_round(run, number))
            played = time.process_time()
            learn_round(run, number, episodes, played - began)
            rounds.append((played - began, time.process_time() - played))
    return rounds[1:]


if __name__ == "__main__":
    print(json.dumps(round_seconds(json.loads(sys.argv[1]))))
