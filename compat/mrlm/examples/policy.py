"""Shared parts of the examples: options, training and results."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.algorithms.trainer import load_policy
from mrlm.cli import print_results
from mrlm.config import ExperimentConfig, TrainingConfig
from mrlm.core import GenerationConfig, LLMEnvironment, SimulatedEnvironment


def options(purpose: str | None, output: str, iterations: int = 50) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument(
        "--model", default="Qwen/Qwen2.5-0.5B-Instruct", help="or a folder, or tiny"
    )
    parser.add_argument("--iterations", type=int, default=iterations)
    parser.add_argument("--episodes", type=int, default=64, help="per iteration: a multiple of 8")
    parser.add_argument("--max-new-tokens", type=int, default=256, help="of an answer")
    parser.add_argument("--learning-rate", type=float, default=5e-6)
    parser.add_argument("--output", default=output, help="the run's folder")
    return parser


def load(args: argparse.Namespace, environments: Sequence[SimulatedEnvironment]) -> LLMEnvironment:
    sampling = GenerationConfig(max_new_tokens=args.max_new_tokens)
    return load_policy(args.model, environments, sampling)


def experiment(args: argparse.Namespace, **sections: Any) -> ExperimentConfig:
    training = TrainingConfig(
        num_epochs=args.iterations,
        num_rollouts_per_iteration=args.episodes,
        batch_size=max(1, args.episodes // 2),
        learning_rate=args.learning_rate,
    )
    return ExperimentConfig(training=training, output_dir=args.output, **sections)


def train(
    args: argparse.Namespace,
    environments: Sequence[SimulatedEnvironment],
    trainer: Any = PPOTrainer,
    **sections: Any,
) -> dict[str, Any]:
    """Train a model with `trainer` in `environments`; print and return Trainer.fit's results.

    `args` are parsed by `options`; `sections` are fields of ExperimentConfig, such as `sft`.
    """
    config = experiment(args, **sections)
    results: dict[str, Any] = trainer(load(args, environments), environments, config).train()
    print_results(results)
    return results
