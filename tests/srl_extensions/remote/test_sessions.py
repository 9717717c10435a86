"""Sessions of a server, without a protocol: limits, leases, repeated turns, cancellation."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from srl_envs import make
from srl_extensions.remote import sessions as layer
from srl_extensions.remote.errors import Refused, WireError
from srl_extensions.remote.sessions import SessionLimits, Sessions, Turn
from tests.srl_extensions.remote import misbehaving

ENV = partial(make, "coop_compete_v0", num_agents=2, max_cycles=10**9)
ACTIONS = {"agent_0": 0, "agent_1": 0}


def reset(session, number=None, seed=0):
    return Turn("reset", session, lambda one: one.env.reset(seed=seed), number)


def step(session, number=None, actions=ACTIONS):
    return Turn("step", session, lambda one: one.env.step(actions), number)


def scenario(test):
    """Run an asynchronous test with a function that makes session layers."""

    def run(**fixtures):
        async def within():
            made = []

            def sessions(clock=None, share=None, **limits):
                given = {} if clock is None else {"clock": clock}
                made.append(Sessions(SessionLimits(**limits), share, **given))
                return made[-1]

            try:
                async with asyncio.timeout(30):
                    await test(sessions, **fixtures)
            finally:
                misbehaving.FREE.set()
                for one in made:
                    await one.end()

        misbehaving.FREE.clear()
        misbehaving.BEGAN.clear()
        asyncio.run(within())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def begun(sessions, client="one", env=ENV, copies=1):
    """Return sessions that have been reset."""
    ids, _ = await sessions.open(client, env, copies)
    await sessions.advance(client, [reset(one) for one in ids])
    return ids


@scenario
async def test_sessions_are_limited_per_client_and_in_total(make_sessions):
    sessions = make_sessions(max_sessions=3, max_sessions_per_client=2)
    [first], _ = await sessions.open("one", ENV)
    with pytest.raises(Refused, match="at most 2 sessions per client"):
        await sessions.open("one", ENV, 2)
    await sessions.open("one", ENV)
    await sessions.open("other", ENV)
    with pytest.raises(Refused, match="at most 3 sessions on this server"):
        await sessions.open("other", ENV)
    assert await sessions.close("one", [first, first, "unknown"]) == 1
    await sessions.open("other", ENV)
    assert (sessions.counts["one"], sessions.counts["other"]) == (1, 2)


@scenario
async def test_ids_cannot_be_guessed_and_belong_to_one_client(make_sessions):
    sessions = make_sessions()
    ids = await begun(sessions, copies=20)
    assert {len(one) for one in set(ids)} == {22}  # 128 bits
    [refused] = await sessions.advance("other", [step(ids[0])])
    assert (refused.code, refused.reason) == ("NOT_FOUND", "unknown session")
    assert await sessions.close("other", ids) == 0
    assert len(sessions.open_sessions) == 20


@scenario
async def test_every_call_renews_the_lease_and_a_session_in_use_never_expires(make_sessions):
    now = [0.0]
    sessions = make_sessions(clock=lambda: now[0], lease=10.0)
    used, left = await begun(sessions, copies=2)
    now[0] = 9.0
    await sessions.advance("one", [step(used)])
    now[0] = 12.0
    assert [one.id for one in sessions.expired()] == [left]
    now[0] = 30.0
    session = sessions.open_sessions[used]
    session.busy = asyncio.get_running_loop().create_future()
    assert used not in {one.id for one in sessions.expired()}
    session.busy = None


@scenario
async def test_resent_step_is_played_once(make_sessions):
    sessions = make_sessions()
    [session] = await begun(sessions)
    [once] = await sessions.advance("one", [step(session, 1)])
    [again] = await sessions.advance("one", [step(session, 1)])
    assert once is again
    for number in (0, 7):
        [refused] = await sessions.advance("one", [step(session, number)])
        assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "replayed")
    with pytest.raises(WireError, match="twice"):
        await sessions.advance("one", [step(session), step(session)])


@scenario
async def test_episode_has_a_limit_of_steps(make_sessions):
    sessions = make_sessions()
    [session] = await begun(sessions)
    for _ in range(2):
        for _ in range(3):
            [reply] = await sessions.advance("one", [step(session)])
            assert not isinstance(reply, Refused)
        [refused] = await sessions.advance("one", [step(session)])
        assert refused.reason == "too many steps"
        await sessions.advance("one", [reset(session)])


@pytest.fixture(autouse=True)
def short_episodes(monkeypatch, request):
    if "limit_of_steps" in request.node.name:
        monkeypatch.setattr(layer, "MOST_STEPS", 3)


@scenario
async def test_step_that_hangs_frees_its_thread_and_ends_its_session(make_sessions):
    sessions = make_sessions(threads=1, step_seconds=0.2, max_hung=1)
    hanging, spared = await begun(sessions, env=misbehaving.hanging, copies=2)
    [other] = await begun(sessions)
    actions = dict.fromkeys(sessions.open_sessions[hanging].env.agents, 0)
    slow, aborted = await sessions.advance(
        "one", [step(hanging, actions=actions), step(spared, actions=actions)]
    )
    assert (slow.reason, aborted.reason) == ("slow", "not played")
    assert hanging not in sessions.open_sessions and spared in sessions.open_sessions
    with pytest.raises(Refused, match="1 environments hang"):
        await sessions.advance("one", [step(other)])
    misbehaving.FREE.set()
    while sessions.workers.hung:
        await asyncio.sleep(0.01)
    [reply] = await sessions.advance("one", [step(other)])
    assert not isinstance(reply, Refused)


@scenario
async def test_one_client_cannot_use_all_threads(make_sessions):
    sessions = make_sessions(threads=2, share=1)
    [other] = await begun(sessions, "other")
    ids = await begun(sessions, env=misbehaving.hanging, copies=3)
    actions = dict.fromkeys(sessions.open_sessions[ids[0]].env.agents, 0)
    stepping = [
        asyncio.ensure_future(sessions.advance("one", [step(one, actions=actions)])) for one in ids
    ]
    await asyncio.to_thread(misbehaving.BEGAN.wait)
    await sessions.advance("other", [step(other)])
    assert not any(one.done() for one in stepping)
    misbehaving.FREE.set()
    for [reply] in await asyncio.gather(*stepping):
        assert not isinstance(reply, Refused)


@scenario
async def test_environment_that_fails_ends_its_session(make_sessions):
    sessions = make_sessions()
    [session] = await begun(sessions, env=misbehaving.Failing)
    [refused] = await sessions.advance("one", [step(session)])
    assert refused.code == "INTERNAL" and "the environment failed: ZeroDivision" in str(refused)
    assert "\n" not in str(refused) and "\x1b" not in str(refused)
    assert session not in sessions.open_sessions


@scenario
async def test_environment_exceptions_release_thread_and_session(make_sessions):
    sessions = make_sessions(threads=1, max_sessions_per_client=1)

    def broken(error):
        raise misbehaving.ERRORS[error]

    for error in misbehaving.ERRORS:
        with pytest.raises(Refused, match="the environment failed"):
            await sessions.open("one", partial(broken, error))
    await begun(sessions)


@scenario
async def test_clients_take_turns(make_sessions):
    workers, held, done = make_sessions(share=1, threads=1).workers, threading.Event(), []

    def run(client, *calls):
        return workers.run(client, [*calls, lambda: done.append(client)], threading.Event())

    running = [run("one", held.wait), *(run("one") for _ in range(3)), run("other")]
    tasks = [asyncio.ensure_future(one) for one in running]
    await asyncio.sleep(0)  # all of them are queued
    held.set()
    await asyncio.gather(*tasks)
    assert done == ["one", "other", "one", "one", "one"]
