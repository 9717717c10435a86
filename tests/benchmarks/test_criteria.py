"""What OurMethodPolicy has to show: at a few settings in the default run, at all with 50 runs."""

import pytest

from benchmarks.matrix_game.full import COOP_LEVELS, DIFFICULTIES, checks
from srl_agents.evaluation.matrix_game.cross_play import cross_play


@pytest.mark.parametrize(("level", "difficulty"), [(0.2, 0.6), (0.5, 0.3), (0.6, 0.6)])
def test_self_play_reaches_the_oracle(level, difficulty):
    settings = {"runs": 6, "episodes": 200, "horizon": 32, "seed": 1}
    result = cross_play(coop_level=level, difficulty=difficulty, players=("OUR",), **settings)
    for check in checks(result):
        assert check.held, check


@pytest.mark.slow
@pytest.mark.parametrize("difficulty", DIFFICULTIES)
@pytest.mark.parametrize("level", COOP_LEVELS)
def test_all_criteria_at_50_runs(level, difficulty):
    settings = {"runs": 50, "episodes": 200, "horizon": 32, "seed": 42}
    result = cross_play(coop_level=level, difficulty=difficulty, **settings)
    failed = [check for check in checks(result) if not check.held]
    assert not failed
