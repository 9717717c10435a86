"""Servers that answer wrongly: whatever they say, the client raises an EnvError."""

from __future__ import annotations

import numpy as np
import pytest

from srl_envs.errors import EnvError
from srl_extensions.remote import connect
from srl_extensions.remote import environments_pb2 as pb
from srl_extensions.remote.grpc_server import Service
from srl_extensions.remote.messages import to_value

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


def set_all(repeated, values):
    del repeated[:]
    repeated.extend(values)


FRAMES = {
    "another turn": lambda f: setattr(f.frames[0], "turn", 2**64 - 1),
    "another session": lambda f: setattr(f.frames[0], "session", "x"),
    "no frame": lambda f: f.ClearField("frames"),
    "a frame too many": lambda f: f.frames.append(f.frames[0]),
    "other agents": lambda f: set_all(f.frames[0].agents, ["x", "y"]),
    "an agent twice": lambda f: set_all(f.frames[0].agents, ["agent_0", "agent_0"]),
    "ghosts that play": lambda f: set_all(f.frames[0].playing, ["ghost"]),
    "another shape": lambda f: set_all(f.frames[0].observations.rows.shape, [2, 1, 7]),
    "words": lambda f: f.frames[0].observations.CopyFrom(to_value(["a", "b"])),
    "no number": lambda f: set_all(f.frames[0].rewards, [0.0, float("nan")]),
    "too few rewards": lambda f: set_all(f.frames[0].rewards, [0.0]),
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


def named(name):
    return lambda reply: reply.environment.metadata.CopyFrom(to_value({"name": name}))


OPENINGS = {
    "no session": lambda r: r.ClearField("sessions"),
    "no agents": lambda r: r.environment.ClearField("agents"),
    "an agent twice": lambda r: r.environment.agents.append(r.environment.agents[0]),
    "no name": lambda r: r.environment.metadata.CopyFrom(to_value({})),
    "a name of code": named("os:system"),
    "a name of a server": named("grpc://127.0.0.1:1/x"),
    "a name for terminals": named("\x1b[31m"),
    "teams": lambda r: r.environment.teams.CopyFrom(to_value([1])),
    "baselines": lambda r: r.environment.baselines.CopyFrom(to_value({"random": "x"})),
    "a space": lambda r: r.environment.agents[0].actions.CopyFrom(pb.Space()),
}


@pytest.mark.parametrize("change", OPENINGS.values(), ids=OPENINGS)
def test_wrong_descriptions_are_refused(start, monkeypatch, change):
    answers(monkeypatch, "open", change)
    with connect(start().address) as server, pytest.raises(EnvError):
        server.env("coop_compete_v0", **OPTIONS)
