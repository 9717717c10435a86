"""Mathematical problems, by GRPO: answers are compared within groups of eight.

python examples/train_grpo_math.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.config import GRPOConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment


def main() -> None:
    args = options(__doc__, "outputs/grpo", iterations=50).parse_args()
    problems = MathProblemGenerator(difficulty_range=(1, 3))
    config = experiment(args, "grpo", grpo=GRPOConfig(group_size=8))
    environments = [MathReasoningEnvironment(problems)]
    tell(GRPOTrainer(load(args, environments), environments, config).train())


if __name__ == "__main__":
    main()
