"""Short measurements of the environment server."""

import numpy as np

from benchmarks import env_server
from benchmarks.records import Repeats


def test_a_short_measurement(capsys):
    words = ["--minutes", "0.01", "--sessions", "3", "--steps", "6", "--repeats", "1"]
    assert env_server.main(words) in (0, 1)
    printed = capsys.readouterr().out
    assert env_server.SINGLE in printed and env_server.BATCHED in printed
    assert "- held: every trajectory equals the local one to the bit (0 of" in printed


def test_differences_are_found():
    one = np.zeros((3, 2)), {"a": np.array([[1], [2], [None]], object)}
    other = np.zeros((3, 2)), {"a": np.array([[1], [5], [None]], object)}
    assert env_server.equal(one, one, 3).all()
    assert env_server.equal(one, other, 3).tolist() == [True, False, True]
    played = {"trajectories": 3, "different": 1, "steps": 9, "early": 50.0, "late": 60.0}
    speeds = dict.fromkeys((env_server.SINGLE, env_server.BATCHED), Repeats((1,)))
    _, checks = env_server.tables(speeds, played)
    assert [check.held for check in checks] == [False] * 3
