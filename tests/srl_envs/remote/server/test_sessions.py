"""Leases and ids of sessions, by a clock of the test's."""

import asyncio

import pytest

from srl_envs.remote.server.refusals import Refused
from srl_envs.remote.server.sessions import Sessions


def test_every_call_renews_the_lease_and_a_session_in_use_never_expires():
    now = [0.0]
    sessions = Sessions(most=2, most_per_client=2, lease=10.0, clock=lambda: now[0])
    sessions.reserve("one", 2)
    used, left = sessions.add("one", env=None), sessions.add("one", env=None)
    now[0] = 9.0
    assert sessions.find(used.id, "one") is used
    now[0] = 12.0
    assert list(sessions.expired()) == [left]
    sessions.end(left, "expired")
    with pytest.raises(Refused, match="the session has ended: expired"):
        sessions.find(left.id, "one")
    now[0] = 30.0
    loop = asyncio.new_event_loop()
    used.busy = loop.create_future()
    loop.close()
    assert list(sessions.expired()) == []
    used.busy = None
    assert list(sessions.expired()) == [used]


def test_ids_cannot_be_guessed_and_room_is_given_back():
    sessions = Sessions(most=300, most_per_client=300, lease=10.0)
    sessions.reserve("one", 300)
    opened = [sessions.add("one", env=None) for _ in range(300)]
    assert len({session.id for session in opened}) == 300
    assert {len(session.id) for session in opened} == {22}  # 128 bits
    with pytest.raises(Refused, match="1 more sessions, with 300 open"):
        sessions.reserve("other", 1)
    sessions.end(opened[0], "closed")
    sessions.end(opened[0], "closed")  # once
    sessions.reserve("other", 1)
    assert (sessions.of("one"), sessions.of("other"), len(sessions)) == (299, 1, 299)
