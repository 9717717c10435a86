"""Mathematical problems by GRPO: answers are compared in groups of eight."""

from policy import options, train

from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.config import GRPOConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    problems = MathProblemGenerator(difficulty_range=(1, 3))
    args = options(__doc__, "outputs/grpo").parse_args()
    train(args, [MathReasoningEnvironment(problems)], GRPOTrainer, grpo=GRPOConfig(group_size=8))
