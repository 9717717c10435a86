"""Retries of network requests."""

import asyncio
import time

import pytest

from srl_agents.errors import BackendError, ServerUnavailable
from srl_agents.event_loop import run
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.network import RetryPolicy, TransientError, retry_after

FAST = RetryPolicy(deadline=30.0, unreachable=0.05, first_wait=0.001, longest_wait=0.002)


def tried(policy, *outcomes):
    """Run attempts with these outcomes and return the result and the start times."""
    left, began = list(outcomes), []

    async def attempt():
        began.append(time.monotonic())
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    try:
        return run(policy.run("it", attempt)), began
    except BackendError as error:
        return error, began


def test_transient_errors_are_retried_until_success():
    result, began = tried(FAST, TransientError("busy"), TransientError("busy"), "yes")
    assert result == "yes" and len(began) == 3


def test_other_errors_are_raised_at_once():
    result, began = tried(FAST, BackendError("no such model"))
    assert str(result) == "no such model" and len(began) == 1


def test_the_wait_is_at_least_retry_after():
    _, began = tried(FAST, TransientError("busy", retry_after=0.2), "yes")
    assert began[1] - began[0] >= 0.2


def test_a_retry_after_beyond_the_deadline_ends_the_request():
    result, began = tried(FAST, TransientError("busy", retry_after=31))
    assert str(result) == "busy" and len(began) == 1


def test_an_unreachable_server_has_a_shorter_deadline():
    result, began = tried(FAST, TransientError("gone", unreachable=True))
    assert isinstance(result, ServerUnavailable) and len(began) > 1


def test_an_attempt_ends_with_the_deadline():
    policy = RetryPolicy(deadline=0.1, unreachable=0.1)

    async def attempt():
        await asyncio.sleep(60)

    with pytest.raises(BackendError, match=r"it: no answer within 0\.1 s$"):
        run(policy.run("it", attempt))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0), ({"retry-after": "3"}, 3), ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "soon"}, 0), ({"retry-after": "-5"}, 0), ({"retry-after": "nan"}, 0),
    ],
)  # fmt: skip
def test_retry_after_in_seconds(headers, seconds):
    assert retry_after(headers) == seconds


def test_run_inside_the_background_loop_is_rejected():
    async def inside():
        return background_loop.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="await the coroutine"):
        background_loop.run(inside())
