"""Our games behind OpenEnv's server, through OpenEnv's own client."""

import asyncio
import contextlib
import http.client
import json
import socket
from urllib.parse import urlsplit

import numpy as np
import pytest
from openenv.core.generic_client import GenericEnvClient
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from srl_envs import make
from srl_envs.errors import EnvConfigError
from srl_envs.records import encode, is_plain
from srl_envs.text import TextEnv
from srl_extensions.remote.openenv_server import ServedGame, create_app, in_background, server_at

WORDS = {
    "coop_compete_v0": {"num_agents": 3, "max_cycles": 6},
    "maze_race_v0": {"max_cycles": 10},
    "math_v0": {"num_agents": 2},
    "debate_v0": {},
}


@pytest.fixture(scope="module")
def all_games():
    games = {name: ServedGame(name, options) for name, options in WORDS.items()}
    with in_background(create_app(games)) as address:
        yield address


def drawn(rng, env, agent):
    """A legal answer, one time in four an illegal one."""
    answers = env.unwrapped.text_view.answers(agent) or ("4", "I am for it.", "{}")
    return "not an answer" if rng.random() < 0.25 else str(rng.choice(answers))


def plain(info):
    return encode({key: value for key, value in info.items() if is_plain(value)})


def same(one, other):
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@pytest.mark.parametrize(("name", "options"), WORDS.items())
def test_every_turn_equals_the_local_one(all_games, name, options):
    env = TextEnv(make(name, **options))
    with GenericEnvClient(base_url=all_games) as client:
        for seed in (0, 7):
            rng = np.random.default_rng(seed)
            reply = client.reset(seed=seed, environment=name)
            assert reply.observation["observations"] == env.reset(seed=seed)[0]
            while env.agents:
                assert reply.observation["agents"] == env.agents and not reply.done
                actions = {agent: drawn(rng, env, agent) for agent in env.agents}
                reply = client.step({"actions": actions})
                observations, rewards, terminations, truncations, infos = env.step(actions)
                said = reply.observation
                assert said["observations"] == observations
                assert said["rewards"] == rewards and reply.reward == sum(rewards.values())
                assert (said["terminations"], said["truncations"]) == (terminations, truncations)
                assert same(said["infos"], {agent: plain(info) for agent, info in infos.items()})
            assert reply.done


def test_concurrent_sessions_are_separate_games(url):
    async def play(seed):
        async with GenericEnvClient(base_url=url) as client:
            seen = [(await client.reset(seed=seed)).observation["observations"]]
            for _ in range(5):
                answers = {
                    f"agent_{i}": "compete" if seed >> i & 1 else "cooperate" for i in range(3)
                }
                seen.append((await client.step({"actions": answers})).observation["observations"])
            return seen

    async def all_at_once():
        return await asyncio.gather(*map(play, range(32)))

    for seed, seen in enumerate(asyncio.run(all_at_once())):
        env = TextEnv(make("coop_compete_v0", num_agents=3, max_cycles=5))
        expected = [env.reset(seed=seed)[0]]
        answers = {f"agent_{i}": "compete" if seed >> i & 1 else "cooperate" for i in range(3)}
        expected += [env.step(answers)[0] for _ in range(5)]
        assert seen == expected


def test_sessions_beyond_the_limit_are_refused():
    app = create_app({"bandit": ServedGame("bandit_v0")}, max_sessions=1)
    with in_background(app) as url, GenericEnvClient(base_url=url) as first:
        first.reset()
        with (
            GenericEnvClient(base_url=url) as second,
            pytest.raises(RuntimeError, match="CAPACITY"),
        ):
            second.reset()
        first.step({"actions": {"agent_0": "left"}})


