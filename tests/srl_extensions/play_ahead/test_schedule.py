"""Play-ahead schedule: equality with the sequential loop, bounded staleness, and clean ends."""

import asyncio
import threading

import pytest

from srl_envs.games import coop_compete as coop_compete_v0
from srl_extensions.play_ahead.schedule import PlayAhead, room
from srl_train import round as round_module
from srl_train.build import build_run
from srl_train.checkpoints import list_checkpoints
from srl_train.engines import Engine
from srl_train.errors import ConfigError, TrainingError
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_train.run_state import everything, play_round, same, without_times

SECONDS = 60
"""Longest wait of a test in seconds."""


def ahead(short_run, bound, **settings):
    return short_run(engine__play_ahead=True, updates__max_staleness=bound, **settings)


def trained(config, folder):
    trainer = Trainer(config, folder)
    trainer.fit()
    return trainer


def no_thread_is_left():
    names = {thread.name.removesuffix("_0") for thread in threading.enumerate()}
    return not names & {"play", "model_0", "model_1", "model", "model_0 model_1"}


class Watched(Engine):
    """Engine that delays the updates in `held`, and records how far ahead each round began."""

    def __init__(self, run, monkeypatch):
        vars(self).update(vars(run.engine))
        self.run, run.engine = run, self
        self.update_models = round_module.update_models
        monkeypatch.setattr(round_module, "update_models", self.update)
        self.held = {}
        self.began = {}
        self.over = [threading.Event() for _ in range(8)]

    async def play_async(self, games, in_flight):
        number = games.extra["round"]
        self.began[number] = dict(self.run.versions)
        episodes = await super().play_async(games, in_flight)
        self.over[number].set()
        return episodes

    def update(self, run, batches, context, update_index, stats):
        for model in batches:
            event = self.held.get((model, context.round))
            assert event is None or event.wait(SECONDS)
        return self.update_models(run, batches, context, update_index, stats)


