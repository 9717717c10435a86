"""What the examples share: their options, the policy that learns, and the experiment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from mrlm.algorithms import load_policy
from mrlm.config import ExperimentConfig, TrainingConfig
from mrlm.core import GenerationConfig, LLMEnvironment, SimulatedEnvironment
from srl_agents.errors import BackendError
from srl_train.distributed import processes
from srl_train.errors import ConfigError

MODEL = "hub name, folder, or tiny: the embedded model, which needs no download"


def options(purpose: str, output: str, iterations: int = 50) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct", help=MODEL)
    parser.add_argument("--iterations", type=int, default=iterations)
    parser.add_argument("--episodes", type=int, default=64, help="per iteration: a multiple of 8")
    parser.add_argument("--max-new-tokens", type=int, default=256, help="of an answer")
    parser.add_argument("--learning-rate", type=float, default=5e-6)
    parser.add_argument("--output", default=output, help="the run's folder")
    return parser


def load(args: argparse.Namespace, environments: Sequence[SimulatedEnvironment]) -> LLMEnvironment:
    """The policy, which plays these environments; without its model the program ends."""
    try:
        return load_policy(args.model, environments, GenerationConfig(args.max_new_tokens))
    except (BackendError, ConfigError) as error:
        sys.exit(f"error: {error}")


def experiment(args: argparse.Namespace, algorithm: str, **sections: Any) -> ExperimentConfig:
    training = TrainingConfig(
        algorithm=algorithm,
        num_iterations=args.iterations,
        num_rollouts_per_iteration=args.episodes,
        batch_size=max(1, args.episodes // 2),
        learning_rate=args.learning_rate,
    )
    return ExperimentConfig(training=training, output_dir=args.output, **sections)


def tell(results: dict[str, Any]) -> None:
    """What came of it, by the first of several processes; then all leave."""
    processes.leave()
    if not processes.is_main():
        return
    for when, measured in results["evaluation"].items():
        print(f"{when}: reward {measured['raw_reward']:.4f} in {measured['episodes']} episodes")
    for stage in results["stages"]:
        losses = stage["models"]["model_0"]
        print(f"loss: {losses['first_loss']:.4f} -> {losses['last_loss']:.4f}")
