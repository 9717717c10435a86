"""What a server refuses, in one line each, and counts."""

from __future__ import annotations

import threading
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from srl_agents.scripted.game_player import ScriptedPlayer
from srl_envs.errors import EnvError
from srl_envs.remote import connect
from srl_envs.remote.errors import RemoteError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server import service, turns
from srl_envs.remote.values import to_value
from tests.srl_envs.remote.server import misbehaving

TOKENS = "a" * 20, "b" * 20
OWN = "tests.srl_envs.remote.server.misbehaving"


def raw(running, method, data, token=""):
    """The status of a call of plain bytes."""
    with grpc.insecure_channel(running.address) as channel:
        call = channel.unary_unary(f"/srl.env.v1.Environments/{method}")
        metadata = [("authorization", f"Bearer {token}")] if token else []
        with pytest.raises(grpc.RpcError) as refused:
            call(data, metadata=metadata, timeout=20)
    assert "\n" not in refused.value.details()
    return refused.value.code().name


def test_without_a_token_nothing_but_a_health_check_answers(start):
    running = start(tokens=TOKENS)
    for wrong in ("", "c" * 20, "a" * 19):
        assert raw(running, "Describe", b"", wrong) == "UNAUTHENTICATED"
        with pytest.raises(RemoteError, match=r"that this server knows: .* SRL_ENV_TOKEN"):
            connect(running.address, token=wrong)
    assert running.refused["unauthenticated"] == 6
    with grpc.insecure_channel(running.address) as channel:
        asked = health_pb2.HealthCheckRequest(service="srl.env.v1.Environments")
        health = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=20)
    assert health.status == health_pb2.HealthCheckResponse.SERVING


def test_the_sessions_of_another_client_are_not_there(start, monkeypatch):
    running = start(tokens=TOKENS, max_sessions_per_client=2, max_sessions=3)
    monkeypatch.setenv("SRL_ENV_TOKEN", TOKENS[1])
    with connect(running.address, token=TOKENS[0]) as one, connect(running.address) as other:
        mine, theirs = one.env("coop_compete_v0"), other.env("coop_compete_v0")
        mine.reset(seed=0)
        theirs._session, theirs._turn, theirs.agents = mine._session, mine._turn, mine.agents
        with pytest.raises(RemoteError, match="there is no such session"):
            theirs.step(dict.fromkeys(mine.agents, 0))
        # Limits: of a client, and of all.
        with pytest.raises(RemoteError, match=r"2 more sessions, with 1 open, .* 2 that you may"):
            one.vector("coop_compete_v0", 2)
        another = one.env("coop_compete_v0")
        with pytest.raises(RemoteError, match="3 that this server has in all"):
            other.env("coop_compete_v0")
        another.close()
    assert running.refused == {"unknown session": 1, "too many sessions": 2}


def test_oversized_requests(start):
    running = start()
    assert raw(running, "Open", b"x" * (5 << 20)) == "RESOURCE_EXHAUSTED"
    assert running.refused == {"oversized": 1}
    assert raw(running, "Open", b"x" * (9 << 20)) == "RESOURCE_EXHAUSTED"  # by gRPC


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("Open", b"\xff\xff"),
        ("Open", pb.OpenRequest(environment="coop_compete_v0")),
        ("Open", pb.OpenRequest(environment="coop_compete_v0", options=to_value([1]))),
        ("Step", pb.StepRequest(sessions=[pb.SessionStep(session="x")] * 2)),
        ("Look", pb.LookRequest(session="x", thing=7)),
    ],
)
def test_malformed_requests(start, method, data):
    running = start()
    data = data if isinstance(data, bytes) else data.SerializeToString()
    assert raw(running, method, data) == "INVALID_ARGUMENT"
    assert running.refused == {"malformed": 1}


def test_values_that_are_none_are_refused_in_their_session_alone(start):
    running = start()
    with connect(running.address) as server:
        games = server.vector("coop_compete_v0", 2)
        games.reset(seed=0)
        steps = [one.to_step(dict.fromkeys(one.agents, 0)) for one in games.envs]
        steps[0].actions[0].ClearField("action")
        refused, played = server.advance("Step", steps)
        assert refused.refusal.message == "a value is missing"
        assert played.turn == 1 and not played.HasField("refusal")
        assert running.refused == {"malformed": 1}


