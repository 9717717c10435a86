"""A monitor that is started hears every trainer that is monitored; what it wrote is drawn."""

import asyncio
import json
from dataclasses import replace
from functools import partial

import pytest

from core_srl import (
    MonitoringConfig,
    MultiModelConfig,
    MultiModelTrainer,
    UnifiedMonitor,
    create_graph_visualizer,
    create_unified_monitor,
)
from core_srl.monitoring import monitor as monitors
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_train.errors import ConfigError
from srl_train.metrics import Watcher, read_metrics
from srl_train.metrics.errors import MetricsError
from tests.srl_extensions.pages.pages import blocks, document, in_a_browser
from tests.srl_extensions.pages.synthetic_runs import row

EVIL = "</script><script>console.log('ran')</script>\u202e\x1b[2J"


@pytest.fixture(autouse=True)
def nobody_listens():
    yield
    for one in tuple(monitors._started):
        one.stop()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "training.json"


def monitor_of(log, **settings):
    return create_unified_monitor(MonitoringConfig(log_file_path=str(log), **settings))


def games(seeds, names=("model_0", "model_1", "model_2")):
    """Two cooperate, one competes."""
    make_env = partial(make, "coop_compete_v0", num_agents=3, max_cycles=4)
    env = make_env()
    seats = {
        agent: classic_policy(f"always_{choice}", env)
        for agent, choice in zip(
            env.possible_agents, ("cooperate", "cooperate", "compete"), strict=True
        )
    }
    told = dict(zip(env.possible_agents, names, strict=True))
    return play_many(make_env, seats, list(seeds), names=told)


def told(log, rounds=6, names=("model_0", "model_1", "model_2"), run="run"):
    """What a monitor writes of some rounds of one run."""
    with monitor_of(log, interaction_rounds=3, interaction_games=3) as monitor:
        for number in range(rounds):
            monitor.write(row(number), run)
            monitor.write_episodes(number, games(range(3 * number, 3 * number + 3), names), run)
        monitor.write_evaluation("after", {"raw_reward": 0.5}, run)
    return monitor


