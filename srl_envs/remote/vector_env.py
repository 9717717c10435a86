"""Environments on a server, stepped together: one call for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gymnasium.vector import AutoresetMode

from srl_envs.remote.connection import Connection
from srl_envs.remote.errors import RemoteError
from srl_envs.remote.parallel_env import RemoteEnv
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.validation import Reset, Step, whole_number
from srl_envs.vector.loop import SyncVectorGame


class RemoteVector(SyncVectorGame):
    """N environments `name` of a server: SyncVectorGame's interface, one call a step for all.

    Raises RemoteError for what the server refuses; the environments that it did not refuse have
    then been played.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        options: Mapping[str, Any],
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        reply = connection.open(name, options, whole_number("num_envs", num_envs, 1, 2**16))
        envs = (
            RemoteEnv(connection, name, options, (session, reply.environment))
            for session in reply.sessions
        )
        self._connection = connection
        super().__init__(lambda: next(envs), num_envs, autoreset_mode)

    def _reset_each(
        self, env_ids: Sequence[int], seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> Iterator[Reset]:
        asked = [
            self.envs[i].to_reset(seed, options) for i, seed in zip(env_ids, seeds, strict=True)
        ]
        frames = self._played("Reset", env_ids, asked)
        return (self.envs[i].reset_of(frame) for i, frame in zip(env_ids, frames, strict=True))

    def _step_each(self, actions: Mapping[int, Mapping[str, Any]]) -> Iterator[Step]:
        asked = [self.envs[i].to_step(acts) for i, acts in actions.items()]
        frames = self._played("Step", list(actions), asked)
        return (self.envs[i].step_of(frame) for i, frame in zip(actions, frames, strict=True))

    def _played(self, method: str, env_ids: Sequence[int], asked: Sequence[Any]) -> list[pb.Frame]:
        if not asked:
            return []
        frames = self._connection.advance(method, asked)
        refusals = []
        for i, frame in zip(env_ids, frames, strict=True):
            try:
                env = self.envs[i]
                env.played(frame, env.agents if method == "Step" else ())
            except RemoteError as refusal:  # told once all that were played are noted
                refusals.append(RemoteError(f"environment {i}: {refusal}", refusal.code))
        if refusals:
            raise refusals[0]
        return frames
