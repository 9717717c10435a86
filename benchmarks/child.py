"""Training run that `benchmarks.costs` measures in a separate process.

python -m benchmarks.child SETTINGS

SETTINGS is JSON, and the last line of output is the result as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from srl_train.config import yaml_file
from srl_train.trainer import Trainer


def round_seconds(settings: Mapping[str, Any]) -> dict[str, list[float]]:
    """Train a run with these settings; return its seconds by round, without the first round.

    The keys are "round" (the whole), "rollout" and "train".
    """
    with tempfile.TemporaryDirectory(prefix="round-seconds-") as folder:
        config = yaml_file.from_tree({}, settings)
        trainer = Trainer(config, folder, record_metrics=False)
        rows = [trainer.train_round().row["seconds"] for _ in range(config.rounds)][1:]
    parts = {part: [row[part] for row in rows] for part in ("rollout", "train")}
    return {"round": [sum(row.values()) for row in rows], **parts}


if __name__ == "__main__":
    print(json.dumps(round_seconds(json.loads(sys.argv[1]))))