class HeldPlayer:
    """Plays no game to its end before it is told."""

    policies = ("one",)

    def __init__(self):
        self.began, self.free = threading.Event(), threading.Event()

    def __call__(self, env, players, seed, at_turn):
        self.began.set()
        assert self.free.wait(60)
        raise EnvError("nothing was played")


class EndlessPlayer(HeldPlayer):
    """Plays one step after another, all of them the first."""

    def __call__(self, env, players, seed, at_turn):
        self.began.set()
        while True:
            at_turn(1)
            time.sleep(0.001)


def test_games_whose_client_is_gone_count_until_they_end(start):
    player = HeldPlayer()
    running = start(player=player, max_sessions_per_client=1)
    request = pb.PlayRequest(
        environment="coop_compete_v0", options=to_value({}), players={"agent_0": "one"}, seeds=[1]
    )
    with connect(running.address) as server:
        try:
            playing = server._calls["Play"](request)
            assert player.began.wait(60)
            playing.cancel()
            time.sleep(0.2)  # the server has heard of it
            with pytest.raises(RemoteError, match="1 more sessions, with 1 open"):
                list(server.play("coop_compete_v0", {"agent_0": "one"}, [1]))
        finally:
            player.free.set()
        while server.describe().open_sessions:
            time.sleep(0.01)


@pytest.mark.parametrize("ended", ["cancelled", "slow"])
def test_an_endless_game_ends_with_its_call(start, ended):
    player = EndlessPlayer()
    running = start(player=player, step_seconds=0.3 if ended == "slow" else 60.0)
    request = pb.PlayRequest(
        environment="coop_compete_v0", options=to_value({}), players={"agent_0": "one"}, seeds=[1]
    )
    with connect(running.address) as server:
        playing = server._calls["Play"](request)
        assert player.began.wait(60)
        if ended == "cancelled":
            playing.cancel()
        else:
            assert playing.code().name == "DEADLINE_EXCEEDED"
        while server.describe().open_sessions or running.service._threads.hung:
            time.sleep(0.01)


def test_an_episode_has_a_limit_of_steps(start, monkeypatch):
    monkeypatch.setattr(service, "MOST_AGENT_STEPS", 8)
    monkeypatch.setattr(turns, "MOST_STEPS", 3)
    running = start(player=ScriptedPlayer())
    options = {"num_agents": 2, "max_cycles": 10**9}
    with connect(running.address) as server:
        players = dict.fromkeys(["agent_0", "agent_1"], "always_cooperate")
        with pytest.raises(RemoteError, match="at most 4 steps"):
            list(server.play("coop_compete_v0", players, [1], **options))
        env = server.env("coop_compete_v0", **options)
        for _ in range(2):
            env.reset(seed=0)
            for _ in range(3):
                env.step(dict.fromkeys(env.agents, 0))
            with pytest.raises(RemoteError, match="at most 3 steps"):
                env.step(dict.fromkeys(env.agents, 0))
    assert running.refused == {"too many steps": 3}


def test_a_cancelled_call_plays_no_further_session(start):
    misbehaving.HELD.clear()
    misbehaving.BEGAN.clear()
    running = start(environments=[f"{OWN}:hanging"])
    with connect(running.address) as server:
        games = server.vector(f"{OWN}:hanging", 2)
        games.reset(seed=0)
        steps = [one.to_step(dict.fromkeys(one.agents, 0)) for one in games.envs]
        stepping = server._calls["Step"].future(pb.StepRequest(sessions=steps))
        sessions = [running.service.sessions.all()[step.session] for step in steps]
        assert misbehaving.BEGAN.wait(60)
        stepping.cancel()
        while running.service._gate._calls:  # until the server notices the end of the call
            time.sleep(0.01)
        misbehaving.HELD.set()
        while any(session.busy for session in sessions):
            time.sleep(0.01)
        assert [session.turn for session in sessions] == [2, 1]


