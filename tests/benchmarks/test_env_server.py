"""The measurements of the environment server, in small."""

import numpy as np

from benchmarks import env_server
from benchmarks.repeats import Repeats


def test_a_moment_of_it(capsys):
    words = ["--minutes", "0.01", "--sessions", "3", "--steps", "6", "--repeats", "1"]
    assert env_server.main(words) in (0, 1)
    told = capsys.readouterr().out
    assert all(way in told for way in (env_server.UNARY, env_server.STREAM, env_server.BATCHED))
    assert "- held: every trajectory equals the local one to the bit (0 of" in told


def test_what_differs_is_found():
    one = np.zeros((3, 2)), {"a": np.array([[1], [2], [None]], object)}
    other = np.zeros((3, 2)), {"a": np.array([[1], [5], [None]], object)}
    assert env_server._same(one, one, 3).all()
    assert env_server._same(one, other, 3).tolist() == [True, False, True]
    played = {"trajectories": 3, "different": 1, "steps": 9, "early": 50.0, "late": 60.0}
    speeds = dict.fromkeys(
        (env_server.UNARY, env_server.STREAM, env_server.AT_ONCE, env_server.BATCHED), Repeats((1,))
    )
    _, checks = env_server.tables(speeds, played)
    assert [check.held for check in checks] == [False] * 4
