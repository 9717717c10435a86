"""Questions that need tools, by PPO.

python examples/train_tool_use_ppo.py --model Qwen/Qwen2.5-0.5B-Instruct
"""

from policy import experiment, load, options, tell

from mrlm.algorithms.ppo import PPOTrainer
from mrlm.environments.tools import ToolUseEnvironment
from mrlm.environments.tools.builtin_tools import create_default_tool_registry


def main() -> None:
    args = options(__doc__, "outputs/tool_use_ppo", iterations=50).parse_args()
    environments = [ToolUseEnvironment(create_default_tool_registry())]
    tell(PPOTrainer(load(args, environments), environments, experiment(args, "ppo")).train())


if __name__ == "__main__":
    main()
