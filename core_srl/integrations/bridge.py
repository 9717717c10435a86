"""Training of one model on prompts with a reward function, its rollouts batched and cached."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from core_srl.integrations.kv_cache import KVCacheManager
from srl_envs.tasks.base import Grade, Problem, Task, TaskEnv
from srl_envs.wrappers import CustomRewards, RewardFunction
from srl_train import Trainer
from srl_train.config import yaml_file
from srl_train.errors import ConfigError

GROUP = 8
"""Answers to one prompt, which GRPO compares with each other."""


class AReaLVERLBridge:
    """Trains a model on prompts by GRPO: what its answers are worth, `reward_function` says.

    It does so with this library's own engine, in which a step's answers are sampled in one batch
    and key-value caches are bounded. verl and AReaL themselves train on our games by VERLTrainer
    and ArealIntegration.workflow.
    """

    def __init__(
        self,
        model_name: str = "microsoft/DialoGPT-medium",
        *,
        reward_function: RewardFunction | None = None,
        run_dir: str | Path = "runs/areal_verl",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`reward_function(answer, context)` gives a finite number (docs/environments/games.md);
        `settings` are those of a run by dotted name, such as models.sampling.max_new_tokens
        (docs/training/configuration.md). Every loop writes into a folder of its own in `run_dir`.
        """
        self.model_name = model_name
        self._reward_function, self._settings = reward_function, dict(settings or {})
        self._run_dir = Path(run_dir)
        self._cache = KVCacheManager(max_memory_gb=8.0)
        self._results: dict[str, Any] = {}

    async def integrated_training_loop(
        self, prompts: Sequence[str], num_steps: int = 100
    ) -> dict[str, Any]:
        """`num_steps` updates, each from several answers to one of the prompts.

        Gives training_metrics, lists with an entry per step: steps, losses (None where all answers
        were worth the same), rewards (means), cache_stats (KVCacheManager.get_stats) and throughput
        (answers per second); and final_stats of them. A further loop goes on with the model that
        the last one left. Raises ConfigError without a reward function, a prompt or a step, and as
        srl_train.Trainer does.
        """
        if self._reward_function is None:
            raise ConfigError(
                "reward_function is None: give AReaLVERLBridge(model_name, reward_function=...), "
                "which says what an answer is worth"
            )
        prompts = [*prompts] if not isinstance(prompts, str) else []
        if not prompts:
            raise ConfigError("prompts has none: give a list of one or more texts")
        loop = 1 + sum(1 for _ in self._run_dir.glob("loop_*"))
        folder = self._run_dir / f"loop_{loop}"
        base = {
            "models.count": 1,
            "models.base": self.model_name,
            "rounds": num_steps,
            "rollout.group_size": GROUP,
            "rollout.groups_per_round": 1,
            "checkpoints.every": 0,
            "logging.evaluation_episodes": 0,
        }
        config = yaml_file.from_tree({}, {**base, **self._settings})
        steps = _Steps(self._cache, config.rollout.episodes)
        make_env = partial(_prompted, _Prompts(prompts), self._reward_function)
        trainer = Trainer(config, folder, make_env=make_env, sinks=(steps,))
        run = await asyncio.to_thread(lambda: trainer.run)  # which loads the model
        for backend in run.players.backends.values():
            self._cache.manage(backend)
        with trainer:
            await trainer.train()
        self.model_name = str(folder / "models" / "model_0")
        self._results = steps.results()
        return self._results

    def get_training_summary(self) -> dict[str, Any]:
        """`final_stats` of the last loop, and the model; empty before the first."""
        return {"model": self.model_name, **self._results["final_stats"]} if self._results else {}


class _Prompts(Task):
    """Prompts that are answered once, in any form."""

    name = "prompts_v0"
    difficulties = (1, 1)
    attempts = 1
    split = "any"

    def __init__(self, prompts: Sequence[str]) -> None:
        self._prompts = [Problem(prompt) for prompt in prompts]

    def rules(self) -> str:
        return ""

    def how_to_answer(self) -> str:
        return ""

    def draw(self, rng: np.random.Generator, difficulty: int) -> Problem:
        return self._prompts[int(rng.integers(len(self._prompts)))]

    def read(self, text: str) -> str:
        return text

    def grade(self, problem: Problem, answer: str) -> Grade:
        return Grade(0.0, correct=False)  # the reward function judges


class _Steps:
    """A sink that keeps what the documented results hold."""

    def __init__(self, cache: KVCacheManager, answers: int) -> None:
        """`answers` are those of a step."""
        self._cache, self._answers = cache, answers
        self._rows: list[dict[str, Any]] = []

    def write(self, row: Mapping[str, Any]) -> None:
        """A step."""
        model = row["models"]["model_0"]
        self._rows.append(
            {
                "steps": row["round"] + 1,
                "losses": model.get("loss"),
                "rewards": model["raw_reward"],
                "cache_stats": self._cache.get_stats(),
                "throughput": self._answers / sum(row["seconds"].values()),
            }
        )

    def close(self) -> None:
        """Nothing is open."""

    def results(self) -> dict[str, Any]:
        """All steps, and what they came to."""
        last = self._rows[-1]
        return {
            "training_metrics": {name: [row[name] for row in self._rows] for name in last},
            "final_stats": {
                "total_steps": len(self._rows),
                "final_cache_stats": last["cache_stats"],
                "avg_throughput": float(np.mean([row["throughput"] for row in self._rows])),
                "avg_reward": float(np.mean([row["rewards"] for row in self._rows])),
            },
        }


def _prompted(task: _Prompts, reward_function: RewardFunction) -> CustomRewards:
    return CustomRewards(TaskEnv(task), reward_function)


def create_areal_verl_bridge(
    model_name: str = "microsoft/DialoGPT-medium", **settings: Any
) -> AReaLVERLBridge:
    """See AReaLVERLBridge, whose settings these are."""
    return AReaLVERLBridge(model_name, **settings)
