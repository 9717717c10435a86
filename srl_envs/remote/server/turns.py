"""Turns of sessions: resets and steps as calls ask for them, read and played in a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from srl_envs.errors import EnvError
from srl_envs.remote.frames import from_actions, to_frame
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server.refusals import Refused
from srl_envs.remote.server.sessions import Session
from srl_envs.remote.values import mapping_of, to_value

MOST_STEPS = 1_000_000
"""Maximum number of steps of a session between two resets."""


@dataclass(frozen=True)
class Turn:
    """One session's reset or step, as it was asked for."""

    session: str
    number: int
    resets: bool
    play: Callable[[Any], Any]
    """Takes the environment, and gives what its reset() or step() returns."""


def resets(request: pb.ResetRequest) -> list[Turn]:
    """Those of a call."""
    return [
        Turn(one.session, one.turn, True, partial(_reset, asked=one)) for one in request.sessions
    ]


def steps(request: pb.StepRequest) -> list[Turn]:
    """Those of a call."""
    return [
        Turn(one.session, one.turn, False, partial(_step, asked=one)) for one in request.sessions
    ]


def looked(session: Session, method: str) -> pb.Value:
    """What the environment's `method` gives: "state" or "render"."""
    if not session.turn:
        raise EnvError(f"{method}() before the first reset(): call reset() first")
    return to_value(getattr(session.env, method)())


def played(turn: Turn, session: Session) -> pb.Frame:
    """The frame of a turn; once it is there, the session is a turn further."""
    env = session.env
    if not turn.resets and turn.number - session.began > MOST_STEPS:
        raise Refused(
            "RESOURCE_EXHAUSTED", "too many steps",
            f"an episode must have at most {MOST_STEPS} steps, got another: reset the environment",
        )  # fmt: skip
    frame = to_frame(session.id, turn.number, turn.play(env), env)
    session.turn, session.reply = turn.number + 1, frame
    if turn.resets:
        session.began = turn.number
    return frame


# What is asked is read here, in a thread and when its turn has come: read, it takes more memory.


def _reset(env: Any, asked: pb.SessionReset) -> Any:
    seed = asked.seed if asked.HasField("seed") else None
    options = mapping_of(asked.options, "options") if asked.HasField("options") else None
    return env.reset(seed=seed, options=options)


def _step(env: Any, asked: pb.SessionStep) -> Any:
    return env.step(from_actions(asked.actions))
