"""The smallest PPO run, in one file: arithmetic with one digit.

python examples/quickstart/simple_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

import argparse

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.algorithms.trainer import load_policy
from mrlm.config import ExperimentConfig, TrainingConfig
from mrlm.core import GenerationConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct", help="or a folder or tiny")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=64, help="per iteration")
    args = parser.parse_args()

    problems = MathProblemGenerator(difficulty_range=(1, 1), families="arithmetic")
    environments = [MathReasoningEnvironment(problems)]
    policy = load_policy(args.model, environments, GenerationConfig(max_new_tokens=64))
    config = ExperimentConfig(
        training=TrainingConfig(
            num_rollouts_per_iteration=args.episodes,
            batch_size=args.episodes // 2,
            learning_rate=5e-6,
        ),
        output_dir="outputs/simple_ppo",
    )
    results = PPOTrainer(policy, environments, config).train(num_iterations=args.iterations)
    for when, measured in results["evaluation"].items():
        print(f"{when}: reward {measured['raw_reward']:.4f}")
