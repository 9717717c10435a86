"""Questions that need tools, by PPO."""

from policy import options, train

from mrlm.environments.tools import ToolUseEnvironment
from mrlm.environments.tools.builtin_tools import create_default_tool_registry

if __name__ == "__main__":
    args = options(__doc__, "outputs/tool_use_ppo").parse_args()
    train(args, [ToolUseEnvironment(create_default_tool_registry())])
