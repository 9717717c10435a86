"""Rows that a run passes to trackers, and a run that fails and is resumed."""

import time
from contextlib import suppress
from pathlib import Path

from srl_extensions.trackers.libraries import Opening
from srl_train.config.logging import LoggingConfig
from srl_train.errors import TrainingError
from srl_train.trainer import Trainer


def opening(folder: Path, step: int = 0, **logging) -> Opening:
    settings = {"seed": 3, "algorithm.name": "grpo", "models.constrained": True}
    return Opening(LoggingConfig(**logging), folder, "demo", settings, step)


def round_row(number: int, reward: float = 0.5) -> dict:
    return {
        "round": number,
        "seconds": {"rollout": 1.5, "train": 0.5},
        "mode": "mixed",
        "strategy": "asynchronous",
        "mode_state": {"balance": 0.25},
        "environment": {
            "name": "coop_compete_v0", "episodes": 4, "raw_reward": reward, "success": None,
            "winners": {"red 1": 2, "red/2": 1},
        },
        "by_environment": {"a maze": {"episodes": 4, "raw_reward": -1.0}},
        "by_agent": {"red 1": {"raw_reward": 0.25}, "red/2": {"raw_reward": 0.75}},
        "models": {
            "model_0": {
                "seats": ["red 1", "red/2"], "raw_reward": reward, "loss": float("nan"),
                "updated": True, "staleness": {"mean": 0.5, "max": 1},
                "stale_by_agent": {"red 1": 0, "red/2": 3},
                "never_asked_by_agent": {"red 1": 0, "red/2": 0},
            },
        },
    }  # fmt: skip


def stage_row(number: int) -> dict:
    own = {"samples": 3, "losses": [0.5, 0.25], "loss": 0.375, "rewards/chosen": 0.1}
    return {"round": number, "stage": "dpo", "pass": number, "seconds": 2.0,
            "models": {"model_0": own}}  # fmt: skip


EVALUATION = {
    "episodes": 3, "raw_reward": 0.5, "standard_error": None, "per_model": {"model_0": 0.5},
    "per_agent": {"red 1": 0.5}, "by_environment": {},
}  # fmt: skip


def cut_off(config, folder: Path, seconds: float = 0.0) -> None:
    """Run until an error in the third round, and resume from the second round after `seconds`."""
    trainer = Trainer(config, folder)
    taken = trainer._recorder.round

    def failing(run, result):
        taken(run, result)
        if run.next_round == 3:
            raise TrainingError("power")

    trainer._recorder.round = failing
    with suppress(TrainingError):
        trainer.fit()
    time.sleep(seconds)
    resumed = Trainer(config, folder)
    resumed.load_checkpoint()
    assert resumed.run.next_round == 2
    resumed.fit()
