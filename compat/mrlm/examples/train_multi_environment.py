"""One model on programs, mathematics and tools at once, by PPO.

python examples/train_multi_environment.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.environments.code import CodeExecutionEnvironment, CodeProblemGenerator
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from mrlm.environments.tools import ToolUseEnvironment
from mrlm.environments.tools.builtin_tools import create_default_tool_registry


def main() -> None:
    args = options(__doc__, "outputs/multi_environment", iterations=50).parse_args()
    environments = [
        CodeExecutionEnvironment(CodeProblemGenerator(difficulty_range=(1, 2))),
        MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 3))),
        ToolUseEnvironment(create_default_tool_registry()),
    ]
    results = PPOTrainer(load(args, environments), environments, experiment(args, "ppo")).train()
    tell(results)
    for name, measured in results["evaluation"]["after"]["by_environment"].items():
        print(f"{name}: {measured}")


if __name__ == "__main__":
    main()
