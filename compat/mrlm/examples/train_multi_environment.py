"""One model on programs, mathematics and tools at once, by PPO."""

from policy import options, train

from mrlm.environments.code import CodeExecutionEnvironment, CodeProblemGenerator
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from mrlm.environments.tools import ToolUseEnvironment
from mrlm.environments.tools.builtin_tools import create_default_tool_registry

if __name__ == "__main__":
    environments = [
        CodeExecutionEnvironment(CodeProblemGenerator(difficulty_range=(1, 2))),
        MathReasoningEnvironment(MathProblemGenerator(difficulty_range=(1, 3))),
        ToolUseEnvironment(create_default_tool_registry()),
    ]
    results = train(options(__doc__, "outputs/multi_environment").parse_args(), environments)
    for name, measured in results["evaluation"]["after"]["by_environment"].items():
        print(f"{name}: {measured}")
