"""Short measurements of the environment server."""

from benchmarks import env_server


def test_a_short_measurement(capsys):
    assert env_server.main(["--sessions", "3", "--steps", "6", "--repeats", "1"]) in (0, 1)
    printed = capsys.readouterr().out
    assert env_server.SINGLE in printed and env_server.BATCHED in printed
