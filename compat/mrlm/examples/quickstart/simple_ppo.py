"""The smallest PPO run, in one file: mathematics of one digit.

python examples/quickstart/simple_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

import argparse

from transformers import AutoModelForCausalLM, AutoTokenizer

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.config import ExperimentConfig, PPOConfig, TrainingConfig
from mrlm.core import EnvironmentMode, GenerationConfig, LLMEnvironment
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from srl_agents.llm.hub_names import folder_for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B-Instruct", help="hub name or folder")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=64, help="per iteration")
    args = parser.parse_args()

    source = folder_for(args.model) or args.model
    policy = LLMEnvironment(
        AutoModelForCausalLM.from_pretrained(source),
        AutoTokenizer.from_pretrained(source),
        mode=EnvironmentMode.SERVER,
        generation_config=GenerationConfig(max_new_tokens=64),
    )
    problems = MathProblemGenerator(difficulty_range=(1, 1), families="arithmetic")
    config = ExperimentConfig(
        training=TrainingConfig(
            num_rollouts_per_iteration=args.episodes,
            batch_size=args.episodes // 2,
            learning_rate=5e-6,
        ),
        ppo=PPOConfig(clip_range=0.2, gamma=0.99),
        output_dir="outputs/simple_ppo",
    )
    trainer = PPOTrainer(policy, [MathReasoningEnvironment(problems)], config)
    results = trainer.train(num_iterations=args.iterations)
    for when, measured in results["evaluation"].items():
        print(f"{when}: reward {measured['raw_reward']:.4f}")


if __name__ == "__main__":
    main()
