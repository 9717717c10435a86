"""Rankings agree with OpenSpiel's, on random games."""

import numpy as np
import pytest

from srl_agents.evaluation.nash_averaging import nash_average
from srl_extensions.judging.cross_play import alpha_rank

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def pyspiel():
    return pytest.importorskip("pyspiel", reason="OpenSpiel is not installed: make test-interop")


def test_alpha_rank(pyspiel):
    from open_spiel.python.egt import alpharank

    rng = np.random.default_rng(0)
    for players in range(2, 9):
        payoffs = rng.normal(size=(players, players))
        limit = alpharank.compute([payoffs], m=50, use_inf_alpha=True, inf_alpha_eps=0.01)[2]
        assert np.abs(alpha_rank(payoffs) - limit).max() < 1e-9


@pytest.mark.filterwarnings("ignore")  # cvxpy's, of solvers that are not installed
def test_nash_averaging(pyspiel):
    from open_spiel.python.algorithms.nash_averaging import nash_averaging

    rng = np.random.default_rng(0)
    for players in range(2, 9):
        margins = rng.normal(size=(players, players))
        margins = (margins - margins.T) / 2
        game = pyspiel.create_matrix_game(margins.tolist(), (-margins).tolist())
        weights, values = map(np.ravel, nash_averaging(game))
        found = nash_average(margins)
        # Its solver stops at a tolerance of about 1e-7.
        assert np.abs(found.weights - weights).max() < 1e-5
        assert np.abs(found.values - values).max() < 1e-5
