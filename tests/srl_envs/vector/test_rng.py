import numpy as np

from srl_envs.vector.rng import BatchedRng


def test_each_environment_gets_its_own_generators_numbers(monkeypatch):
    monkeypatch.setattr("srl_envs.vector.rng.BLOCK", 6)  # so that blocks end soon
    rng = BatchedRng(4, 2, np.random.Generator.random)
    rng.reseed(range(4), range(4))
    expected = [np.random.default_rng(i).random((60, 2)) for i in range(4)]
    used, generator = [0] * 4, np.random.default_rng(0)
    for turn in range(40):
        idle = generator.random(4) < (0.3 if 10 <= turn < 20 else 0.0)
        if turn in (25, 26):  # one begins anew, the next goes on
            rng.reseed([2, 3], [2, None])
            used[2] = 0
        if turn == 30:
            idle = np.ones(4, bool)
        taken = rng.next(idle)
        for i in (~idle).nonzero()[0].tolist():
            assert taken[i].tolist() == expected[i][used[i]].tolist(), (turn, i)
            used[i] += 1