def test_one_client_leaves_a_thread_to_the_others(start):
    misbehaving.HELD.clear()
    running = start(environments=[f"{OWN}:hanging", "coop_compete_v0"], tokens=TOKENS, threads=2)
    with (
        connect(running.address, token=TOKENS[0]) as one,
        connect(running.address, token=TOKENS[1]) as other,
    ):
        games = [one.env(f"{OWN}:hanging") for _ in range(3)]
        for game in games:
            game.reset(seed=0)
        stepping = [
            one._calls["Step"].future(
                pb.StepRequest(sessions=[game.to_step(dict.fromkeys(game.agents, 0))]),
                metadata=one._metadata,
            )
            for game in games
        ]
        while not all(session.busy for session in running.service.sessions.all().values()):
            time.sleep(0.01)
        env = other.env("coop_compete_v0")
        env.reset(seed=0)
        env.step(dict.fromkeys(env.agents, 0))
        assert not any(step.done() for step in stepping)
        misbehaving.HELD.set()
        assert all(step.result().frames for step in stepping)


def test_a_call_has_a_limit_of_games(start):
    running = start(player=HeldPlayer())
    with connect(running.address) as server, pytest.raises(RemoteError, match="at most 1000"):
        list(server.play("coop_compete_v0", {"agent_0": "one"}, range(1001)))


def test_a_turn_is_played_once_however_often_it_is_sent(start):
    running = start()
    with connect(running.address) as server:
        env = server.env("coop_compete_v0", num_agents=2)
        reset = env.to_reset(3, {})
        once, again = server.advance("Reset", [reset]), server.advance("Reset", [reset])
        assert once == again
        env.played(once[0])
        step = env.to_step({"agent_0": 1, "agent_1": 0})
        once, again = server.advance("Step", [step]), server.advance("Step", [step])
        assert once == again and running.refused == {}
        for turn in (0, 7):
            step.turn = turn
            with pytest.raises(RemoteError, match=f"turn {turn} was sent, .* at turn 2") as refused:
                server.advance("Step", [step])
            assert refused.value.code == "FAILED_PRECONDITION"
    assert running.refused == {"replayed": 2}


def test_sessions_expire_and_a_reset_with_a_seed_opens_another(start):
    running = start(lease=1.0)
    with connect(running.address) as server:
        env = server.env("coop_compete_v0")
        first = env.reset(seed=3)
        while server.describe().open_sessions:
            time.sleep(0.05)
        with pytest.raises(RemoteError, match="the session has ended: expired") as refused:
            env.step(dict.fromkeys(env.agents, 0))
        assert refused.value.code == "NOT_FOUND"
        with pytest.raises(RemoteError, match="expired"):
            env.reset()
        again = env.reset(seed=3)
        assert str(first) == str(again)
        assert len(env.step(dict.fromkeys(env.agents, 0))[1]) == 4
    assert running.refused == {"expired": 3}


def test_a_step_that_hangs_holds_nobody_up(start):
    misbehaving.HELD.clear()
    names = [f"{OWN}:hanging", "coop_compete_v0"]
    running = start(environments=names, step_seconds=0.8, threads=1, max_hung=2)
    with connect(running.address) as server:
        hanging, other = server.env(names[0]), server.env(names[1])
        hanging.reset(seed=0)
        other.reset(seed=0)
        said = []

        def step():
            try:
                hanging.step(dict.fromkeys(hanging.agents, 0))
            except RemoteError as error:
                said.append(error)

        stuck = threading.Thread(target=step)
        stuck.start()
        other.step(dict.fromkeys(other.agents, 0))  # the only thread is freed for it
        stuck.join()
        assert said[0].code == "DEADLINE_EXCEEDED" and "longer than 0.8 s" in str(said[0])
        with pytest.raises(RemoteError, match="the session has ended: slow"):
            hanging.step(dict.fromkeys(hanging.agents, 0))
        second = server.env(names[0])
        second.reset(seed=0)
        with pytest.raises(RemoteError, match=r"longer than 0.8 s"):
            second.step(dict.fromkeys(second.agents, 0))
        with pytest.raises(RemoteError, match="2 environments hang"):
            other.step(dict.fromkeys(other.agents, 0))
        misbehaving.HELD.set()  # they come back
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                other.step(dict.fromkeys(other.agents, 0))
                break
            except RemoteError:
                time.sleep(0.05)
        other.step(dict.fromkeys(other.agents, 0))
    assert running.refused["slow"] == 3 and running.refused["hung"] >= 1


