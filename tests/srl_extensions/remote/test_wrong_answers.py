"""The client raises EnvError for every invalid reply of a server."""

from __future__ import annotations

import json

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
    """Change the content of the frame."""

    def changed(reply):
        reply.content = pack(change(unpack(reply.content)))

    return changed


def part(place, change):
    """Change one part: active agents, observations, rewards, ends (3 and 4), infos."""
    return content(lambda c: [*c[:place], change(c[place]), *c[place + 1 :]])


FRAMES = {
    "no content": lambda f: f.ClearField("content"),
    "a reset": content(lambda c: [*c[:2], c[-1]]),
    "too few parts": content(lambda c: [*c[:3], c[-1]]),
    "other agents": content(lambda c: [["x"], *({"x": 0.0} for _ in c[1:])]),
    "an agent too few": part(1, lambda seen: {"agent_0": seen["agent_0"]}),
    "agents without names": part(0, lambda playing: [["agent_0"], "agent_1"]),
    "ghosts that play": part(0, lambda playing: ["agent_0", "ghost"]),
    "another shape": part(1, lambda seen: dict.fromkeys(seen, np.zeros(3))),
    "words": part(1, lambda seen: dict.fromkeys(seen, "a")),
    "one observation": part(1, lambda seen: seen["agent_0"]),
    "no number": part(2, lambda rewards: dict.fromkeys(rewards, np.nan)),
    "too few rewards": part(2, lambda rewards: {"agent_0": 1.0}),
    "words for rewards": part(2, lambda rewards: dict.fromkeys(rewards, "a")),
    "numbers for ends": part(3, lambda ends: dict.fromkeys(ends, 1)),
    "infos of one agent": part(5, lambda infos: {"agent_0": {}}),
    "infos that are no mappings": part(5, lambda infos: dict.fromkeys(infos, 1)),
}


@pytest.mark.parametrize("change", FRAMES.values(), ids=FRAMES)
def test_wrong_frames_are_refused(start, monkeypatch, change):
    answers(monkeypatch, "step", change)
    with connect(start().address) as server:
        env = server.env("coop_compete_v0", **OPTIONS)
        env.reset(seed=0)
        with pytest.raises(EnvError, match=r"frame|rewards|observation|cannot be read"):
            env.step(ZEROS)


def described(**changed):
    def change(reply):
        reply.environment = json.dumps(json.loads(reply.environment) | changed).encode()

    return change


OPENINGS = {
    "no description": lambda r: r.ClearField("environment"),
    "no spaces": described(observation_spaces={"agent_0": None}),
    "teams": described(teams=[1]),
    "baselines": described(baselines={"random": "x"}),
}


@pytest.mark.parametrize("change", OPENINGS.values(), ids=OPENINGS)
def test_wrong_descriptions_are_refused(start, monkeypatch, change):
    answers(monkeypatch, "open", change)
    with connect(start().address) as server, pytest.raises(EnvError):
        server.env("coop_compete_v0", **OPTIONS)
