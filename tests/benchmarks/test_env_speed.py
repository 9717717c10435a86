"""The speed benchmark runs and records its measurements. Speed itself is not tested."""

from benchmarks import env_speed
from benchmarks.records import Repeats


def test_all_rows_are_measured_and_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(env_speed, "BATCH", 16)
    monkeypatch.setattr(env_speed.records, "commit", lambda: "0123abc")  # while one works on it
    docs = tmp_path / "results.md"
    env_speed.main(["--share", "1e-4", "--repeats", "2", "--markdown", str(docs)])
    printed = capsys.readouterr().out
    assert all(row.name in printed for row in env_speed.ROWS)
    assert docs.read_text().startswith("`python -m ")


def test_threshold_uses_the_best_repeat(monkeypatch):
    monkeypatch.setattr(env_speed.Row, "missing", lambda row: "not installed: pip install it")
    rates = {row.name: Repeats([10.0, row.target or 20.0, 30.0]) for row in env_speed.ROWS}
    del rates["KuhnPoker-v0"]
    markdown, checks = env_speed.tables(rates)
    assert "| KuhnPoker-v0 |  | not installed: pip install it |" in markdown
    assert f"| {env_speed.SINGLE} | 200k | 200k | 0k | 1.00 |" in markdown
    assert sum(check.held for check in checks) == len(checks) == 10 + 2
    rates[env_speed.SINGLE] = Repeats([199e3] * 3)
    assert [check.claim for check in env_speed.tables(rates)[1] if not check.held] == [
        f"{env_speed.SINGLE}: at least 200k"
    ]