def test_an_environment_that_fails_ends_its_session(start, caplog):
    running = start(environments=[f"{OWN}:failing"])
    with connect(running.address) as server:
        env = server.env(f"{OWN}:failing")
        env.reset(seed=0)
        with pytest.raises(RemoteError, match="the environment failed: ZeroDivision") as refused:
            env.step(dict.fromkeys(env.agents, 0))
        assert refused.value.code == "INTERNAL"
        assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)
        with pytest.raises(RemoteError, match="the session has ended: failed"):
            env.step(dict.fromkeys(env.agents, 0))


@pytest.mark.parametrize("error", misbehaving.ERRORS)
def test_an_environment_that_raises_any_exception_costs_no_thread_and_no_session(start, error):
    names = f"{OWN}:broken", "coop_compete_v0"
    running = start(environments=names, threads=1, max_sessions_per_client=1)
    with connect(running.address, timeout=5.0) as server:
        with pytest.raises(RemoteError, match="the environment failed") as refused:
            server.env(names[0], error=error)
        assert refused.value.code == "INTERNAL"
        server.env(names[1]).reset(seed=0)


@pytest.mark.parametrize(
    ("name", "options", "code", "said"),
    [
        ("maze_v0", {}, "PERMISSION_DENIED", "'maze_v0' is not offered here"),
        ("os:system", {}, "PERMISSION_DENIED", "is not offered here"),
        ("coop_compete_v0", {"num_agent": 2}, "INVALID_ARGUMENT", "did you mean 'num_agents'"),
        ("coop_compete_v0", {"num_agents": 5000}, "INVALID_ARGUMENT", "of size 5000, .* is made$"),
        ("coop_compete_v0", {"render_mode": "human"}, "INVALID_ARGUMENT", "write on the server"),
        ("math_v0", {"path": "/etc/passwd"}, "INVALID_ARGUMENT", "is a place on this machine"),
        ("math_v0", {"split": "test"}, "PERMISSION_DENIED", "kept for evaluation"),
        ("multitask_v0", {"environments": {"a": {"name": "tool_use_v0"}}}, "PERMISSION_DENIED",
         "'tool_use_v0' is not offered"),
        ("multitask_v0", {"environments": {"a": {"name": "os:system"}}}, "INVALID_ARGUMENT",
         "is code that a record names"),
    ],
)  # fmt: skip
def test_environments_and_options_that_are_not_offered(everything_but, name, options, code, said):
    with pytest.raises(RemoteError, match=said) as refused:
        everything_but._connection.call(
            "Open", pb.OpenRequest(environment=name, options=to_value(options))
        )
    assert refused.value.code == code


@pytest.fixture
def everything_but(start):
    running = start(environments=["coop_compete_v0", "math_v0", "multitask_v0"])
    with connect(running.address) as server:
        env = server.env("coop_compete_v0")
        yield env
        assert server.describe().open_sessions == 1  # what was refused left none behind


def test_calls_under_way_are_finished_when_the_server_ends(start):
    misbehaving.HELD.clear()
    from srl_envs.remote.server.serve import in_thread
    from srl_envs.remote.server.settings import ServerSettings

    played = []
    with in_thread(ServerSettings(environments=[f"{OWN}:hanging"]), drain=20) as running:
        server = connect(running.address)
        env = server.env(f"{OWN}:hanging")
        env.reset(seed=0)
        actions = dict.fromkeys(env.agents, 0)
        step = threading.Thread(target=lambda: played.append(env.step(actions)))
        step.start()
        while not running.service.sessions.all()[env._session].busy:
            time.sleep(0.01)
        threading.Timer(0.3, misbehaving.HELD.set).start()
    step.join()
    server.close()
    assert len(played) == 1
