"""Frames: what a reset or a step of an environment gave, and the actions for it, as messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from srl_envs.errors import EnvError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.values import from_value, mapping_of, to_value
from srl_envs.text.view import TextAction
from srl_envs.validation import Step, shown

Reset = tuple[dict[str, Any], dict[str, dict[str, Any]]]


def to_frame(session: str, turn: int, outcome: Reset | Step, env: Any) -> pb.Frame:
    """The message of what reset() or step() of `env` returned."""
    frame = pb.Frame(session=session, turn=turn, playing=env.agents)
    observations, infos = outcome[0], outcome[-1]
    for agent, seen in observations.items():
        frame.agents.add(
            agent=agent, observation=to_value(seen), info=to_value(infos.get(agent, {}))
        )
    if len(outcome) == 5:
        _, rewards, terminations, truncations, _ = outcome
        for each in frame.agents:
            each.reward = float(rewards[each.agent])
            each.terminated = bool(terminations[each.agent])
            each.truncated = bool(truncations[each.agent])
    return frame


def from_reset(frame: pb.Frame) -> Reset:
    """What reset() returns."""
    return (
        {each.agent: from_value(each.observation) for each in frame.agents},
        {each.agent: mapping_of(each.info, "an info") for each in frame.agents},
    )


def from_step(frame: pb.Frame) -> Step:
    """What step() returns."""
    observations, infos = from_reset(frame)
    return (
        observations,
        {each.agent: each.reward for each in frame.agents},
        {each.agent: each.terminated for each in frame.agents},
        {each.agent: each.truncated for each in frame.agents},
        infos,
    )


def to_actions(actions: Any) -> list[pb.Action]:
    """The messages of the actions of a step. Raises EnvError for what is no mapping of them."""
    if not isinstance(actions, Mapping):
        raise EnvError(f"actions must be a mapping agent -> action, got {shown(actions)}")
    return [
        pb.Action(agent=agent, action=to_value(action), text=getattr(action, "text", None))
        for agent, action in actions.items()
    ]


def from_actions(messages: Iterable[pb.Action]) -> dict[str, Any]:
    """The actions of a step."""
    actions = {}
    for message in messages:
        action = from_value(message.action)
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
