"""Environments on a server that `mrlm serve` or `srl serve env` started."""

from __future__ import annotations

from typing import Any

from mrlm.core.environment import EnvironmentMode, frozen_only
from mrlm.environments.catalogue import registered_name
from mrlm.environments.task import TaskEnvironment
from srl_envs.registry import SERVED


class RemoteEnvironment(TaskEnvironment):
    """The environment `environment_id` of the server at `server_address`, "host:port".

    The id is "math", "code" or "tool", or a name of srl_envs; it is made there with `options`.

    Every object has a session of its own. Raises RemoteError where no server answers.
    """

    def __init__(
        self,
        environment_id: str,
        server_address: str,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
        **options: Any,
    ) -> None:
        frozen_only(mode)
        super().__init__(f"{SERVED}{server_address}/{registered_name(environment_id)}", options)
