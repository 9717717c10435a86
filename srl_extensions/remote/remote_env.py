"""Environments on a gRPC server: a PettingZoo ParallelEnv, and several stepped in one call."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
from pettingzoo import ParallelEnv

import srl_extensions.remote.environments_pb2 as pb
from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.text import SpacesOfAgents, TextView
from srl_envs.untrusted import printable
from srl_envs.validation import Reset, Step, asks_nothing, reset_arguments, whole_number
from srl_envs.vector.loop import SyncVectorGame
from srl_extensions.remote.errors import RemoteError, WireError
from srl_extensions.remote.messages import (
    from_space,
    pack,
    pack_actions,
    text_digest,
    unpack,
    unpack_mapping,
    unpack_outcome,
)

if TYPE_CHECKING:
    from srl_extensions.remote.client import EnvServer

CODES = {code.value[0]: code.name for code in grpc.StatusCode}
RULES = frozenset(
    {
        "height", "messages", "obs_mode", "rules", "split", "task",
        "variant", "view_radius", "width",
    }
)  # fmt: skip
"""Attributes of games that policies and reports read; they are the same in all episodes."""


class RemoteEnv(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """An environment on a server, whose results equal the local environment's.

    The text view and the rules that policies read are those of the same environment made in this
    process; reading them raises EnvError if it cannot be made here or has other texts.

    A call whose connection was lost is sent again and played once. If the session has ended, the
    next reset with a seed opens a new one.

    Args:
        server: The connection.
        name: Name of the environment on the server.
        options: Arguments of the environment.
        opened: Session that is already open, with its description.

    Raises:
        RemoteError: If the server refuses.
    """

    def __init__(
        self,
        server: EnvServer,
        name: str,
        options: Mapping[str, Any],
        opened: tuple[str, bytes] | None = None,
    ) -> None:
        self._server, self._name, self._options = server, name, dict(options)
        self.render_mode: str | None = self._options.get("render_mode")
        self.agents: list[str] = []
        self._turn = 0
        self._session = ""
        described = self._open(opened)
        match described:
            case {"spaces": dict() as spaces, "metadata": {"name": str(called)} as metadata}:
                self.metadata = metadata
            case _:
                raise WireError("an environment must have spaces by agent and a name")
        if ":" in called or not called.isprintable():  # Records will contain the name.
            raise WireError(f"{called!r:.80} is not a name of an environment")
        pairs: dict[str, Any] = spaces
        if not pairs or not all(isinstance(own, list) and len(own) == 2 for own in pairs.values()):
            raise WireError("an agent must have an observation space and an action space")
        self._texts, self._version = described.get("texts"), described.get("version")
        self.possible_agents = list(pairs)
        self.observation_spaces = {agent: from_space(own[0]) for agent, own in pairs.items()}
        self.action_spaces = {agent: from_space(own[1]) for agent, own in pairs.items()}
        self._shapes = {agent: space.shape for agent, space in self.observation_spaces.items()}
        if described.get("state_space") is not None:
            self.state_space = from_space(described["state_space"])
        self.teams: dict[str, str] | None = _mapping(described, "teams", str)
        self._baselines: dict[str, float] | None = _mapping(described, "baselines", float)
        if isinstance(limit := described.get("max_cycles"), int):
            self.max_cycles: int = limit

    @cached_property
    def local(self) -> Any:
        """Environment of this process with the same text view and rules; never played."""
        options = {key: value for key, value in self._options.items() if key != "render_mode"}
        env = registry.make(self._name, **options)
        if text_digest(env) != self._texts:
            raise EnvError(
                f"{self._name} has other texts on {self._server.address}, whose core-srl is "
                f"{self._version or 'a source folder'}: install the same version here"
            )
        return env.unwrapped

    @property
    def text_view(self) -> TextView | None:
        """Text view of the environment, or None."""
        return self.local.text_view if self._texts else None

    def baselines(self) -> dict[str, float]:
        """Return the environment's mean rewards per agent and step, by name."""
        return dict(self._baselines or {})

    def __getattr__(self, name: str) -> Any:
        if name in RULES:
            return getattr(self.local, name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; with a seed, in a new session if the session has ended."""
        seed, given = reset_arguments(seed, options)
        try:
            [frame] = self._server.advance("Reset", [self.to_reset(seed, given)])
        except RemoteError as error:
            if error.code != "NOT_FOUND" or seed is None:
                raise
            self._open()
            [frame] = self._server.advance("Reset", [self.to_reset(seed, given)])
        outcome: Reset = self.received(frame)
        return outcome

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one step with one action per agent."""
        if asks_nothing(self._turn > 0, self.agents, actions):
            return {}, {}, {}, {}, {}
        [frame] = self._server.advance("Step", [self.to_step(actions)])
        outcome: Step = self.received(frame, self.agents)
        return outcome

    def state(self) -> Any:
        """Return the joint state of all agents."""
        return self._look(pb.LookRequest.STATE)

    def render(self) -> Any:
        """Return the picture of the last step."""
        if self.render_mode is None:
            raise EnvError("render() needs a render_mode: construct with one")
        return self._look(pb.LookRequest.PICTURE)

    def close(self) -> None:
        """End the session."""
        self._finalizer()

    # Messages, also for calls with several environments.

    def to_reset(self, seed: int | None, options: Mapping[str, Any]) -> pb.SessionReset:
        """Return the message of a reset."""
        return pb.SessionReset(
            session=self._session, turn=self._turn, seed=seed, options=pack(dict(options))
        )

    def to_step(self, actions: Mapping[str, Any]) -> pb.SessionStep:
        """Return the message of a step."""
        return pb.SessionStep(session=self._session, turn=self._turn, actions=pack_actions(actions))

    def received(self, frame: pb.Frame, required: Iterable[str] | None = None) -> Any:
        """Advance to the next turn, and return the result of the reset or step.

        Agents that are `required` must be in the reply to a step; None is a reset.

        Raises:
            RemoteError: If the frame is a refusal.
            WireError: If the frame belongs to another session or turn, or is invalid.
        """
        if frame.HasField("refusal"):
            message = printable(frame.refusal.message, multiline=False)
            raise RemoteError(message, CODES.get(frame.refusal.code, "UNKNOWN"))
        if (frame.session, frame.turn) != (self._session, self._turn):
            raise WireError("a frame belongs to another session or turn")
        playing, outcome = unpack_outcome(frame.content)
        observations = outcome[0]
        complete = observations.keys() >= set(required or ())
        right_kind = len(outcome) == (2 if required is None else 5)
        if not (complete and right_kind and observations.keys() <= self.action_spaces.keys()):
            raise WireError("a frame has other agents than those that play")
        self._turn = frame.turn + 1
        self.agents = playing
        for agent, seen in observations.items():
            shape = self._shapes[agent]
            found = seen.shape if isinstance(seen, np.ndarray) else np.shape(seen)
            if shape is not None and (found != shape or isinstance(seen, str)):
                raise WireError(f"an observation of {agent} does not have the shape {shape}")
        return outcome

    def _open(self, opened: tuple[str, bytes] | None = None) -> dict[str, Any]:
        """Open a session, or use the one in `opened`, and return the environment's description."""
        if opened is None:
            reply = self._server.open(self._name, self._options)
            opened = reply.sessions[0], reply.environment
        self._session, environment = opened
        self._turn = 0
        request = pb.CloseRequest(sessions=[self._session])
        self._finalizer = weakref.finalize(self, self._server.send, "Close", request)
        self._finalizer.atexit = False
        return unpack_mapping(environment, "the description")

    def _look(self, thing: int) -> Any:
        request = pb.LookRequest(session=self._session, thing=thing)
        return unpack(self._server.call("Look", request).value)


class RemoteVector(SyncVectorGame):
    """N environments of a server with the interface of SyncVectorGame, one call per step.

    If the server refuses some of the environments, the others are played before the RemoteError is
    raised.
    """

    def __init__(
        self,
        server: EnvServer,
        name: str,
        options: Mapping[str, Any],
        num_envs: int = 1,
    ) -> None:
        reply = server.open(name, options, whole_number("num_envs", num_envs, 1, 2**16))
        envs = (
            RemoteEnv(server, name, options, (session, reply.environment))
            for session in reply.sessions
        )
        self._server = server
        super().__init__(lambda: next(envs), num_envs)

    def _reset_each(
        self, env_ids: Sequence[int], seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> list[Reset]:
        messages = [
            self.envs[i].to_reset(seed, options) for i, seed in zip(env_ids, seeds, strict=True)
        ]
        return self._received("Reset", env_ids, messages)

    def _step_each(self, actions: Mapping[int, Mapping[str, Any]]) -> list[Step]:
        messages = [self.envs[i].to_step(acts) for i, acts in actions.items()]
        return self._received("Step", list(actions), messages)

    def _received(self, method: str, env_ids: Sequence[int], messages: Sequence[Any]) -> list[Any]:
        if not messages:
            return []
        outcomes, refusals = [], []
        frames = self._server.advance(method, messages)
        for i, frame in zip(env_ids, frames, strict=True):
            env = self.envs[i]
            try:
                outcomes.append(env.received(frame, env.agents if method == "Step" else None))
            except RemoteError as refusal:  # raised after all played frames are read
                refusals.append(RemoteError(f"environment {i}: {refusal}", refusal.code))
        if refusals:
            raise refusals[0]
        return outcomes


def _mapping(described: Mapping[str, Any], what: str, kind: type) -> dict[str, Any] | None:
    """Return a mapping of names to values of a type, or None. Raises WireError for others."""
    value = described.get(what)
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(one, kind) for one in value.values()):
        raise WireError(f"{what} must be a mapping of names to {kind.__name__}, or none")
    return value
