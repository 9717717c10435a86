"""Sessions of a server, without a protocol: limits, leases, failures."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from srl_envs import make
from srl_extensions.remote.errors import RemoteError
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
        asyncio.run(within())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def begun(sessions, client="one", env=new_env):
    """Return a session that has been reset."""
    session, _ = await sessions.open(client, env)
    await sessions.advance(client, session, reset)
    return session


@scenario
async def test_sessions_of_a_client_are_limited(make_sessions):
    sessions = make_sessions(max_sessions=2)
    first, _ = await sessions.open("one", new_env)
    await sessions.open("one", new_env)
    with pytest.raises(RemoteError, match="at most 2 sessions per client"):
        await sessions.open("one", new_env)
    await sessions.open("other", new_env)
    for session in (first, first, "unknown"):
        await sessions.close("one", session)
    await sessions.open("one", new_env)
    assert (sessions.count("one"), sessions.count("other")) == (2, 1)


@scenario
async def test_ids_cannot_be_guessed_and_belong_to_one_client(make_sessions):
    sessions = make_sessions()
    ids = [await begun(sessions) for _ in range(20)]
    assert {len(one) for one in set(ids)} == {22}  # 128 bits
    with pytest.raises(RemoteError) as refused:
        await sessions.advance("other", ids[0], step)
    assert refused.value.code == "NOT_FOUND"
    await sessions.close("other", ids[0])
    assert len(sessions.open_sessions) == 20


@scenario
async def test_every_call_renews_the_lease_and_a_session_in_use_never_expires(make_sessions):
    now = [0.0]
    sessions = make_sessions(clock=lambda: now[0], lease=10.0)
    used, left = await begun(sessions), await begun(sessions)
    now[0] = 9.0
    await sessions.advance("one", used, step)
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
    hanging = await begun(sessions, env=lambda: (misbehaving.hanging(), None))
    other = await begun(sessions, "other")
    with pytest.raises(RemoteError, match=r"longer than 0\.2 s"):
        await sessions.advance("one", hanging, step)
    assert hanging not in sessions.open_sessions
    await sessions.advance("other", other, step)


@scenario
async def test_calls_of_one_client_do_not_delay_another(make_sessions):
    sessions = make_sessions(threads=2)
    other = await begun(sessions, "other")
    ids = [await begun(sessions, env=lambda: (misbehaving.hanging(), None)) for _ in range(3)]
    stepping = [asyncio.ensure_future(sessions.advance("one", one, step)) for one in ids]
    await asyncio.to_thread(misbehaving.BEGAN.wait)
    await sessions.advance("other", other, step)
    assert not any(one.done() for one in stepping)
    misbehaving.FREE.set()
    await asyncio.gather(*stepping)


@scenario
async def test_session_serves_one_call_at_once(make_sessions):
    sessions = make_sessions()
    session = await begun(sessions, env=lambda: (misbehaving.hanging(), None))
    stepping = asyncio.ensure_future(sessions.advance("one", session, step))
    await asyncio.to_thread(misbehaving.BEGAN.wait)
    with pytest.raises(RemoteError, match="another call"):
        await sessions.advance("one", session, step)
    closing = asyncio.ensure_future(sessions.close("one", session))
    misbehaving.FREE.set()
    await asyncio.gather(stepping, closing)


@scenario
async def test_environment_that_fails_ends_its_session(make_sessions):
    sessions = make_sessions()
    session = await begun(sessions, env=lambda: (misbehaving.Failing(), None))
    with pytest.raises(RemoteError, match="the environment failed: ZeroDivision") as refused:
        await sessions.advance("one", session, step)
    assert refused.value.code == "INTERNAL"
    assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)
    assert session not in sessions.open_sessions


@scenario
async def test_environment_exceptions_release_thread_and_session(make_sessions):
    sessions = make_sessions(threads=1, max_sessions=1)

    def broken(error):
        raise misbehaving.ERRORS[error]

    for error in misbehaving.ERRORS:
        with pytest.raises(RemoteError, match="the environment failed"):
            await sessions.open("one", partial(broken, error))
    await begun(sessions)
