import numpy as np
import pytest

from srl_agents.baselines.solutions import CYCLE, fair_cycle

TURNS = np.array([[0.0, 1.0], [0.6, 0.0]])


@pytest.mark.parametrize(
    ("row", "column", "shares"),
    [
        (np.array([[3.0, 0], [5, 1]]), np.array([[3.0, 5], [0, 1]]), {(0, 0): 1.0}),  # prisoners
        (TURNS, TURNS.T, {(0, 1): 0.5, (1, 0): 0.5}),
        (np.eye(2), 1 - np.eye(2), {(0, 0): 0.5, (0, 1): 0.5}),  # matching pennies
        (np.array([[1.0, 0], [0, 0.5]]), np.array([[7.0, 0], [0, 3.0]]), {(0, 0): 1.0}),
    ],
    ids=["prisoners", "taking turns", "matching pennies", "common interest"],
)
def test_by_hand(row, column, shares):
    agreement = fair_cycle(row, column)
    assert len(agreement.cells) == CYCLE
    assert {cell: agreement.cells.count(cell) / CYCLE for cell in agreement.cells} == shares
    pays = [row[cell] for cell in agreement.cells]
    assert agreement.row == pytest.approx(np.mean(pays))


def test_no_player_gets_less_than_its_maximin_value():
    # The sum is greatest at (0, 1), where the row player gets less than its maximin value 2.
    row, column = np.array([[2.0, 0.0], [2.0, 2.0]]), np.array([[1.0, 9.0], [2.0, 0.0]])
    agreement = fair_cycle(row, column)
    assert agreement.row >= 2 - 0.01 * 2
