import logging
import threading

from srl_agents.evaluation.progress import BETWEEN, FIRST, LongWork, announced
from srl_agents.rollout import play_many
from srl_agents.scripted import Bernoulli
from srl_envs import coop_compete_v0


def test_a_line_every_few_seconds_and_none_before(caplog):
    caplog.set_level(logging.INFO, logger="srl_agents")
    now = 0.0
    work = LongWork("baking", clock=lambda: now)
    told = []
    for now in (0.0, FIRST / 2, FIRST, FIRST + 0.1, FIRST + BETWEEN, FIRST + BETWEEN + 0.1):
        work.at(f"second {now:g}")
        told.append(len(caplog.records))
    assert told == [0, 0, 1, 1, 2, 2]
    assert caplog.messages == [f"baking: second {FIRST:g}", f"baking: second {FIRST + BETWEEN:g}"]


def test_games_that_take_long_tell_how_far_they_are(caplog, monkeypatch):
    caplog.set_level(logging.INFO, logger="srl_agents")
    monkeypatch.setattr("srl_agents.evaluation.progress.FIRST", 0.0)
    play_many(
        lambda: coop_compete_v0.parallel_env(num_agents=2, max_cycles=3),
        dict.fromkeys(("agent_0", "agent_1"), Bernoulli(0.5)),
        [1, 2],
    )
    assert caplog.messages == ["playing 2 episodes: step 1, 0 of 2 complete"]


def test_work_that_cannot_say_how_far_it_is_is_announced_where_it_takes_long(monkeypatch):
    said = threading.Event()
    monkeypatch.setattr("srl_agents.evaluation.progress.log.info", lambda line: said.set())
    with announced("quick"):
        pass
    assert not said.is_set()
    monkeypatch.setattr("srl_agents.evaluation.progress.FIRST", 0.0)
    with announced("slow"):
        assert said.wait(timeout=60)
