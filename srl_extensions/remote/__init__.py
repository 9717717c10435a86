"""Environments on a server: clients and servers of the gRPC protocol and of OpenEnv.

from srl_extensions.remote import connect, remote   # extra `grpc`; docs/environments/remote.md
env = remote("127.0.0.1:50051", "maze_v0", width=5, height=5)   # a PettingZoo ParallelEnv
"""

from typing import Any

from srl_envs.loading import needed_by

__all__ = ["connect", "remote"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"srl_extensions.remote has no {name!r}")
    with needed_by("an environment server"):
        from srl_extensions.remote import client
    return getattr(client, name)
