import numpy as np
import pytest

from srl_agents.baselines.handshake import CALL, Handshake

BATTLE = np.array([[0.6, 0.0], [0.0, 1.0]])


def pair(row, column, *, noise=0.01, coins=((0, 1), (0, 0)), together=True):
    """Return two players after their handshake, each with known rewards from the start.

    Both call at once, or with `together=False` the second answers the first one's call.
    """
    players = [
        Handshake(len(row), coins[0], calls=True),
        Handshake(len(row), coins[1], calls=together),
    ]
    known = np.full(row.shape, 1000)
    players[0].know(row, known, noise)
    players[1].know(column.T, known, noise)
    if not together:
        for action in CALL:
            assert players[0].act() == action
            players[0].observe(1)
    for _ in range(400):
        actions = [player.act() for player in players]
        players[0].observe(actions[1])
        players[1].observe(actions[0])
        if players[0].agreed or players[0].over:
            return players
    raise AssertionError("the handshake did not end")


@pytest.mark.parametrize("together", [True, False])
def test_both_agree_on_the_same_fair_cycle(together):
    column = BATTLE[::-1, ::-1]
    first, second = pair(BATTLE, column, together=together)
    own, other = first.agreed
    assert second.agreed == (other, own)
    pays = np.mean([[BATTLE[cell], column[cell]] for cell in zip(own, other, strict=True)], axis=0)
    assert pays == pytest.approx([0.8, 0.8], abs=0.05)


def test_noisy_rewards_are_measured_again():
    # Two agreements differ by a tenth of the range, which is also the error of the rewards.
    close = np.array([[0.9, 0.0], [0.0, 1.0]])
    [sure, _], [unsure, _] = pair(close, close, noise=0.001), pair(close, close, noise=0.2)
    assert sure.agreed is not None and not sure._again
    assert unsure._again and set(unsure._cells) == {(0, 0), (1, 1)}
    assert unsure.agreed is not None


def test_a_cycle_is_measured_again_if_one_of_its_joint_actions_may_be_better():
    # Each player prefers another one of two nearly equal agreements.
    row = np.array([[1.0, 0.0], [0.0, 0.9]])
    first, second = pair(row, row[::-1, ::-1], noise=0.2)
    for player in (first, second):
        assert player._again and set(player._cells) == {(0, 0), (1, 1)}
    battle = pair(BATTLE, BATTLE[::-1, ::-1], noise=0.001)  # better than either joint action alone
    assert not battle[0]._again and len(set(battle[0].agreed[0])) == 2


@pytest.mark.parametrize(
    "stranger", [lambda own: 0, lambda own: 1, lambda own: own, lambda own: 1 - own],
    ids=["always 0", "always 1", "echo", "contrary"],
)  # fmt: skip
def test_a_handshake_with_another_policy_ends(stranger):
    player, rounds = Handshake(2, [0, 1] * 4, calls=True), 0  # without known rewards
    while not player.over:
        assert player.agreed is None and rounds < 45
        player.observe(stranger(player.act()))
        rounds += 1
