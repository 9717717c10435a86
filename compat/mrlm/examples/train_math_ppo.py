"""Mathematical problems, by PPO.

python examples/train_math_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment


def main() -> None:
    args = options(__doc__, "outputs/math_ppo", iterations=50).parse_args()
    problems = MathProblemGenerator(difficulty_range=(1, 3))
    environments = [MathReasoningEnvironment(problems)]
    tell(PPOTrainer(load(args, environments), environments, experiment(args, "ppo")).train())


if __name__ == "__main__":
    main()
