"""Mathematical problems by PPO."""

from policy import options, train

from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment

if __name__ == "__main__":
    problems = MathProblemGenerator(difficulty_range=(1, 3))
    args = options(__doc__, "outputs/math_ppo").parse_args()
    train(args, [MathReasoningEnvironment(problems)])
