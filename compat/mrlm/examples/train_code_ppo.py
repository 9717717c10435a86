"""Programming by PPO; tests are the reward."""

from policy import options, train

from mrlm.environments.code import CodeExecutionEnvironment, CodeProblemGenerator

if __name__ == "__main__":
    problems = CodeProblemGenerator(difficulty_range=(1, 2))
    args = options(__doc__, "outputs/code_ppo").parse_args()
    train(args, [CodeExecutionEnvironment(problems)])
