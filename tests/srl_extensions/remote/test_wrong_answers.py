"""Servers that answer wrongly: whatever they say, the client raises an EnvError."""

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


ONES = dict.fromkeys(ZEROS, 1.0)
FRAMES = {
    "another turn": lambda f: setattr(f.frames[0], "turn", 2**64 - 1),
    "another session": lambda f: setattr(f.frames[0], "session", "x"),
    "no frame": lambda f: f.ClearField("frames"),
    "a frame too many": lambda f: f.frames.append(f.frames[0]),
    "no content": lambda f: f.frames[0].ClearField("content"),
    "a reset": content(lambda c: [c[0], c[1], c[-1]]),
    "other agents": content(lambda c: [[], *({"x": 0.0} for _ in c[1:])]),
    "ghosts that play": content(lambda c: c[0].append("ghost")),
    "an agent twice": content(lambda c: c[0].append("agent_0")),
    "another shape": content(lambda c: [c[0], dict.fromkeys(ZEROS, np.zeros(3)), *c[2:]]),
    "words": content(lambda c: [c[0], dict.fromkeys(ZEROS, "a"), *c[2:]]),
    "no number": content(lambda c: [*c[:2], {**ONES, "agent_0": float("nan")}, *c[3:]]),
    "too few rewards": content(lambda c: [*c[:2], {"agent_0": 0.0}, *c[3:]]),
}


@pytest.mark.parametrize("change", FRAMES.values(), ids=FRAMES)
def test_wrong_frames_are_refused(start, monkeypatch, change):
    answers(monkeypatch, "step", change)
    with connect(start().address) as server:
        env = server.env("coop_compete_v0", **OPTIONS)
        games = server.vector("coop_compete_v0", 2, **OPTIONS)
        env.reset(seed=0)
        games.reset(seed=0)
        with pytest.raises(EnvError):
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