@pytest.mark.parametrize(
    ("host", "origin", "admitted"),
    [
        ("127.0.0.1", None, True),
        ("127.0.0.1", "http://127.0.0.1:{port}", True),
        ("localhost", "http://localhost:{port}", True),
        ("127.0.0.1", "http://127.0.0.1:1", False),
        ("127.0.0.1", "https://evil.example", False),
        ("127.0.0.1", "null", False),
        ("evil.example", None, False),
        ("evil.example", "http://evil.example:{port}", False),
    ],
)
def test_pages_of_other_sites_are_refused(url, host, origin, admitted):
    port = urlsplit(url).port
    headers = {} if origin is None else {"Origin": origin.format(port=port)}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/health", headers=headers | {"Host": f"{host}:{port}"})
    assert connection.getresponse().status == (200 if admitted else 421)
    connection.close()
    with contextlib.ExitStack() as ends:
        if not admitted:
            ends.enter_context(pytest.raises(InvalidStatus, match="421"))
        # The name in the Host header is not the address of the connection.
        reached = ends.enter_context(socket.create_connection(("127.0.0.1", port), 20))
        connect(f"ws://{host}:{port}/ws", sock=reached, additional_headers=headers).close()


def test_wrong_message_is_refused_and_the_game_continues(url):
    with GenericEnvClient(base_url=url) as client:
        client.reset(seed=0)
        for action, told in (
            ({"actions": {"agent_9": "x"}}, "no action for agent_0"),
            ({"actions": {"agent_0": "compete"}}, "no action for agent_1"),
            ({"actions": {"agent_0": [1]}}, "Invalid message"),
            ({"code": "import os"}, "Invalid message"),
        ):
            with pytest.raises(RuntimeError, match=told):
                client.step(action)
        for arguments, told in (
            (
                {"environment": "maze_v0"},
                "is not served here; there are: three, pair",
            ),
            ({"environment": "os:system"}, "is not served here"),
            ({"environment": ["three"]}, "is not served here"),
            ({"seed": -1}, "seed"),
            ({"seed": "x"}, "seed"),
            ({"episodes": 3}, "takes seed, episode_id"),
        ):
            with pytest.raises(RuntimeError, match=told):
                client.reset(**arguments)
        reply = client.step(
            {"actions": dict.fromkeys(("agent_0", "agent_1", "agent_2"), "compete")}
        )
        assert reply.observation["observations"]["agent_0"].startswith("Round 2 of 5.")


def test_oversized_message_ends_only_its_session(url):
    with GenericEnvClient(base_url=url) as other:
        other.reset(seed=0)
        with connect(url.replace("http", "ws") + "/ws", proxy=None) as rude:
            rude.send("x" * (5 * 2**20))
            with pytest.raises(Exception, match="1009"):
                rude.recv(timeout=20)
        assert other.state()["environment"] == "three"


def test_oversized_body_is_refused_before_its_end(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    with contextlib.closing(connection):
        connection.putrequest("POST", "/reset")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(5):  # the last chunk, which ends the body, is never sent
            connection.send(b"100000\r\n" + b" " * 2**20 + b"\r\n")
        assert connection.getresponse().status == 413


def test_state_names_the_game(url):
    with GenericEnvClient(base_url=url) as client:
        client.reset(environment="pair", episode_id="mine")
        state = client.state()
    assert state["episode_id"] == "mine"
    assert state["environments"] == ["three", "pair"]
    assert state["possible_agents"] == ["agent_0"]
    assert state["answers"] == {"agent_0": ["compete", "cooperate"]}


@pytest.mark.parametrize(
    ("games", "told"),
    [
        ({}, "no games"),
        ({"a": ServedGame("maze_v9")}, "there is no environment"),
        ({"a": ServedGame("maze_v0", {"split": "test"})}, "kept for evaluation"),
        ({"a": ServedGame("maze_v0", {"sizes": 3})}, "no parameter"),
    ],
)
def test_unservable_environment_is_refused_before_serving(games, told):
    with pytest.raises(EnvConfigError, match=told):
        create_app(games)


def test_other_machines_cannot_connect():
    assert server_at(None, 8000).config.host == "127.0.0.1"
