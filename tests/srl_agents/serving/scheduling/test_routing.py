"""Routing: prefixes go back to where they are cached, within the bound on loads."""

from dataclasses import dataclass

import pytest

from srl_agents.serving.scheduling.requests import Request, ServerStats, Task
from srl_agents.serving.scheduling.routing import LOOKAHEAD, PATIENCE, Member, PrefixRouter


@dataclass(frozen=True)
class Named:
    name: str


def members_of(count, capacity=8):
    return [Member(Named(str(number)), capacity, ServerStats("")) for number in range(count)]


def request(prefix=None):
    return Request(task=Task("one", prefix=prefix))


def sent(router, members, *requests, cost=1, now=0.0):
    """Which of the requests went where; it stays under way there."""
    chosen, member = router.choose(requests, members, [one for one in members if one.free(now)])
    router.went(chosen.task.prefix, member)
    member.begin(cost)
    return requests.index(chosen), int(member.server.name)


def test_the_least_loaded_for_its_capacity_is_next():
    router, members = PrefixRouter(), members_of(3)
    members[2].capacity = 16
    assert [sent(router, members, request(), cost=cost)[1] for cost in (8, 4, 8)] == [0, 1, 2]
    # Tokens per place: 1, .5, .5; then 1, .5, 1.
    assert [sent(router, members, request(), cost=8)[1] for _ in range(2)] in ([1, 2], [2, 1])


def test_of_idle_ones_who_had_least_to_do_is_next():
    router, members = PrefixRouter(), members_of(3)
    members[0].stats.tokens, members[1].stats.tokens = 500, 100
    members[2].stats.tokens = 200
    assert sent(router, members, request()) == (0, 1)


def test_turns_of_a_conversation_stay_together():
    router, members = PrefixRouter(), members_of(4)
    places = {}
    for turn in range(5):
        for talk in range(12):
            _, place = sent(router, members, request(talk))
            assert places.setdefault(talk, place) == place
            if turn:
                members[place].end(1)
        if not turn:
            for talk in range(12):
                members[places[talk]].end(1)
    assert sorted(places.values()) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    assert sum(one.stats.prefix_hits for one in members) == 4 * 12
    assert sum(one.stats.prefix_misses for one in members) == 0


def test_one_prefix_of_all_does_not_crowd_one_server():
    router, members = PrefixRouter(), members_of(4)
    for sent_so_far in range(1, 33):
        sent(router, members, request("the rules of the game"))
        # A quarter above the mean, in whole requests.
        assert max(one.stats.running for one in members) <= -(-sent_so_far * 1.25 // 4)
    assert sum(one.stats.running for one in members) == 32


def test_the_bound_is_over_servers_that_are_up():
    router, members = PrefixRouter(), members_of(4, capacity=16)
    members[3].down = True
    sent(router, members, request("talk"))
    for member in members[:3]:
        member.stats.running = 8
    # Nine of 25 are within a quarter above a third, and would not be within one above a quarter.
    members[0].load, members[1].load = 100, 0
    assert sent(router, members, request("talk")) == (0, 0)


def test_a_prefix_moves_with_the_request_that_had_to_go_elsewhere():
    router, members = PrefixRouter(), members_of(2, capacity=1)
    assert sent(router, members, request("talk")) == (0, 0)
    assert sent(router, members, request("talk")) == (0, 1)  # the first place is taken
    members[0].end(1)
    members[1].end(1)
    assert sent(router, members, request("talk")) == (0, 1)
    assert (members[1].stats.prefix_misses, members[1].stats.prefix_hits) == (1, 1)


@pytest.mark.parametrize("restart", [True, False])
def test_what_a_server_has_cached_is_gone_when_it_was_started_anew(restart):
    router, members = PrefixRouter(), members_of(2)
    sent(router, members, request("talk"))
    members[0].end(1)
    members[0].stats.tokens = 100
    if restart:
        members[0].come_up()
    assert sent(router, members, request("talk")) == (0, 1 if restart else 0)


def test_a_server_that_is_down_keeps_nobody():
    router, members = PrefixRouter(), members_of(2)
    sent(router, members, request("talk"))
    members[0].down = True
    assert sent(router, members, request("talk")) == (0, 1)


def test_one_that_rests_is_tried_with_one_request_and_after_the_others():
    router, members = PrefixRouter(), members_of(2, capacity=2)
    members[0].rest(0.0)
    assert not members[0].free(0.5) and members[0].free(1.0)
    places = [sent(router, members, request(), now=1.0)[1] for _ in range(3)]
    assert places == [1, 1, 0] and not members[0].free(1.0)


def test_a_free_server_gets_what_it_has_cached_before_older_requests():
    router, members = PrefixRouter(), members_of(2, capacity=1)
    assert [sent(router, members, request(talk))[1] for talk in "ab"] == [0, 1]
    members[1].end(1)
    older, fitting = request("a"), request("b")
    assert sent(router, members, older, fitting) == (1, 1)
    assert older.passed_over == 1
    members[1].end(1)
    assert sent(router, members, older) == (0, 1)  # nothing suits better, and nobody is idle


def test_the_oldest_is_passed_over_so_often_and_no_oftener():
    router, members = PrefixRouter(), members_of(2, capacity=1)
    assert [sent(router, members, request(talk))[1] for talk in "ab"] == [0, 1]
    oldest = request("a")
    for _ in range(PATIENCE):
        members[1].end(1)
        assert sent(router, members, oldest, request("b")) == (1, 1)
    members[1].end(1)
    assert sent(router, members, oldest, request("b")) == (0, 1)


def test_only_the_next_requests_are_looked_at():
    router, members = PrefixRouter(), members_of(2, capacity=1)
    assert [sent(router, members, request(talk))[1] for talk in "ab"] == [0, 1]
    members[1].end(1)
    waiting = [request("a") for _ in range(LOOKAHEAD)]
    assert sent(router, members, *waiting, request("b")) == (0, 1)
