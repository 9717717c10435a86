"""Multi-agent environments for language models and other policies, with PettingZoo's interface.

    from srl_envs import make, maze_v0
    env = make("coop_compete_v0", num_agents=4)    # a PettingZoo ParallelEnv
    env = maze_v0.parallel_env(width=5, height=5)  # by module, as in PettingZoo
    env = TextTask(rows, prompt="{question}", reward=score)  # own data

Every registered name is a module of this package, also for `import srl_envs.maze_v0`. Games are
imported when the first one is made. Importing this package registers the environments with
PettingZoo, as "srl/<name>".
"""

import sys
from typing import Any

from srl_envs import registry
from srl_envs.env_checker import check_environment
from srl_envs.registry import make, names
from srl_envs.tables import Plugin
from srl_envs.validation import nearest

__all__ = ["TextTask", "check_environment", "make", "names"]


for _name in registry.OWN:
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = registry.as_module(_name)


def __getattr__(name: str) -> Any:
    if name == "TextTask":  # Imported on first use, because tasks import more than games.
        return Plugin("srl_envs.tasks.text_task:TextTask").load()
    if not name.startswith("_") and name in registry.ENVS:
        return registry.as_module(name)
    known = [*registry.names(), *__all__]
    raise AttributeError(f"srl_envs has no {name!r}{nearest(name, known)}")
