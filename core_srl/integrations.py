"""Documented names of key-value caches and of the frameworks verl and AReaL."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from core_srl.llm_config import check_text
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs.loading import needed_by
from srl_envs.tasks.base import Grade, Problem, Task, TaskEnv
from srl_envs.validation import check_choice, number_between, whole_number
from srl_envs.wrappers import CustomRewards, RewardFunction
from srl_extensions.bridges.focal_game import FocalGame, rows, write_rows
from srl_train import Trainer
from srl_train.config import yaml_file
from srl_train.errors import ConfigError, TrainingError

GROUP = 8
"""Answers to one prompt, or episodes from one start, that GRPO compares."""


class KVCacheManager:
    """Limits, counts and clears the key-value caches of models in this process.

    The limits apply to each model. No answer depends on them: a conversation that was removed is
    read again.
    """

    def __init__(
        self,
        max_cache_size: int = 10_000,
        cache_policy: str = "adaptive",
        *,
        max_memory_gb: float | None = None,
    ) -> None:
        """Create a manager without models. Raises ValueError for wrong arguments.

        Args:
            max_cache_size: Limit in tokens.
            cache_policy: 'adaptive' or 'lru'; both remove the least recently used batch.
            max_memory_gb: Limit in 10**9 bytes.
        """
        if max_memory_gb is not None:
            number_between("max_memory_gb", max_memory_gb, 1e-9)
        self.max_cache_size = whole_number("max_cache_size", max_cache_size, 1)
        self.cache_policy = check_choice("cache_policy", cache_policy, ("adaptive", "lru"))
        self.max_memory_gb = max_memory_gb
        self._backends: list[HuggingFaceBackend] = []

    def manage(self, model: Any) -> None:
        """Limit the cache of a HuggingFaceBackend, or of an object with one as its `backend`.

        Raises ConfigError for other models: a vLLM server sizes its cache when it starts.
        """
        backend = getattr(model, "backend", model)
        if not isinstance(backend, HuggingFaceBackend):
            raise ConfigError(f"{type(model).__name__} has no key-value cache in this process")
        gigabytes = self.max_memory_gb
        backend.caches.most_tokens = self.max_cache_size
        backend.caches.most_bytes = None if gigabytes is None else int(gigabytes * 1e9)
        if all(known is not backend for known in self._backends):
            self._backends.append(backend)

    def get_stats(self) -> dict[str, Any]:
        """Return what all models keep now and have reused so far, in tokens.

        `hits` and `misses` are tokens of contexts that were kept and read; `size` and
        `memory_usage` (bytes) are kept now; `evictions` are removed conversations.
        """
        uses = []
        for backend in self._backends:
            with backend.lock:
                uses.append(backend.caches.use())
        asked, hits = sum(use.asked for use in uses), sum(use.reused for use in uses)
        return {
            "models": [backend.name for backend in self._backends],
            "hits": hits,
            "misses": asked - hits,
            "hit_rate": hits / asked if asked else None,
            "size": sum(use.tokens for use in uses),
            "max_cache_size": self.max_cache_size,
            "memory_usage": sum(use.nbytes for use in uses),
            "conversations": sum(use.conversations for use in uses),
            "evictions": sum(use.dropped for use in uses),
        }

    def clear(self) -> None:
        """Empty the caches."""
        for backend in self._backends:
            with backend.lock:
                backend.caches.clear()


def create_kv_cache_manager(
    max_cache_size: int = 10_000, cache_policy: str = "adaptive"
) -> KVCacheManager:
    """Create a manager of key-value caches; `manage` adds models."""
    return KVCacheManager(max_cache_size, cache_policy)


class ArealIntegration:
    """AReaL's workflow of our games, its statistics, and limits on key-value caches."""

    def __init__(self, cache_size: int = 10_000, max_memory_gb: float = 8.0) -> None:
        self._cache = KVCacheManager(cache_size, max_memory_gb=max_memory_gb)

    def get_cache(self) -> KVCacheManager:
        """Return the manager of caches."""
        return self._cache

    def get_stats(self) -> dict[str, Any]:
        """Return the statistics of the caches."""
        return self._cache.get_stats()

    def get_metrics(self) -> dict[str, float]:
        """Return the metrics that AReaL's workflows recorded in this process since the last call.

        Raises ImportError without AReaL.
        """
        with needed_by("AReaL's statistics"):
            from areal.utils import stats_tracker
        metrics: dict[str, float] = stats_tracker.export_all()
        return metrics

    def workflow(self, gconfig: Any, tokenizer: Any, *, trusted: bool = False) -> Any:
        """Return the rollout workflow of our games. Raises ImportError without AReaL."""
        from srl_extensions.bridges.areal import SrlWorkflow

        return SrlWorkflow(gconfig, tokenizer, trusted)


def create_areal_integration(
    cache_size: int = 10_000, max_memory_gb: float = 8.0
) -> ArealIntegration:
    """Create an ArealIntegration."""
    return ArealIntegration(cache_size, max_memory_gb)