@pytest.mark.parametrize(
    "settings",
    [
        {"models__adapters": {"dropout": 0.1}, "updates__sample_budget": {"model_0": 8}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_without_room_a_run_equals_the_sequential_loop(settings, short_run, tmp_path):
    settings = {"rounds": 3, **settings}
    in_turn = trained(short_run(updates__max_staleness=0, **settings), tmp_path / "in_turn")
    played = trained(ahead(short_run, 0, **settings), tmp_path / "ahead")
    assert same(everything(played.run), everything(in_turn.run))
    rows = [read_metrics(one.files.metrics) for one in (played, in_turn)]
    assert without_times(rows[0]) == without_times(rows[1])
    assert no_thread_is_left()


def test_without_room_a_resumed_run_equals_the_sequential_loop(short_run, tmp_path):
    updates = {"strategy": "federated", "period": 2, "server": {"name": "diloco"}}
    settings = {"updates": {**updates, "max_staleness": 0}, "rounds": 4}
    in_turn = trained(short_run(**settings), tmp_path / "in_turn")
    config = short_run(**settings, engine__play_ahead=True)
    with Trainer(config, tmp_path / "parts") as part:  # The part ends between two averages.
        part.train_round()
        part.save_checkpoint()
    with Trainer(config, tmp_path / "parts") as whole:
        whole.load_checkpoint()
        whole.fit()
        assert same(everything(whole.run), everything(in_turn.run))


def test_rounds_overlap_with_learning_within_the_staleness_bound(short_run, tmp_path, monkeypatch):
    trainer = Trainer(ahead(short_run, 1, rounds=4), tmp_path)
    engine = Watched(trainer.run, monkeypatch)
    for number in range(3):  # Models wait for the episodes of the next round.
        for model in ("model_0", "model_1"):
            engine.held[model, number] = engine.over[number + 1]
    trainer.fit()
    rows = read_metrics(trainer.files.metrics)
    for model in ("model_0", "model_1"):
        found = [row["models"][model] for row in rows]
        assert [one["staleness"]["max"] for one in found] == [0, 1, 1, 1]
        assert [one["samples"] for one in found] == [4] * 4
        assert [one["updates"] for one in found] == [1, 2, 3, 4]
        assert found[-1]["samples_dropped_stale"] == 0
        assert all(number - versions[model] <= 1 for number, versions in engine.began.items())
    seconds = [row["seconds"] for row in rows]
    assert all(0 < one["overlap"] <= min(one["rollout"], one["train"]) for one in seconds[1:3])
    assert no_thread_is_left()


def test_no_round_follows_the_last_one(short_run):
    schedule = PlayAhead(build_run(ahead(short_run, 1, rounds=1)), lambda number: False)
    schedule.next_round()
    with pytest.raises(TrainingError, match="no round"):
        schedule.next_round()
    assert no_thread_is_left()


class Broken(coop_compete_v0.CoopCompete):
    """Environment with a programming error from its ninth episode on."""

    games = 0

    def reset(self, seed=None, options=None):
        type(self).games += 1
        if type(self).games > 8:
            raise ZeroDivisionError("an error of the environment")
        return super().reset(seed=seed, options=options)


def test_a_failing_environment_ends_the_run_in_its_round(short_run, tmp_path):
    Broken.games = 0
    config = ahead(short_run, 2, rounds=6)
    trainer = Trainer(config, tmp_path, make_env=lambda: Broken(variant="pair", max_cycles=2))
    with pytest.raises(ZeroDivisionError, match="of the environment"):
        trainer.fit()
    assert no_thread_is_left()
    # The rounds before it are complete, as in the sequential loop, and can be resumed.
    assert [row["round"] for row in read_metrics(trainer.files.metrics)] == [0, 1]
    asyncio.run(trainer.shutdown())
    assert list_checkpoints(trainer.files.checkpoints) == ["round_00000002"]


def test_a_failing_learner_ends_the_run_without_a_checkpoint(short_run, tmp_path, monkeypatch):
    trainer = Trainer(ahead(short_run, 2, rounds=6), tmp_path)
    engine = Watched(trainer.run, monkeypatch)
    learner = trainer.run.learners["model_1"]
    engine.held["model_1", 1] = engine.over[3]  # The other model gets ahead.

    def fail():
        if trainer.run.versions["model_1"] == 1:
            raise TrainingError("the learner failed")
        return type(learner).compute_gradients(learner)

    learner.compute_gradients = fail
    with pytest.raises(TrainingError, match="the learner failed"):
        trainer.fit()
    assert no_thread_is_left()
    with pytest.raises(TrainingError, match="load the last checkpoint"):
        trainer.save_checkpoint()
    with pytest.raises(TrainingError, match="load the last checkpoint"):
        trainer.train_round()
    asyncio.run(trainer.shutdown())
    assert not list_checkpoints(trainer.files.checkpoints)


def test_stopped_run_is_complete_and_can_be_resumed(short_run, tmp_path):
    class Stops:
        def write(self, row):
            trainer._stop.set()

        def close(self):
            pass

    config = ahead(short_run, 1, rounds=5, checkpoints__every=1)
    trainer = Trainer(config, tmp_path, sinks=(Stops(),))
    assert trainer.fit()["training_completed"] is False
    rounds = trainer.run.next_round
    assert rounds == 1  # A checkpoint was due, so no model learned ahead.
    assert trainer.run.versions == {"model_0": rounds, "model_1": rounds}
    again = Trainer(config, tmp_path)
    again.load_checkpoint()
    assert same(everything(again.run), everything(trainer.run))
    assert again.fit()["training_completed"] is True
    assert again.run.versions == {"model_0": 5, "model_1": 5}
    assert [row["round"] for row in read_metrics(again.files.metrics)] == [0, 1, 2, 3, 4]
    assert no_thread_is_left()


def test_checkpoint_includes_rounds_learned_ahead(short_run, tmp_path, monkeypatch):
    trainer = Trainer(ahead(short_run, 2, rounds=6), tmp_path)
    engine = Watched(trainer.run, monkeypatch)
    engine.held["model_1", 0] = engine.over[2]  # The other model gets ahead.
    trainer.train_round()
    trainer.save_checkpoint()
    run = trainer.run
    assert run.next_round == run.versions["model_0"] == run.versions["model_1"] > 1
    rows = read_metrics(trainer.files.metrics)
    assert [row["round"] for row in rows] == list(range(run.next_round))
    trainer.close()
    again = Trainer(trainer.config, tmp_path)
    again.load_checkpoint()
    assert same(everything(again.run), everything(run))


def test_episodes_of_all_current_rounds_are_bounded_together(short_run, tmp_path):
    class Counted(coop_compete_v0.CoopCompete):
        current, most = set(), 0

        def reset(self, seed=None, options=None):
            self.current.add(self)
            type(self).most = max(self.most, len(self.current))
            return super().reset(seed=seed, options=options)

        def close(self):
            self.current.discard(self)

    config = ahead(short_run, 3, rounds=4, engine__in_flight=3)
    trainer = Trainer(config, tmp_path, make_env=lambda: Counted(variant="pair", max_cycles=2))
    trainer.fit()
    assert Counted.most == 3


@pytest.mark.parametrize("adapters", [{}, {"models__adapters": {"rank": 4}}], ids=str)
def test_episodes_use_a_copy_of_the_weights_until_publication(adapters, short_run):
    run = build_run(ahead(short_run, 1, models__count=1, **adapters))
    learner, backend = run.learners["model_0"], run.players.backends["model_0"]
    before = texts(play_round(run, 0))
    learner.set_weights({name: own + 1.0 for name, own in learner.weights().items()})
    assert texts(play_round(run, 0)) == before
    run.publish("model_0")
    assert texts(play_round(run, 0)) != before
    trained = {one.data_ptr() for one in learner.weights().values()}
    played = {one.data_ptr() for one in backend.model.parameters()}
    assert not trained & played
    assert any(one.data_ptr() in played for one in run.players.modules["model_0"].parameters()) is (
        bool(adapters)
    ), "an adapter's base is in memory once"


def texts(episodes):
    return [s.decision.text for e in episodes for turn in e.turns for s in turn]


@pytest.mark.parametrize(
    "bound, settings, expected",
    [
        (0, {}, 0),
        (1, {}, 1),
        (4, {}, 4),
        (1, {"updates__sample_budget": {"model_0": 4}, "rollout__groups_per_round": 2}, 0),
        (3, {"updates__sample_budget": {"model_0": 4}, "rollout__groups_per_round": 2}, 1),
        (2, {"updates__sample_budget": {"model_0": 8}}, 2),
    ],
)
def test_room_follows_the_staleness_bound(bound, settings, expected, short_run):
    config = ahead(short_run, bound, **settings)
    assert room(config, "model_0", 1) == expected


def test_play_ahead_refuses_several_processes(short_run, monkeypatch):
    monkeypatch.setattr("srl_train.build.processes.start", lambda *_: 2)
    with pytest.raises(ConfigError, match=r"engine\.play_ahead"):
        build_run(ahead(short_run, 1))
