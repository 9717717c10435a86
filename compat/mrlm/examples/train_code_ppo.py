"""Writing programs, by PPO; tests are the reward.

python examples/train_code_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.environments.code import CodeExecutionEnvironment, CodeProblemGenerator


def main() -> None:
    args = options(__doc__, "outputs/code_ppo", iterations=50).parse_args()
    problems = CodeProblemGenerator(difficulty_range=(1, 2))
    environments = [CodeExecutionEnvironment(problems)]
    tell(PPOTrainer(load(args, environments), environments, experiment(args, "ppo")).train())


if __name__ == "__main__":
    main()
