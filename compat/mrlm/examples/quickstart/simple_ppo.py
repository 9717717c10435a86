"""The smallest PPO run, in one file: mathematics of one digit.

python examples/quickstart/simple_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

import argparse
import sys

from mrlm.algorithms import load_policy
from mrlm.algorithms.ppo import PPOTrainer
from mrlm.config import ExperimentConfig, PPOConfig, TrainingConfig
from mrlm.core import GenerationConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from srl_agents.errors import BackendError
from srl_train.errors import ConfigError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model", default="Qwen/Qwen2.5-0.5B-Instruct", help="hub name, folder or tiny"
    )
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=64, help="per iteration")
    args = parser.parse_args()

    problems = MathProblemGenerator(difficulty_range=(1, 1), families="arithmetic")
    environments = [MathReasoningEnvironment(problems)]
    try:
        policy = load_policy(args.model, environments, GenerationConfig(max_new_tokens=64))
    except (BackendError, ConfigError) as error:
        sys.exit(f"error: {error}")
    config = ExperimentConfig(
        training=TrainingConfig(
            num_rollouts_per_iteration=args.episodes,
            batch_size=args.episodes // 2,
            learning_rate=5e-6,
        ),
        ppo=PPOConfig(clip_range=0.2, gamma=0.99),
        output_dir="outputs/simple_ppo",
    )
    trainer = PPOTrainer(policy, environments, config)
    results = trainer.train(num_iterations=args.iterations)
    for when, measured in results["evaluation"].items():
        print(f"{when}: reward {measured['raw_reward']:.4f}")


if __name__ == "__main__":
    main()
