"""Environments in which several agents cooperate and compete, for language models and others.

    from srl_envs import make
    env = make("coop_compete_v0", num_agents=4)    # a PettingZoo ParallelEnv

Importing this package also registers the environments with PettingZoo, as "srl/<name>".
"""

from srl_envs.catalogue import make, names
from srl_envs.conformance import check_environment

__all__ = ["check_environment", "make", "names"]
