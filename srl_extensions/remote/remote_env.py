"""Environment on a gRPC server as a PettingZoo ParallelEnv."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pettingzoo import ParallelEnv

import srl_extensions.remote.environments_pb2 as pb
from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.records import read_record
from srl_envs.text import SpacesOfAgents, TextView
from srl_envs.validation import Reset, Step, asks_nothing, reset_arguments
from srl_extensions.remote.errors import RemoteError
from srl_extensions.remote.messages import (
    RESULTS,
    Description,
    from_space,
    pack,
    pack_actions,
    unpack_outcome,
)
from srl_train.run_files import versions

if TYPE_CHECKING:
    from srl_extensions.remote.client import EnvServer

RULES = frozenset({
    "acts", "features", "height", "messages", "obs_mode", "rules", "split", "task", "variant",
    "view_radius", "width",
})  # fmt: skip
"""Attributes of games that policies and reports read; they are the same in all episodes."""


class RemoteEnv(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Environment on a server, whose results equal those of the local environment.

    `text_view` and the attributes in RULES are read from `local`, and raise its errors.
    Constructor, `reset` and `step` raise RemoteError if a call of the server fails.
    """

    render_mode = None

    def __init__(self, server: EnvServer, name: str, options: Mapping[str, Any]) -> None:
        self._server, self._name, self._options = server, name, dict(options)
        self.agents: list[str] = []
        self._begun = False
        described = self._open()
        self.metadata = described.metadata
        self.possible_agents = list(described.observation_spaces)
        observed, acted = described.observation_spaces, described.action_spaces
        self.observation_spaces = {agent: from_space(one) for agent, one in observed.items()}
        self.action_spaces = {agent: from_space(one) for agent, one in acted.items()}
        self.teams, self.talk = described.teams, self._options.get("talk", 0)
        self._described = described
        if described.max_cycles is not None:
            self.max_cycles = described.max_cycles

    @cached_property
    def local(self) -> Any:
        """Same environment, made in this process; EnvError if this fails or releases differ."""
        there, here = self._server.describe().version, versions().get("core-srl", "")
        if there != here:
            raise EnvError(
                f"texts of {self._name} require the same core-srl as {self._server.address}, which "
                f"has {there or 'a source folder'}, got {here or 'a source folder'}"
            )
        return registry.make(self._name, **self._options).unwrapped

    @property
    def text_view(self) -> TextView | None:
        """Text view of `local`, or None if the server has none; raises the errors of `local`."""
        return self.local.text_view if self._described.has_text else None

    def baselines(self) -> dict[str, float]:
        """Return reference policy -> mean reward per agent and step; {} if the game has none."""
        return dict(self._described.baselines or {})

    def __getattr__(self, name: str) -> Any:
        if name in RULES:
            return getattr(self.local, name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; return observations and infos by agent. EnvError if this fails.

        If the session has ended, a reset with a `seed` opens a new one; without, it fails.
        """
        seed, given = reset_arguments(seed, options)
        request = pb.ResetRequest(session=self._session, seed=seed, options=pack(dict(given)))
        try:
            frame = self._server.call("Reset", request)
        except RemoteError as error:
            if error.code != "NOT_FOUND" or seed is None:
                raise
            self._open()
            request.session = self._session
            frame = self._server.call("Reset", request)
        self._begun = True
        outcome: Reset = self._received(frame)
        return outcome

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play a step; return its results by agent. EnvError for wrong actions or a failed call."""
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        request = pb.StepRequest(session=self._session, actions=pack_actions(actions))
        outcome: Step = self._received(self._server.call("Step", request), RESULTS, self.agents)
        return outcome

    def close(self) -> None:
        """End the session on the server; failures of the call are ignored."""
        self._finalizer()

    def _received(
        self, frame: pb.Frame, kinds: Sequence[type] = (), required: Iterable[str] = ()
    ) -> Any:
        self.agents, outcome = unpack_outcome(
            frame.content, kinds, self.observation_spaces, required
        )
        return outcome

    def _open(self) -> Description:
        request = pb.OpenRequest(environment=self._name, options=pack(self._options))
        reply = self._server.call("Open", request)
        self._session = reply.session
        self._finalizer = weakref.finalize(self, self._server.end, self._session)
        self._finalizer.atexit = False
        try:
            return read_record(Description, json.loads(reply.environment))
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise RemoteError(f"the description is invalid: {error}") from error
