"""Tables and evaluation of classic algorithms; training requires `make bench-classic`."""

import numpy as np
import pytest

from benchmarks import classic
from srl_envs import make


def cooperate(rows, state, starts):
    """Return action 1 for all agents, and a memory."""
    assert (state is None) == starts.all() and rows.shape == (len(starts), 7)
    return np.ones(len(rows), int), "memory"


def run(algorithm, seed, **scores):
    return {"game": "bandit_v1", "algorithm": algorithm, "seed": seed, **scores}


def test_table_has_intervals_between_the_reference_values():
    runs = [
        run(classic.IPPO, 0, train=0.2, test=0.5),
        run(classic.IPPO, 1, train=0.4, test=0.5),
        run(classic.RECURRENT, 0, train=0.6, test=0.7),
    ]
    train, test = classic.table(runs).splitlines()[2:]
    # 12.7062 standard errors of .1 on each side: two values have one degree of freedom.
    assert train == (
        "| `bandit_v1`, train | 0.500 | 0.500 | 0.606 | 0.300 (-0.971 to 1.571) | 0.600 | 0.700 |"
    )
    assert test == "| `bandit_v1`, test | 0.500 | 0.500 | 0.651 | 0.500 | 0.700 | 0.725 |"


@pytest.mark.parametrize("split", ["train", "test"])
def test_evaluation_plays_every_rule_set_equally_often(split, monkeypatch):
    monkeypatch.setattr(classic, "EPISODES", 2)
    game = "coop_compete_pair_v1"
    found = classic.mean_reward(cooperate, game, split)
    # 512 rewards with noise of standard deviation 0.05.
    assert found == pytest.approx(make(game, split=split).baselines()["constant"], abs=0.01)
