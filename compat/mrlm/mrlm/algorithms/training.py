"""Training of one model by a run of Core SRL: rounds, evaluations between them, and the result."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mrlm.config.experiment import ExperimentConfig
from srl_train.config.run import RunConfig
from srl_train.distributed import processes
from srl_train.engine.run_files import RunFiles
from srl_train.metrics import Sink
from srl_train.trainer import Trainer

log = logging.getLogger("mrlm")

FINAL = "final"
"""In the run's folder: the trained model, as transformers and `mrlm eval` load it."""


class Place(RunFiles):
    """Where a run is written."""

    @classmethod
    def of(cls, config: ExperimentConfig, algorithm: str) -> Place:
        """As the experiment says."""
        named = config.output_dir or config.output.save_dir or f"outputs/{algorithm}"
        folder = Path(named)
        given = config.training.checkpoint_dir
        return cls(folder, folder / "checkpoints" if given is None else Path(given))

    def cleared(self) -> None:
        """Move a run that lies there beside it, and say so."""
        if not processes.is_main():
            return
        moved = self.set_aside()
        if moved is not None:
            log.warning("%s held a run, which is in %s now", self.folder, moved)


def train(
    config: RunConfig,
    place: Place,
    *,
    evaluate_every: int,
    make_env: Callable[[], Any] | None = None,
    models: Mapping[str, tuple[Any, Any]] | None = None,
    sinks: tuple[Sink, ...] = (),
    resume: str | None = None,
) -> dict[str, Any]:
    """Train to the end, from the checkpoint `resume` where one is given.

    Returns what Trainer.fit does; `evaluation` also has round_<n>, every `evaluate_every` rounds
    (0: none). The trained model is in place.folder/final.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads cost more than they save
    with Trainer(
        config,
        place.folder,
        make_env=make_env,
        models=models,
        sinks=sinks,
        checkpoint_dir=place.checkpoints,
    ) as trainer:
        if resume is not None:
            trainer.load_checkpoint(resume)
        while trainer.run.next_round < config.rounds:
            trainer.train_round()
            done = trainer.run.next_round
            if evaluate_every and not done % evaluate_every and done < config.rounds:
                trainer.evaluate(f"round_{done}")
        results = trainer.fit()
    if processes.is_main():
        _link(place.folder / FINAL, Path("models", "model_0"))
    return results


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target, target_is_directory=True)
