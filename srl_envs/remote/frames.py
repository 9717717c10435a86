"""Frames: what a reset or a step of an environment gave, and the actions for it, as messages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from srl_envs.remote.errors import WireError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.values import Room, from_value, write
from srl_envs.text import TextAction
from srl_envs.validation import Reset, Step


def to_frame(session: str, turn: int, outcome: Reset | Step, env: Any) -> pb.Frame:
    """The message of what reset() or step() of `env` returned."""
    observations, infos = outcome[0], outcome[-1]
    agents = list(observations)
    frame = pb.Frame(session=session, turn=turn, agents=agents, playing=env.agents)
    write(list(observations.values()), frame.observations)
    write([infos.get(agent, {}) for agent in agents], frame.infos)
    if len(outcome) == 5:
        _, rewards, terminations, truncations, _ = outcome
        frame.rewards.extend([float(rewards[agent]) for agent in agents])
        frame.terminations.extend([bool(terminations[agent]) for agent in agents])
        frame.truncations.extend([bool(truncations[agent]) for agent in agents])
    return frame


def from_reset(frame: pb.Frame) -> Reset:
    """What reset() returns. Raises WireError for another frame."""
    agents = list(frame.agents)
    infos = _each(agents, from_value(frame.infos))
    if not all(isinstance(info, dict) for info in infos.values()):
        raise WireError("infos must be mappings")
    return _each(agents, from_value(frame.observations)), infos


def from_step(frame: pb.Frame) -> Step:
    """What step() returns. Raises WireError for another frame."""
    observations, infos = from_reset(frame)
    rewards, terminations, truncations = (
        _each(observations, values)
        for values in (frame.rewards, frame.terminations, frame.truncations)
    )
    if not all(map(math.isfinite, frame.rewards)):
        raise WireError("rewards must be finite")
    return observations, rewards, terminations, truncations, infos


def _each(agents: Iterable[str], values: Any) -> dict[str, Any]:
    """Agent -> its value."""
    try:
        return dict(zip(agents, values, strict=True))
    except (TypeError, ValueError) as error:
        raise WireError("a frame must have one value for each agent") from error


def write_actions(actions: Mapping[str, Any], messages: Any) -> None:
    """Write the actions of a step into messages."""
    for agent, action in actions.items():
        message = messages.add()
        message.agent = agent
        write(action, message.action)
        if isinstance(action, TextAction):
            message.text = action.text


def from_actions(messages: Iterable[pb.Action]) -> dict[str, Any]:
    """The actions of a step."""
    actions, room = {}, Room()
    for message in messages:
        action = from_value(message.action, room)
        if message.HasField("text") and isinstance(action, int):
            action = TextAction(action, message.text)
        actions[message.agent] = action
    return actions


def text_digest(env: Any) -> bytes:
    """SHA-256 of how an environment reads and is answered; empty where it has no text view.

    Two sides that run the same rules and words agree in it.
    """
    view = getattr(env.unwrapped, "text_view", None)
    if view is None:
        return b""
    told = [(agent, view.rules(agent), view.answers(agent)) for agent in env.possible_agents]
    words = repr((told, view.default_action, float(view.parse_penalty)))
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).digest()
