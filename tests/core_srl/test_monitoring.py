"""A started monitor records every trainer that is monitored, and its file is drawn."""

import json

import pytest

from core_srl import (
    MonitoringConfig,
    create_graph_visualizer,
    create_unified_monitor,
    monitoring,
)
from srl_train.errors import MetricsError
from srl_train.metrics import read_metrics
from tests.srl_extensions.pages.pages import blocks, document, in_a_browser
from tests.srl_extensions.pages.synthetic_runs import row

EVIL = "</script><script>console.log('ran')</script>\u202e\x1b[2J"


@pytest.fixture(autouse=True)
def no_monitor_remains():
    yield
    for one in tuple(monitoring._started):
        one.stop()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "training.json"


def monitor_of(log, **settings):
    return create_unified_monitor(MonitoringConfig(log_file_path=str(log), **settings))


def record(log, rounds=6, run="run"):
    """Record some rounds of one run."""
    monitor, watcher = monitor_of(log), monitoring.StartedMonitors(run)
    monitor.start()
    for number in range(rounds):
        watcher.write(row(number))
    monitor.stop()


def test_monitor_records_from_start_to_stop(log):
    monitor = monitor_of(log)
    watcher = monitoring.StartedMonitors("run")
    watcher.write(row(0))
    assert monitor.latest_metrics == {} and not log.exists()
    monitor.start()
    monitor.start()
    watcher.write(row(1))
    monitor.stop()
    monitor.stop()
    watcher.write(row(2))
    assert monitor.latest_metrics["round"] == 1
    assert [line["round"] for line in read_metrics(log) if "round" in line] == [1]


def test_all_runs_of_a_file_are_drawn(log):
    record(log, rounds=2, run="old")
    record(log, rounds=6, run="new")
    place = create_graph_visualizer(str(log)).draw()
    assert place == log.with_suffix(".html")
    panels = blocks(document(place), "panel")
    assert [panel["lines"][0]["x"] for panel in panels] == [[0, 1], [0, 1, 2, 3, 4, 5]]


@pytest.mark.browser
def test_untrusted_file_cannot_run_code_or_break_the_page(log, tmp_path):
    record(log, run=EVIL)
    with log.open("a") as file:
        for line in ({"environment": {}, "round": "one", "models": [1]}, {"environment": 3}):
            file.write(json.dumps(line) + "\n")
    drawn, said = in_a_browser(create_graph_visualizer(str(log)).draw(), tmp_path / "browser")
    assert said == [] and "console.log('ran')" in drawn.text and "\u202e" not in drawn.text


def test_damaged_files_are_errors(log):
    log.parent.mkdir()
    log.write_text("no json\nat all\n")
    with pytest.raises(MetricsError, match="line 1"):
        create_graph_visualizer(str(log)).draw()
    with pytest.raises(MetricsError, match="line 1"):
        monitor_of(log).start()
    assert monitoring._started == []
