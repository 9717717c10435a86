"""Environments in which several agents cooperate and compete, for language models and others.

    from srl_envs import make
    env = make("coop_compete_v0", num_agents=4)    # a PettingZoo ParallelEnv

Importing this package also registers the environments with PettingZoo, as "srl/<name>".
"""

from srl_envs.env_checker import check_environment
from srl_envs.registry import make, names

__all__ = ["check_environment", "make", "names"]
