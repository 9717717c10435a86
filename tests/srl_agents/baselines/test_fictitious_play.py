import numpy as np

from srl_agents.baselines.learners import FictitiousPlayRuns

GAME = np.array([[0.9, 0.6], [0.6, 0.75]])


def test_it_responds_to_what_the_partner_replies():
    # This partner does the opposite of our last action: only changing sides meets it.
    player, last = FictitiousPlayRuns([3]), np.zeros(1, np.int8)
    for _ in range(6):
        moves = []
        for t in range(16):
            other = np.ones(1, np.int8) if t == 0 else 1 - last
            last, _ = player.act()
            player.observe_opponent(other)
            moves.append((last[0], other[0]))
        own, met = np.array(moves, np.int8).T
        player.update(own[None], GAME[own, met][None])
    assert GAME[own, met].mean() > 0.8
