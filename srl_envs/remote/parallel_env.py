"""An environment on a server, as a PettingZoo ParallelEnv."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from pettingzoo import ParallelEnv

from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.remote.connection import Connection, refuse
from srl_envs.remote.errors import RemoteError, WireError
from srl_envs.remote.frames import from_reset, from_step, text_digest, write_actions
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.spaces import from_space
from srl_envs.remote.values import from_value, mapping_of, to_value
from srl_envs.text import SpacesOfAgents, TextView
from srl_envs.untrusted import printable
from srl_envs.validation import Reset, Step, asks_nothing, reset_arguments

Outcome = TypeVar("Outcome", Reset, Step)
OF_THE_GAME = frozenset(
    {
        "height", "keyword_rewards", "messages", "network", "obs_mode", "rules", "split", "task",
        "variant", "view_radius", "width",
    }
)  # fmt: skip
"""Attributes of games that policies and reports read: rules and sizes, the same in all episodes."""


class RemoteEnv(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """The environment `name` of a server, made there with `options`.

    It gives what the same environment gives in this process, number for number: observations,
    rewards, ends, infos, state(), spaces, metadata, teams and baselines. Its text view, and what
    policies read of its rules, are those of the same environment made here; raises EnvError where
    this process cannot make it, or where it would read otherwise than on the server.

    A call whose connection was lost is sent again, and is played once. A session that has ended,
    such as by its lease, is opened again by the next reset with a seed. Raises RemoteError for what
    the server refuses. `opened` is a session that is there already, with its description.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        options: Mapping[str, Any],
        opened: tuple[str, pb.Environment] | None = None,
    ) -> None:
        self._connection, self._name, self._options = connection, name, dict(options)
        self.render_mode: str | None = self._options.get("render_mode")
        if self.render_mode == "human":
            self._options["render_mode"] = "ansi"  # drawn there, printed here
        self.agents: list[str] = []
        self._turn = 0
        self._session = ""
        told = self._open(opened)
        self._texts = told.texts
        self._version = told.version
        self.possible_agents = [agent.name for agent in told.agents]
        self.observation_spaces = {one.name: from_space(one.observations) for one in told.agents}
        self.action_spaces = {one.name: from_space(one.actions) for one in told.agents}
        if told.HasField("state_space"):
            self.state_space = from_space(told.state_space)
        if not self.possible_agents or len(self.action_spaces) < len(self.possible_agents):
            raise WireError("an environment has agents, and each a name of its own")
        self.metadata = mapping_of(told.metadata, "metadata")
        called = self.metadata.get("name")
        if not isinstance(called, str) or ":" in called or not called.isprintable():
            raise WireError(f"{called!r:.80} is no environment's name")  # records will hold it
        self.teams: dict[str, str] | None = _given(told.teams, str, "teams")
        self._baselines: dict[str, float] | None = _given(told.baselines, float, "baselines")
        limit = from_value(told.max_cycles)
        if isinstance(limit, int):
            self.max_cycles: int = limit

    # What stays the same.

    @cached_property
    def local(self) -> Any:
        """The same environment made in this process, never played: its view, rules and sizes."""
        options = {key: value for key, value in self._options.items() if key != "render_mode"}
        env = registry.make(self._name, **options)
        if text_digest(env) != self._texts:
            raise EnvError(
                f"{self._name} reads otherwise on {self._connection.address}, whose core-srl is "
                f"{self._version or 'of a source folder'}: install the same here"
            )
        return env.unwrapped

    @property
    def text_view(self) -> TextView | None:
        """How this environment reads and is answered."""
        return self.local.text_view if self._texts else None

    def baselines(self) -> dict[str, float]:
        """The environment's own: mean rewards per agent and step; nothing where it has none."""
        return dict(self._baselines or {})

    def __getattr__(self, name: str) -> Any:
        if name in OF_THE_GAME:
            return getattr(self.local, name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    # Play.

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode, as the environment itself does."""
        seed, given = reset_arguments(seed, options)
        try:
            [frame] = self._connection.advance("Reset", [self.to_reset(seed, given)])
        except RemoteError as error:
            if error.code != "NOT_FOUND" or seed is None:
                raise
            self._open()
            [frame] = self._connection.advance("Reset", [self.to_reset(seed, given)])
        return self.reset_of(self.played(frame))

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round with one action per agent."""
        if asks_nothing(self._turn > 0, self.agents, actions):
            return {}, {}, {}, {}, {}
        [frame] = self._connection.advance("Step", [self.to_step(actions)])
        return self.step_of(self.played(frame, self.agents))

    def state(self) -> Any:
        """The joint state of all agents."""
        return self._look(pb.LookRequest.STATE)

    def render(self) -> Any:
        """The last round as the render mode has it; "human" writes to stdout."""
        if self.render_mode is None:
            raise EnvError("render() needs a render_mode: construct with one")
        picture = self._look(pb.LookRequest.PICTURE)
        if self.render_mode != "human":
            return picture
        if not isinstance(picture, str):
            raise WireError(f"a picture for people is text, got {type(picture).__name__}")
        sys.stdout.write(printable(picture))
        return None

    def close(self) -> None:
        """End the session."""
        self._finalizer()

    # For many at once.

    def to_reset(self, seed: int | None, options: Mapping[str, Any]) -> pb.SessionReset:
        """The message of a reset."""
        return pb.SessionReset(
            session=self._session, turn=self._turn, seed=seed, options=to_value(options)
        )

    def to_step(self, actions: Mapping[str, Any]) -> pb.SessionStep:
        """The message of a step."""
        message = pb.SessionStep(session=self._session, turn=self._turn)
        write_actions(actions, message.actions)
        return message

    def played(self, frame: pb.Frame, owed: Iterable[str] = ()) -> pb.Frame:
        """The frame, once it is noted; it has to be about the agents `owed`.

        Raises RemoteError where it is refused, and WireError for one that is not the answer.
        """
        refuse(frame)
        if (frame.session, frame.turn) != (self._session, self._turn):
            raise WireError("a frame is of another session or turn than was asked for")
        agents, playing = set(frame.agents), set(frame.playing)
        unique = len(agents) == len(frame.agents) and len(playing) == len(frame.playing)
        if not (unique and agents <= self.action_spaces.keys() and agents >= playing.union(owed)):
            raise WireError("a frame is about other agents than those that play")
        self._turn = frame.turn + 1
        self.agents = list(frame.playing)
        return frame

    def reset_of(self, frame: pb.Frame) -> Reset:
        """What reset() returns. Raises WireError for another frame."""
        return self._checked(from_reset(frame))

    def step_of(self, frame: pb.Frame) -> Step:
        """What step() returns. Raises WireError for another frame."""
        return self._checked(from_step(frame))

    def _checked(self, outcome: Outcome) -> Outcome:
        """The outcome; raises WireError for observations of another shape than their space's."""
        for agent, seen in outcome[0].items():
            shape = self.observation_spaces[agent].shape
            if shape is not None and (np.shape(seen) != shape or isinstance(seen, str)):
                raise WireError(f"an observation of {agent} is not of the shape {shape}")
        return outcome

    def _open(self, opened: tuple[str, pb.Environment] | None = None) -> pb.Environment:
        """Take a session, a new one unless it was opened already, and what it tells of itself."""
        if opened is None:
            reply = self._connection.open(self._name, self._options)
            opened = reply.sessions[0], reply.environment
        self._session, environment = opened
        self._turn = 0
        ending = pb.CloseRequest(sessions=[self._session])
        self._finalizer = weakref.finalize(self, self._connection.send, "Close", ending)
        self._finalizer.atexit = False
        return environment

    def _look(self, thing: int) -> Any:
        return from_value(
            self._connection.call("Look", pb.LookRequest(session=self._session, thing=thing))
        )


def _given(message: pb.Value, kind: type, what: str) -> dict[str, Any] | None:
    """A mapping of agents or names to values of a kind, or None. Raises WireError for others."""
    told = from_value(message)
    if told is None:
        return None
    if not isinstance(told, dict) or not all(isinstance(one, kind) for one in told.values()):
        raise WireError(f"{what} must be a mapping of names to {kind.__name__}, or none")
    return told
