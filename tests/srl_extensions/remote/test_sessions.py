"""Sessions of a server, without a protocol: limits, leases, failures."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from srl_envs import make
from srl_extensions.remote.messages import RemoteError
from srl_extensions.remote.sessions import SessionLimits, Sessions
from tests.srl_extensions.remote import misbehaving


def new_env():
    return make("coop_compete_v0", num_agents=2, max_cycles=10**9), None


def reset(env):
    return env.reset(seed=0)


def step(env):
    return env.step(dict.fromkeys(env.agents, 0))


def scenario(test):
    """Run an asynchronous test with a function that makes session layers."""

    def run(**fixtures):
        async def within():
            made = []

            def sessions(clock=None, **limits):
                given = {} if clock is None else {"clock": clock}
                made.append(Sessions(SessionLimits(**limits), **given))
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
        misbehaving.CLOSED.clear()
        asyncio.run(within())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def begun(sessions, env=new_env):
    """Return a session that has been reset."""
    session, _ = await sessions.open(env)
    await sessions.advance(session, reset)
    return session


@scenario
async def test_open_sessions_are_limited(make_sessions):
    sessions = make_sessions(max_sessions=2)
    first, _ = await sessions.open(new_env)
    await sessions.open(new_env)
    with pytest.raises(RemoteError, match="at most 2 sessions"):
        await sessions.open(new_env)
    for session in (first, first, "unknown"):
        await sessions.close(session)
    await sessions.open(new_env)
    assert len(sessions.open_sessions) == 2


@scenario
async def test_every_call_renews_the_lease_and_a_session_in_use_never_expires(make_sessions):
    now = [0.0]
    sessions = make_sessions(clock=lambda: now[0], lease=10.0)
    used, left = await begun(sessions), await begun(sessions)
    now[0] = 9.0
    await sessions.advance(used, step)
    now[0] = 12.0
    assert [one.id for one in sessions.expired()] == [left]
    now[0] = 30.0
    session = sessions.open_sessions[used]
    session.idle.clear()
    assert used not in {one.id for one in sessions.expired()}
    session.idle.set()


@scenario
async def test_step_that_hangs_ends_its_session(make_sessions):
    sessions = make_sessions(threads=2, step_seconds=0.2)
    hanging = await begun(sessions, lambda: (misbehaving.hanging(), None))
    other = await begun(sessions)
    with pytest.raises(RemoteError, match=r"longer than 0\.2 s"):
        await sessions.advance(hanging, step)
    assert hanging not in sessions.open_sessions
    await sessions.advance(other, step)


@scenario
async def test_calls_that_compute_at_once_are_limited(make_sessions):
    sessions = make_sessions(threads=1)
    other = await begun(sessions)
    hanging = await begun(sessions, lambda: (misbehaving.hanging(), None))
    stepping = asyncio.ensure_future(sessions.advance(hanging, step))
    await asyncio.to_thread(misbehaving.BEGAN.wait)
    waiting = asyncio.ensure_future(sessions.advance(other, step))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    misbehaving.FREE.set()
    await asyncio.gather(stepping, waiting)


@scenario
async def test_session_serves_one_call_at_once(make_sessions):
    sessions = make_sessions()
    session = await begun(sessions, lambda: (misbehaving.hanging(), None))
    stepping = asyncio.ensure_future(sessions.advance(session, step))
    await asyncio.to_thread(misbehaving.BEGAN.wait)
    with pytest.raises(RemoteError, match="another call"):
        await sessions.advance(session, step)
    closing = asyncio.ensure_future(sessions.close(session))
    misbehaving.FREE.set()
    await asyncio.gather(stepping, closing)


@scenario
async def test_environment_that_fails_is_closed_and_ends_its_session(make_sessions):
    sessions = make_sessions()
    session = await begun(sessions, lambda: (misbehaving.Failing(), None))
    with pytest.raises(RemoteError, match="the environment failed: ZeroDivision") as refused:
        await sessions.advance(session, step)
    assert refused.value.code == "INTERNAL"
    assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)
    assert session not in sessions.open_sessions
    assert await asyncio.to_thread(misbehaving.CLOSED.wait, 20)


@scenario
async def test_environment_exceptions_release_thread_and_session(make_sessions):
    sessions = make_sessions(threads=1, max_sessions=1)

    def broken(error):
        raise misbehaving.ERRORS[error]

    for error in misbehaving.ERRORS:
        with pytest.raises(RemoteError, match="the environment failed"):
            await sessions.open(partial(broken, error))
    await begun(sessions)
