"""Imitation of answers, and prediction of the environment's messages."""

from policy import options, train

from mrlm.algorithms.sft import SFTTrainer
from mrlm.config import SFTConfig
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    problems = MathProblemGenerator(difficulty_range=(1, 2))
    args = options(__doc__, "outputs/sft", iterations=3).parse_args()
    train(args, [MathReasoningEnvironment(problems)], SFTTrainer, sft=SFTConfig(mode="combined"))
