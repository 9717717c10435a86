"""Training by verl on our games: rows, settings and the command that runs its trainer."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core_srl.arguments import text, whole
from srl_agents.integrations.focal_game import FocalGame
from srl_agents.integrations.game_rows import rows, write_rows
from srl_envs.loading import needed_by
from srl_train.errors import ConfigError, TrainingError

GROUP = 8  # games from one start, whose returns GRPO compares


class VERLTrainer:
    """Trains one model on our games with verl's own learners and servers, by GRPO.

    verl needs GPUs. `prepare` needs neither it nor them: it writes the rows and says the command.
    """

    def __init__(
        self,
        model_name: str,
        rollout_size: int = 1024,
        mini_batch_size: int = 64,
        ppo_epochs: int = 4,
        learning_rate: float = 1e-5,
    ) -> None:
        """`rollout_size` and `mini_batch_size` are rows of a step and of a minibatch; each row is
        played several times (`actor_rollout_ref.rollout.n`). Raises ConfigError."""
        whole("rollout_size", rollout_size, 1)
        whole("mini_batch_size", mini_batch_size, 1)
        whole("ppo_epochs", ppo_epochs, 1)
        if mini_batch_size > rollout_size:
            raise ConfigError(
                f"mini_batch_size is {mini_batch_size}: give at most rollout_size, {rollout_size}"
            )
        if not learning_rate > 0:
            raise ConfigError(f"learning_rate is {learning_rate!r}: give more than 0")
        actor = "actor_rollout_ref.actor"
        self.settings: Mapping[str, object] = {
            "algorithm.adv_estimator": "grpo",
            "data.train_batch_size": rollout_size,
            "actor_rollout_ref.model.path": text("model_name", model_name),
            f"{actor}.ppo_mini_batch_size": mini_batch_size,
            f"{actor}.ppo_epochs": ppo_epochs,
            f"{actor}.optim.lr": learning_rate,
            f"{actor}.use_dynamic_bsz": True,
            "actor_rollout_ref.rollout.name": "vllm",
            "actor_rollout_ref.rollout.n": GROUP,
        }
        """verl's own, by name."""

    def prepare(
        self,
        games: Iterable[FocalGame],
        seeds: Sequence[int],
        folder: str | Path,
        settings: Mapping[str, object] | None = None,
    ) -> list[str]:
        """Write the rows into `folder` and give the command that trains on them.

        The first tenth of the seeds is played for validation alone. `settings` are verl's own, over
        those of this object. Raises ConfigError for less than ten seeds, and as `rows` does.
        """
        if len(seeds) < 10:
            raise ConfigError(f"there are {len(seeds)} seeds: give ten or more")
        games, apart = list(games), len(seeds) // 10
        place = Path(folder).absolute()
        files = {"train": place / "train.jsonl", "val": place / "val.jsonl"}
        write_rows(files["val"], rows(games, seeds[:apart]))
        write_rows(files["train"], rows(games, seeds[apart:]))
        chosen: dict[str, object] = {
            **self.settings,
            **{f"data.{name}_files": path for name, path in files.items()},
            "trainer.default_local_dir": place / "checkpoints",
            **(settings or {}),
        }
        named = [f"{name}={value}" for name, value in chosen.items()]
        return [sys.executable, "-m", "verl.trainer.main_ppo", *named]

    async def train(
        self,
        games: Iterable[FocalGame],
        seeds: Sequence[int],
        folder: str | Path,
        settings: Mapping[str, object] | None = None,
    ) -> Path:
        """Train to verl's end; the folder of its checkpoints. Cancelled, verl is ended too.

        Raises ImportError without verl, TrainingError where verl fails, and as `prepare` does.
        """
        with needed_by("VERLTrainer.train"):
            if importlib.util.find_spec("verl") is None:
                raise ModuleNotFoundError("No module named 'verl'", name="verl")
        command = self.prepare(games, seeds, folder, settings)
        process = await asyncio.create_subprocess_exec(*command)
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if status != 0:
            raise TrainingError(f"verl ended with status {status}: its own output says why")
        return Path(folder).absolute() / "checkpoints"


def create_verl_trainer(model_name: str) -> VERLTrainer:
    """See VERLTrainer."""
    return VERLTrainer(model_name)
