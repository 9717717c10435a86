"""The speed benchmark runs and records its measurements. Speed itself is not tested."""

from benchmarks import env_speed
from benchmarks.records import Repeats

NAMES = [row.name for row in env_speed.ROWS]


def test_all_rows_are_measured_and_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(env_speed, "BATCH", 16)
    monkeypatch.setattr(env_speed.records, "commit", lambda: "0123abc")  # while one works on it
    docs = tmp_path / "results.md"
    env_speed.main(["--share", "1e-4", "--repeats", "2", "--markdown", str(docs)])
    printed = capsys.readouterr().out
    assert all(name in printed for name in NAMES)
    assert docs.read_text().startswith("`python -m ")


def test_compared_rows_alone_are_measured(monkeypatch):
    shown = []
    monkeypatch.setattr(env_speed, "measure", lambda rows, *_: shown.extend(rows) or {})
    monkeypatch.setattr(env_speed.Row, "missing", lambda row: row.needs == "minigrid")
    env_speed.main(["--compared"])
    assert {row.peer for row in shown if row.peer} <= {row.name for row in shown} < set(NAMES)
    assert {*env_speed.JAXMARL} < {row.name for row in shown} <= set(NAMES) - {env_speed.GRID}


def test_threshold_uses_the_best_repeat():
    rates = {row.name: Repeats([10.0, row.target or 20.0, 30.0]) for row in env_speed.ROWS}
    del rates["KuhnPoker-v0"]
    markdown, checks = env_speed.tables(env_speed.ROWS, rates)
    assert "| KuhnPoker-v0 |  | not installed |" in markdown
    assert f"| {env_speed.KUHN} in text | KuhnPoker-v0 |  | not installed |" in markdown
    assert f"| {env_speed.SINGLE} | 200k | 200k | 0k | 0k | 1.00 |" in markdown
    assert sum(check.held for check in checks) == len(checks) == 10 + 2
    rates[env_speed.SINGLE] = Repeats([199e3] * 3)
    [missed] = (one for one in env_speed.tables(env_speed.ROWS, rates)[1] if not one.held)
    assert missed.claim == f"{env_speed.SINGLE}: at least 200k"
