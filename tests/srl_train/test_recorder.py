"""playing.jsonl: the newest episode is written step by step and never ends the run."""

import dataclasses

import pytest

from srl_agents.rollout import play_many
from srl_agents.scripted import Always
from srl_envs import make
from srl_extensions.pages.document import to_json
from srl_extensions.pages.live_document import of_run
from srl_extensions.pages.live_runs import WatchedRun
from srl_train import recorder
from srl_train.recorder import EpisodeWriter
from srl_train.trainer import Trainer
from tests.srl_extensions.pages.synthetic_runs import episode


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "PAUSE", 0.0)
    return EpisodeWriter(tmp_path / "run" / "playing.jsonl")


@pytest.fixture
def follower(tmp_path, record):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("rounds: 1\n")
    return WatchedRun(tmp_path.resolve() / "run", tmp_path.resolve())


def seen(follower):
    follower.refresh()
    return follower.playing


def shown(spectator, game, turns):
    """Call the spectator with the first `turns` steps of the episode."""
    spectator(dataclasses.replace(game, turns=game.turns[:turns]), False)


def test_episode_is_written_step_by_step(record, follower):
    game, watch = episode(turns=3), record.spectator()
    shown(watch, game, 0)
    assert seen(follower).turns == ()
    for turns in (1, 2, 3):
        shown(watch, game, turns)
        assert len(seen(follower).turns) == turns
    assert seen(follower).steps_of("agent_2")[1].decision.text == "cooperate"
    assert "turn 4 is running" in to_json(of_run("run", follower))
    watch(game, True)
    seen(follower)
    assert "turn 4" not in to_json(of_run("run", follower))
    assert follower.problems == []


def test_failing_recorder_does_not_stop_the_run(record, caplog):
    def play():
        return play_many(
            lambda: make("coop_compete_v0", max_cycles=2),
            {f"agent_{i}": Always(0) for i in range(4)},
            [1],
            extra={"odd": object()},
            spectator=record.spectator(),
        )

    assert len(play()[0].turns) == 2
    assert "stopped writing" in caplog.text
    assert record.spectator() is None


def test_run_records_its_episodes(short_run, tmp_path):
    Trainer(short_run(), tmp_path / "run").fit()
    watched = WatchedRun(tmp_path.resolve() / "run", tmp_path.resolve())
    assert len(seen(watched).turns) == 2 and watched.playing_ended
