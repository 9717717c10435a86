"""Training run that `benchmarks.costs` measures in a separate process.

python -m benchmarks.child SETTINGS

SETTINGS is JSON, and the last line of output is the result as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from srl_train.config import yaml_file
from srl_train.trainer import Trainer


def round_seconds(settings: Mapping[str, Any]) -> list[float]:
    """Train a run with these settings; return its CPU-seconds by round, without the first round."""
    with tempfile.TemporaryDirectory(prefix="round-seconds-") as folder:
        config = yaml_file.from_tree({}, settings)
        trainer = Trainer(config, folder, record_metrics=False)
        ends = []
        for _ in range(config.rounds):
            trainer.train_round()
            ends.append(time.process_time())
    return [end - began for began, end in itertools.pairwise(ends)]


if __name__ == "__main__":
    print(json.dumps(round_seconds(json.loads(sys.argv[1]))))