class VERLTrainer:
    """GRPO training of one model on our games by verl's own learners and servers, on GPUs."""

    def __init__(
        self,
        model_name: str,
        rollout_size: int = 1024,
        mini_batch_size: int = 64,
        ppo_epochs: int = 4,
        learning_rate: float = 1e-5,
    ) -> None:
        """Create a trainer. Raises ValueError for wrong arguments.

        Args:
            model_name: Local folder or hub name.
            rollout_size: Rows of a step, with GROUP episodes per row.
            mini_batch_size: Rows of a minibatch.
            ppo_epochs: Passes over a step.
            learning_rate: Learning rate.
        """
        whole_number("rollout_size", rollout_size, 1)
        whole_number("mini_batch_size", mini_batch_size, 1, rollout_size)
        whole_number("ppo_epochs", ppo_epochs, 1)
        number_between("learning_rate", learning_rate, 1e-30)
        actor = "actor_rollout_ref.actor"
        self.settings: Mapping[str, object] = {
            "algorithm.adv_estimator": "grpo",
            "data.train_batch_size": rollout_size,
            "actor_rollout_ref.model.path": check_text("model_name", model_name),
            f"{actor}.ppo_mini_batch_size": mini_batch_size,
            f"{actor}.ppo_epochs": ppo_epochs,
            f"{actor}.optim.lr": learning_rate,
            f"{actor}.use_dynamic_bsz": True,
            "actor_rollout_ref.rollout.name": "vllm",
            "actor_rollout_ref.rollout.n": GROUP,
        }
        """Settings of verl by name."""

    def prepare(
        self,
        games: Iterable[FocalGame],
        seeds: Sequence[int],
        folder: str | Path,
        settings: Mapping[str, object] | None = None,
    ) -> list[str]:
        """Write the rows and return the command that trains on them. verl is not needed.

        Args:
            games: Games with the agent that the model plays.
            seeds: At least ten seeds; the first tenth is for validation.
            folder: Folder of the rows and checkpoints.
            settings: Further settings of verl.
        """
        if len(seeds) < 10:
            raise ConfigError(f"seeds must be at least ten, got {len(seeds)}")
        games, held_out = list(games), len(seeds) // 10
        place = Path(folder).absolute()
        files = {"train": place / "train.jsonl", "val": place / "val.jsonl"}
        write_rows(files["val"], rows(games, seeds[:held_out]))
        write_rows(files["train"], rows(games, seeds[held_out:]))
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
        """Train until verl ends and return the folder of checkpoints; arguments as in `prepare`.

        A cancellation ends verl.

        Raises:
            ImportError: Without verl.
            TrainingError: If verl fails.
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
    """Create a VERLTrainer."""
    return VERLTrainer(model_name)


class AReaLVERLBridge:
    """GRPO training of a model on prompts, with a reward function, by this library's engine.

    verl and AReaL themselves train on our games by VERLTrainer and ArealIntegration.workflow.
    """

    def __init__(
        self,
        model_name: str = "microsoft/DialoGPT-medium",
        *,
        reward_function: RewardFunction | None = None,
        run_dir: str | Path = "runs/areal_verl",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a bridge.

        Args:
            model_name: Local folder or hub name.
            reward_function: `reward_function(answer, context)`, a finite number.
            run_dir: Folder in which each loop has its own folder.
            settings: Settings of a RunConfig by dotted name.
        """
        self.model_name = model_name
        self._reward_function, self._settings = reward_function, dict(settings or {})
        self._run_dir = Path(run_dir)
        self._cache = KVCacheManager(max_memory_gb=8.0)
        self._results: dict[str, Any] = {}

    async def integrated_training_loop(
        self, prompts: Sequence[str], num_steps: int = 100
    ) -> dict[str, Any]:
        """Train `num_steps` updates, each on several answers to one of the prompts.

        A further loop continues with the trained model.

        Returns:
            training_metrics, with an entry per step: steps, losses (None if all rewards were
            equal), rewards (means), cache_stats and throughput (answers per second); final_stats.
        """
        if self._reward_function is None:
            raise ConfigError("reward_function must be a function, got None")
        prompts = [*prompts] if not isinstance(prompts, str) else []
        if not prompts:
            raise ConfigError("prompts must be a list of one or more texts")
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
        task, function = _Prompts(prompts), self._reward_function

        def make_env() -> CustomRewards:
            return CustomRewards(TaskEnv(task), function)

        trainer = Trainer(config, folder, make_env=make_env, sinks=(steps,))
        run = await asyncio.to_thread(lambda: trainer.run)  # Loads the model.
        for backend in run.players.backends.values():
            self._cache.manage(backend)
        with trainer:
            await trainer.train()
        self.model_name = str(folder / "models" / "model_0")
        self._results = steps.results()
        return self._results

    def get_training_summary(self) -> dict[str, Any]:
        """Return the model and `final_stats` of the last loop; empty before the first one."""
        return {"model": self.model_name, **self._results["final_stats"]} if self._results else {}


class _Prompts(Task):
    """Prompts with one answer of any form, which the reward function rewards."""

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
        return Grade(0.0, correct=False)


class _Steps:
    """Sink that keeps the documented results of a loop."""

    def __init__(self, cache: KVCacheManager, answers: int) -> None:
        self._cache, self._answers = cache, answers
        names = ("steps", "losses", "rewards", "cache_stats", "throughput")
        self._metrics: dict[str, list[Any]] = {name: [] for name in names}

    def write(self, row: Mapping[str, Any]) -> None:
        model, rate = row["models"]["model_0"], self._answers / sum(row["seconds"].values())
        values = (row["round"] + 1, model.get("loss"), model["raw_reward"])
        for own, value in zip(
            self._metrics.values(), (*values, self._cache.get_stats(), rate), strict=True
        ):
            own.append(value)

    def close(self) -> None:
        """Do nothing."""

    def results(self) -> dict[str, Any]:
        found = self._metrics
        return {
            "training_metrics": found,
            "final_stats": {
                "total_steps": len(found["steps"]),
                "final_cache_stats": found["cache_stats"][-1],
                "avg_throughput": float(np.mean(found["throughput"])),
                "avg_reward": float(np.mean(found["rewards"])),
            },
        }


def create_areal_verl_bridge(
    model_name: str = "microsoft/DialoGPT-medium", **settings: Any
) -> AReaLVERLBridge:
    """Create an AReaLVERLBridge with further settings of its constructor."""
    return AReaLVERLBridge(model_name, **settings)