@pytest.mark.usefixtures("one_model")
def test_a_started_monitor_hears_a_trainer_that_is_monitored(tmp_path, log, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monitor = create_unified_monitor(
        MonitoringConfig(enable_file_logging=True, log_file_path=str(log), interaction_rounds=1)
    )
    trainer = MultiModelTrainer(
        MultiModelConfig(num_models=2, model_types=["tiny"], max_episodes=4, update_frequency=2,
                         episode_length=4, batch_size=8, checkpoint_dir="runs")
    )  # fmt: skip
    trainer.config.enable_monitoring = True
    monitor.start()
    asyncio.run(trainer.train())
    monitor.stop()

    lines = read_metrics(log)
    rounds = [line for line in lines if "environment" in line]
    assert [line["round"] for line in rounds] == [0, 1]
    kept = read_metrics(tmp_path / "runs" / "metrics.jsonl")
    assert rounds == [{**line, "run": "runs"} for line in kept]
    assert monitor.latest_metrics == rounds[-1]
    assert [line["evaluation"] for line in lines if "evaluation" in line] == ["before", "after"]
    drawn = [line for line in lines if "interactions" in line]
    assert [line["rounds"] for line in drawn] == [[0, 0], [1, 1]]
    for line in drawn:
        assert line["games"] == 2 and line["not_played_again"] == []
        ends = {(edge["source"], edge["target"]) for edge in line["interactions"]}
        assert ends == {("model_0", "model_1"), ("model_1", "model_0")}
        assert {edge["measure"] for edge in line["interactions"]} == {"influence"}


def test_one_that_is_not_started_or_stopped_hears_nothing_and_an_unmonitored_run_tells_nothing(log):
    monitor = monitor_of(log)
    hearing = monitors.StartedMonitors("run")
    assert isinstance(hearing, Watcher) and isinstance(monitor, Watcher)
    hearing.write(row(0))
    assert monitor.latest_metrics == {} and not log.exists()
    monitor.start()
    monitor.start()  # twice is once
    hearing.write(row(1))
    monitor.stop()
    monitor.stop()
    hearing.write(row(2))
    assert monitor.latest_metrics["round"] == 1 and not monitor.running
    assert [line["round"] for line in read_metrics(log) if "round" in line] == [1]


def test_graphs_are_of_as_many_rounds_as_configured_and_of_each_run_apart(log):
    with monitor_of(log, interaction_rounds=2, interaction_games=1) as monitor:
        for number in range(3):
            for run in ("a", "b"):
                names = [f"{run}{place}" for place in range(3)]
                monitor.write_episodes(number, games([number, 50], names), run)
        monitors.StartedMonitors("a").close()
        assert {one.games for one in monitor.latest_interactions.values()} == {1, 2}
    drawn = [line for line in read_metrics(log) if "interactions" in line]
    assert [(line["run"], line["rounds"], line["games"]) for line in drawn] == [
        ("a", [0, 1], 2), ("b", [0, 1], 2), ("a", [2, 2], 1), ("b", [2, 2], 1),
    ]  # fmt: skip
    [edge] = [one for one in drawn[0]["interactions"]
              if (one["source"], one["target"]) == ("a2", "a0")]  # fmt: skip
    assert edge["value"] == pytest.approx(-0.075)
    assert edge["interval"] == pytest.approx([-0.075, 0.0])  # two games show nothing


def test_failed_games_count_nowhere_and_none_are_played_again_where_that_is_off(log):
    played = games([0, 1])
    failed = [replace(game, failure="BackendError: gone") for game in played]
    with monitor_of(log, interaction_rounds=1) as monitor:
        monitor.write_episodes(0, failed)
        assert monitor.latest_interactions[""].games == 0
    with monitor_of(log, interaction_games=0) as monitor:
        monitor.write_episodes(0, played)
    assert monitor.latest_interactions == {}


def test_without_a_file_rows_are_still_there_and_only_the_newest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with UnifiedMonitor(MonitoringConfig(enable_file_logging=False, history_window_size=2)) as one:
        for number in range(4):
            one.write(row(number))
    assert [line["round"] for line in one.history] == [2, 3]
    assert list(tmp_path.iterdir()) == []


def test_a_session_is_added_to_the_file_and_the_newest_is_drawn(log):
    told(log, rounds=2, run="old")
    told(log, rounds=6, run="new")
    visualizer = create_graph_visualizer(str(log))
    assert visualizer.runs() == ["new"]
    place = visualizer.draw()
    assert place == log.with_suffix(".html")
    [graph] = blocks(document(place), "interactiongraph")
    assert [one["label"] for one in graph["periods"]] == [
        "Round 0 to 2 · 9 games", "Round 3 to 5 · 9 games",
    ]  # fmt: skip
    assert graph["players"] == ["model_0", "model_1", "model_2"]
    assert len([one for one in graph["periods"][0]["arrows"] if one["sure"]]) == 6
    [panel] = blocks(document(place), "panel")
    assert panel["lines"][0]["x"] == [0, 1, 2, 3, 4, 5]


def test_another_ending_is_refused(log, tmp_path):
    told(log)
    with pytest.raises(ConfigError, match="html"):
        create_graph_visualizer(str(log)).draw(tmp_path / "graph.pdf")


@pytest.mark.browser
def test_what_strangers_wrote_into_the_file_is_text(log, tmp_path):
    told(log, names=[f"{EVIL}{place}" for place in range(3)], run=EVIL)
    drawn, said = in_a_browser(create_graph_visualizer(str(log)).draw(), tmp_path / "browser")
    assert said == [] and "console.log('ran')" in drawn.text and "\u202e" not in drawn.text


@pytest.mark.browser
def test_lines_of_another_make_do_no_harm(log, tmp_path):
    log.parent.mkdir()
    lines = (
        {"interactions": 3, "rounds": "x", "games": None},
        {"interactions": [1, {"measure": "influence", "source": [1], "value": "much"}]},
        {"environment": {}, "round": "one", "models": [1]},
        {"interactions": [{"measure": "influence", "interval": ["a", None], "games": "x"}]},
    )
    for line in lines:
        log.write_text(json.dumps(line) + "\n")
        page = create_graph_visualizer(str(log)).draw()
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = create_graph_visualizer(str(log)).draw()
    drawn, said = in_a_browser(page, tmp_path / "browser")
    assert said == [] and "Monitored" in drawn.text


def test_what_is_wrong_is_said(log, tmp_path):
    with pytest.raises(MetricsError, match="is not there: give the log_file_path"):
        create_graph_visualizer(str(log)).draw()
    log.parent.mkdir()
    log.write_text("no json\nat all\n")
    with pytest.raises(MetricsError, match="line 1 is damaged"):
        create_graph_visualizer(str(log)).draw()
    with pytest.raises(MetricsError, match="line 1 is damaged"):
        monitor_of(log).start()
    assert monitors._started == []
    for name, value in (("log_file_path", 3), ("enable_file_logging", "no"),
                        ("interaction_games", -1), ("history_window_size", 0)):  # fmt: skip
        with pytest.raises(ConfigError, match=f"{name} is {value!r}"):
            MonitoringConfig(**{name: value})
    with pytest.raises(ConfigError, match="give a MonitoringConfig"):
        create_unified_monitor("./logs/training.json")
    with pytest.raises(ConfigError, match="log_file is None"):
        create_graph_visualizer(None)
