"""Environments that a server offers: made by name, within limits, and described."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

from srl_envs import loading, registry, scenarios
from srl_envs.errors import EnvError
from srl_envs.remote.frames import text_digest
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server.refusals import Refused
from srl_envs.remote.spaces import to_space
from srl_envs.remote.values import mapping_of, to_value
from srl_envs.tasks.multitask.env import Multitask
from srl_envs.validation import nearest


class Offers:
    """The environments that may be made here, by name: the allow-list."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._own = tuple(name for name in names if ":" in name)

    def make(self, request: pb.OpenRequest | pb.PlayRequest) -> Any:
        """The environment that is asked for. Raises Refused for a name that is not offered, for
        options that its constructor refuses, that name code or places or ask for too much, and for
        levels that are held out from training; WireError for options that are no mapping."""
        name, options = request.environment, mapping_of(request.options, "options")
        self._require(name)
        mode = options.get("render_mode")
        if isinstance(mode, str) and mode == "human":
            raise Refused(
                "INVALID_ARGUMENT", "wrong options",
                "render_mode 'human' would write on the server: give 'ansi' and print it yourself",
            )  # fmt: skip
        try:
            env = registry.remake(name, options, allowing=self._own)
        except (EnvError, ImportError) as error:
            told = str(error).removesuffix(f": {loading.WAY_OUT}")  # which is no client's
            raise Refused("INVALID_ARGUMENT", "wrong options", told) from error
        if isinstance(env.unwrapped, Multitask):
            for member in env.unwrapped.named.values():
                self._require(member["name"])
        try:
            scenarios.refuse_levels("environment", name, options, env)
        except EnvError as error:
            raise Refused("PERMISSION_DENIED", "held-out levels", error) from error
        return env

    def _require(self, name: str) -> None:
        if name not in self.names:
            raise Refused(
                "PERMISSION_DENIED", "unknown environment",
                f"{name!r:.100} is not offered here{nearest(name[:100], self.names)}",
            )  # fmt: skip


def described(env: Any) -> pb.Environment:
    """The description of an environment: agents, spaces, and what stays the same."""
    game = env.unwrapped
    told = pb.Environment(
        agents=[
            pb.Agent(
                name=agent,
                observations=to_space(env.observation_space(agent)),
                actions=to_space(env.action_space(agent)),
            )
            for agent in env.possible_agents
        ],
        metadata=to_value(env.metadata),
        teams=to_value(getattr(game, "teams", None)),
        baselines=to_value(getattr(game, "baselines", lambda: None)()),
        max_cycles=to_value(getattr(game, "max_cycles", None)),
        texts=text_digest(env),
        version=version(),
    )
    state_space = getattr(env, "state_space", None)
    if state_space is not None:
        told.state_space.CopyFrom(to_space(state_space))
    return told


@functools.cache
def version() -> str:
    """Return the version of core-srl, or an empty text if it is not installed."""
    try:
        return metadata.version("core-srl")
    except metadata.PackageNotFoundError:
        return ""
