import logging

from srl_agents.evaluation.progress import BETWEEN, FIRST, LongWork


def test_messages_are_rate_limited(caplog):
    caplog.set_level(logging.INFO, logger="srl_agents")
    now = 0.0
    work = LongWork("baking", clock=lambda: now)
    told = []
    for now in (0.0, FIRST / 2, FIRST, FIRST + 0.1, FIRST + BETWEEN, FIRST + BETWEEN + 0.1):
        work.at(f"second {now:g}")
        told.append(len(caplog.records))
    assert told == [0, 0, 1, 1, 2, 2]
    assert caplog.messages == [f"baking: second {FIRST:g}", f"baking: second {FIRST + BETWEEN:g}"]
