"""Concurrent episodes: order of requests, limits and errors."""

import asyncio
import threading

import pytest

from srl_agents.errors import BackendError, EpisodeTimeout
from srl_agents.event_loop import finished, run, together
from srl_agents.rollout import play_many, play_many_async
from tests.srl_agents.rollout.test_rollout import Ledger, Scribe


class Waiting(Scribe):
    """Policy that decides like Scribe after some iterations of the event loop."""

    def __init__(self, name, number=0, *, turns=1, **settings):
        super().__init__(name, number, **settings)
        self.turns, self.left, self.now, self.most = turns, [], 0, 0

    async def act(self, seen, states):
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(self.turns):
                await asyncio.sleep(0)
            return super().act(seen, states)
        finally:
            self.now -= 1

    def leave(self, state):
        self.left.append(state["turns"])


LIVES = {"a": 3, "b": 2, "c": 3}


def seated(kind, **settings):
    low, high = kind("low", 0, **settings), kind("high", 5, **settings)
    return {"a": low, "b": high, "c": low}


@pytest.mark.parametrize(("in_flight", "most"), [(1, 1), (2, 2), (9, 5), (None, 5)])
def test_in_flight_limits_concurrent_episodes(in_flight, most):
    open_now, most_open = [], []

    class Counted(Ledger):
        def __init__(self):
            super().__init__({"a": 3})
            open_now.append(self)
            most_open.append(len(open_now))

        def close(self):
            open_now.remove(self)

    policy = Waiting("p")
    episodes = play_many(Counted, {"a": policy}, range(5), in_flight=in_flight)
    assert [episode.seed for episode in episodes] == list(range(5))
    assert (max(most_open), policy.most, open_now) == (most, most, [])


def test_in_flight_must_be_positive():
    with pytest.raises(ValueError, match="in_flight must be 1 or more"):
        play_many(Ledger, dict.fromkeys("ab", Scribe("p")), [1], in_flight=0)


def test_timeout_stops_episodes():
    closed = []

    class Noting(Ledger):
        def close(self):
            closed.append(self)

    class Never(Waiting):
        async def act(self, seen, states):
            await asyncio.Event().wait()

    with pytest.raises(EpisodeTimeout, match=r"2 episodes were not complete after 0.01"):
        play_many(lambda: Noting({"a": 1}), {"a": Never("p")}, [1, 2], timeout=0.01)
    assert len(closed) == 2
    assert issubclass(EpisodeTimeout, asyncio.TimeoutError)
    assert play_many(lambda: Ledger({"a": 1}), {"a": Waiting("p")}, [1], timeout=600.0)


def test_a_failing_call_fails_only_its_episode_and_releases_all_memories():
    flaky = Waiting("flaky", fails_at_call=1)
    made = []

    def make():
        made.append(Ledger())
        return made[-1]

    episodes = play_many(make, {"a": flaky, "b": Waiting("steady")}, [1, 2, 3])
    assert [one.failure for one in episodes] == [None, "BackendError: no answer", None]
    assert [env.closed for env in made] == [1, 1, 1]
    assert sorted(flaky.left) == [0, 2, 2]


class Struck(Waiting):
    """Policy that raises `error` in call number `at`."""

    def __init__(self, error, at):
        super().__init__("struck")
        self.error, self.at = error, at

    async def act(self, seen, states):
        if len(self.calls) >= self.at:
            raise self.error
        return await super().act(seen, states)


@pytest.mark.parametrize("error", [KeyError("a fault of ours"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, 1, 3])
@pytest.mark.parametrize("others", [Waiting, Scribe])
def test_an_exception_or_interrupt_stops_all_episodes_and_closes_environments(error, at, others):
    made = []

    def make():
        made.append(Ledger())
        return made[-1]

    with pytest.raises(type(error)):
        play_many(make, {"a": Struck(error, at), "b": others("p")}, [1, 2, 3])
    assert made and [env.closed for env in made] == [1] * len(made)


def test_play_many_works_inside_a_running_event_loop():
    wanted = play_many(lambda: Ledger(LIVES), seated(Scribe), [1, 2])

    async def notebook():
        at_once = play_many(lambda: Ledger(LIVES), seated(Waiting), [1, 2])
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        awaited = await play_many_async(lambda: Ledger(LIVES), seated(Waiting), [1, 2])
        ticking.cancel()
        assert ticks > 5, "the loop goes on meanwhile"
        return at_once, awaited

    assert run(notebook()) == (wanted, wanted)


def test_together_waits_for_all_and_then_raises_the_first_error():
    ended = []

    async def one(number, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        ended.append(number)
        if number:
            raise BackendError(str(number))
        return number

    async def three():
        await together(one(0, 9), one(1, 5), one(2, 1))

    with pytest.raises(BackendError, match=r"^1$"):
        run(three())
    assert ended == [2, 1, 0]
    with pytest.raises(RuntimeError, match="suspended"):
        finished(one(0, 1))
    assert threading.active_count() == 1 or not any(
        thread.name.startswith("coroutine") for thread in threading.enumerate()
    )
