"""Seconds of every round but the first of the run that the argument configures, as JSON.

A process of its own for benchmarks.training.scaling.
"""

from __future__ import annotations

import json
import sys
import tempfile

import transformers

from srl_train.config import yaml_file
from srl_train.trainer import MultiModelTrainer


def main() -> int:
    """Train, and print the seconds."""
    transformers.utils.logging.disable_progress_bar()
    settings = json.loads(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="round-seconds-") as folder:
        trainer = MultiModelTrainer(
            yaml_file.from_tree({}, settings), folder, record_metrics=False
        )
        rows = [trainer.train_round().row["seconds"] for _ in range(settings["rounds"])][1:]
    parts = {part: [row[part] for row in rows] for part in ("rollout", "train")}
    whole = [sum(row.values()) for row in rows]
    print(json.dumps({"round": whole, **parts}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
