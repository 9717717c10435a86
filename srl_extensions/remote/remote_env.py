"""Environments on a gRPC server: a PettingZoo ParallelEnv, and several stepped in one call."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import numpy as np
from gymnasium.vector import AutoresetMode
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
    from_reset,
    from_space,
    from_step,
    from_value,
    mapping_of,
    text_digest,
    to_value,
    write_actions,
)

if TYPE_CHECKING:
    from srl_extensions.remote.client import EnvServer

Outcome = TypeVar("Outcome", Reset, Step)
CODES = {code.value[0]: code.name for code in grpc.StatusCode}
RULES = frozenset(
    {
        "height", "keyword_rewards", "messages", "network", "obs_mode", "rules", "split", "task",
        "variant", "view_radius", "width",
    }
)  # fmt: skip
"""Attributes of games that policies and reports read; they are the same in all episodes."""


class RemoteEnv(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """An environment on a server.

    Every result equals the local environment's: observations, rewards, terminations, infos,
    state(), spaces, metadata, teams and baselines. The text view and the rules that policies read
    are those of the same environment made in this process; reading them raises EnvError if it
    cannot be made here or has other texts.

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
        opened: tuple[str, pb.Environment] | None = None,
    ) -> None:
        self._server, self._name, self._options = server, name, dict(options)
        self.render_mode: str | None = self._options.get("render_mode")
        self.agents: list[str] = []
        self._turn = 0
        self._session = ""
        told = self._open(opened)
        self._texts, self._version = told.texts, told.version
        self.possible_agents = [agent.name for agent in told.agents]
        self.observation_spaces = {one.name: from_space(one.observations) for one in told.agents}
        self.action_spaces = {one.name: from_space(one.actions) for one in told.agents}
        if told.HasField("state_space"):
            self.state_space = from_space(told.state_space)
        if not self.possible_agents or len(self.action_spaces) < len(self.possible_agents):
            raise WireError("an environment must have agents with unique names")
        self.metadata = mapping_of(told.metadata, "metadata")
        called = self.metadata.get("name")
        if not isinstance(called, str) or ":" in called or not called.isprintable():
            # Records will contain the name.
            raise WireError(f"{called!r:.80} is not a name of an environment")
        self.teams: dict[str, str] | None = _mapping(told.teams, str, "teams")
        self._baselines: dict[str, float] | None = _mapping(told.baselines, float, "baselines")
        limit = from_value(told.max_cycles)
        if isinstance(limit, int):
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
        """Start an episode."""
        seed, given = reset_arguments(seed, options)
        try:
            [frame] = self._server.advance("Reset", [self.to_reset(seed, given)])
        except RemoteError as error:
            if error.code != "NOT_FOUND" or seed is None:
                raise
            self._open()
            [frame] = self._server.advance("Reset", [self.to_reset(seed, given)])
        return self.reset_of(self.played(frame))

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one step with one action per agent."""
        if asks_nothing(self._turn > 0, self.agents, actions):
            return {}, {}, {}, {}, {}
        [frame] = self._server.advance("Step", [self.to_step(actions)])
        return self.step_of(self.played(frame, self.agents))

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
            session=self._session, turn=self._turn, seed=seed, options=to_value(options)
        )

    def to_step(self, actions: Mapping[str, Any]) -> pb.SessionStep:
        """Return the message of a step."""
        message = pb.SessionStep(session=self._session, turn=self._turn)
        write_actions(actions, message.actions)
        return message

    def played(self, frame: pb.Frame, required: Iterable[str] = ()) -> pb.Frame:
        """Advance to the next turn and return the frame.

        Args:
            frame: The reply.
            required: Agents that must be in the frame.

        Raises:
            RemoteError: If the frame is a refusal.
            WireError: If the frame belongs to another session or turn, or to other agents.
        """
        if frame.HasField("refusal"):
            message = printable(frame.refusal.message, multiline=False)
            raise RemoteError(message, CODES.get(frame.refusal.code, "UNKNOWN"))
        if (frame.session, frame.turn) != (self._session, self._turn):
            raise WireError("a frame belongs to another session or turn")
        agents, playing = set(frame.agents), set(frame.playing)
        unique = len(agents) == len(frame.agents) and len(playing) == len(frame.playing)
        complete = agents >= playing.union(required)
        if not (unique and complete and agents <= self.action_spaces.keys()):
            raise WireError("a frame has other agents than those that play")
        self._turn = frame.turn + 1
        self.agents = list(frame.playing)
        return frame

    def reset_of(self, frame: pb.Frame) -> Reset:
        """Return the result of a reset. Raises WireError for an invalid frame."""
        return self._checked(from_reset(frame))

    def step_of(self, frame: pb.Frame) -> Step:
        """Return the result of a step. Raises WireError for an invalid frame."""
        return self._checked(from_step(frame))

    def _checked(self, outcome: Outcome) -> Outcome:
        for agent, seen in outcome[0].items():
            shape = self.observation_spaces[agent].shape
            if shape is not None and (np.shape(seen) != shape or isinstance(seen, str)):
                raise WireError(f"an observation of {agent} does not have the shape {shape}")
        return outcome

    def _open(self, opened: tuple[str, pb.Environment] | None = None) -> pb.Environment:
        """Use a session, by default a new one, and return its description."""
        if opened is None:
            reply = self._server.open(self._name, self._options)
            opened = reply.sessions[0], reply.environment
        self._session, environment = opened
        self._turn = 0
        request = pb.CloseRequest(sessions=[self._session])
        self._finalizer = weakref.finalize(self, self._server.send, "Close", request)
        self._finalizer.atexit = False
        return environment

    def _look(self, thing: int) -> Any:
        request = pb.LookRequest(session=self._session, thing=thing)
        return from_value(self._server.call("Look", request))


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
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        reply = server.open(name, options, whole_number("num_envs", num_envs, 1, 2**16))
        envs = (
            RemoteEnv(server, name, options, (session, reply.environment))
            for session in reply.sessions
        )
        self._server = server
        super().__init__(lambda: next(envs), num_envs, autoreset_mode)

    def _reset_each(
        self, env_ids: Sequence[int], seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> Iterator[Reset]:
        messages = [
            self.envs[i].to_reset(seed, options) for i, seed in zip(env_ids, seeds, strict=True)
        ]
        frames = self._played("Reset", env_ids, messages)
        return (self.envs[i].reset_of(frame) for i, frame in zip(env_ids, frames, strict=True))

    def _step_each(self, actions: Mapping[int, Mapping[str, Any]]) -> Iterator[Step]:
        messages = [self.envs[i].to_step(acts) for i, acts in actions.items()]
        frames = self._played("Step", list(actions), messages)
        return (self.envs[i].step_of(frame) for i, frame in zip(actions, frames, strict=True))

    def _played(
        self, method: str, env_ids: Sequence[int], messages: Sequence[Any]
    ) -> list[pb.Frame]:
        if not messages:
            return []
        frames = self._server.advance(method, messages)
        refusals = []
        for i, frame in zip(env_ids, frames, strict=True):
            try:
                env = self.envs[i]
                env.played(frame, env.agents if method == "Step" else ())
            except RemoteError as refusal:  # raised after all played frames are noted
                refusals.append(RemoteError(f"environment {i}: {refusal}", refusal.code))
        if refusals:
            raise refusals[0]
        return frames


def _mapping(message: pb.Value, kind: type, what: str) -> dict[str, Any] | None:
    """Return a mapping of names to values of a type, or None. Raises WireError for others."""
    value = from_value(message)
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(one, kind) for one in value.values()):
        raise WireError(f"{what} must be a mapping of names to {kind.__name__}, or none")
    return value
