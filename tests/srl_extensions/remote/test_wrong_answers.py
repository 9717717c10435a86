"""The client raises EnvError for every invalid reply of a server."""

from __future__ import annotations

import numpy as np
import pytest

from srl_envs.errors import EnvError
from srl_extensions.remote import connect
from srl_extensions.remote.grpc_server import Service
from srl_extensions.remote.messages import pack, unpack

OPTIONS = {"num_agents": 2, "max_cycles": 5}
ZEROS = {"agent_0": 0, "agent_1": 0}


def answers(monkeypatch, method, change):
    """Has the servers that start from now on answer otherwise."""
    right = getattr(Service, method)

    async def wrong(self, *arguments, **settings):
        reply = await right(self, *arguments, **settings)
        reply = type(reply).FromString(reply.SerializeToString())
        change(reply)
        return reply

    monkeypatch.setattr(Service, method, wrong)


def content(change):
    """Change the content of the first frame."""

    def changed(reply):
        parts = unpack(reply.frames[0].content)
        parts = change(parts) or parts
        reply.frames[0].content = pack(parts)

    return changed


def part(place, change):
    """Change one part: agents, agents that play on, observations, table of numbers, infos."""
    return content(lambda c: [*c[:place], change(c[place]), *c[place + 1 :]])


NAN = np.array([[1.0, np.nan], [0, 0], [0, 0]])
FRAMES = {
    "another turn": lambda f: setattr(f.frames[0], "turn", 2**64 - 1),
    "another session": lambda f: setattr(f.frames[0], "session", "x"),
    "no frame": lambda f: f.ClearField("frames"),
    "a frame too many": lambda f: f.frames.append(f.frames[0]),
    "no content": lambda f: f.frames[0].ClearField("content"),
    "a reset": content(lambda c: [*c[:3], c[-1]]),
    "other agents": part(0, lambda agents: ["agent_0", "x"]),
    "an agent too few": part(0, lambda agents: agents[:1]),
    "agents without names": part(0, lambda agents: [["agent_0"], "agent_1"]),
    "ghosts that play": part(1, lambda playing: ["agent_0", "ghost"]),
    "an agent twice": part(1, lambda playing: ["agent_0", "agent_0"]),
    "another shape": part(2, lambda seen: np.zeros((2, 3))),
    "words": part(2, lambda seen: ["a", "a"]),
    "one observation": part(2, lambda seen: seen[:1]),
    "no number": part(3, lambda table: NAN),
    "too few rewards": part(3, lambda table: table[:, :1]),
    "words for rewards": part(3, lambda table: [["a", "b"]] * 3),
    "infos of one agent": part(4, lambda infos: {"action_mask": [1]}),
    "infos that are no mappings": part(4, lambda infos: [1, 2]),
}


@pytest.mark.parametrize("change", FRAMES.values(), ids=FRAMES)
def test_wrong_frames_are_refused(start, monkeypatch, change):
    answers(monkeypatch, "step", change)
    with connect(start().address) as server:
        env = server.env("coop_compete_v0", **OPTIONS)
        games = server.vector("coop_compete_v0", 2, **OPTIONS)
        env.reset(seed=0)
        games.reset(seed=0)
        with pytest.raises(EnvError, match=r"frame|rewards|infos|observation|cannot be read"):
            env.step(ZEROS)
        with pytest.raises(EnvError):
            games.step(np.zeros((2, 2), int))


def described(**changed):
    def change(reply):
        reply.environment = pack(unpack(reply.environment) | changed)

    return change


OPENINGS = {
    "no session": lambda r: r.ClearField("sessions"),
    "no description": lambda r: r.ClearField("environment"),
    "no agents": described(spaces={}),
    "no spaces": described(spaces={"agent_0": None}),
    "no name": described(metadata={}),
    "a name of code": described(metadata={"name": "os:system"}),
    "a name of a server": described(metadata={"name": "grpc://127.0.0.1:1/x"}),
    "a name for terminals": described(metadata={"name": "\x1b[31m"}),
    "teams": described(teams=[1]),
    "baselines": described(baselines={"random": "x"}),
}


@pytest.mark.parametrize("change", OPENINGS.values(), ids=OPENINGS)
def test_wrong_descriptions_are_refused(start, monkeypatch, change):
    answers(monkeypatch, "open", change)
    with connect(start().address) as server, pytest.raises(EnvError):
        server.env("coop_compete_v0", **OPTIONS)
