import numpy as np
import pytest

from srl_agents.baselines.coordination_protocol import (
    BALLOT,
    CYCLE,
    LAST_CYCLE,
    UNDECIDED,
    PublicProtocol,
    measuring_action,
)

SURE = 10.0  # standard errors


def together(votes_of_cycle, cycles, runs=1):
    """Two players; votes_of_cycle(cycle) -> their gaps in standard errors before that cycle."""
    players = [PublicProtocol(runs), PublicProtocol(runs)]
    played = []
    for cycle in range(cycles):
        for player, gap in zip(players, votes_of_cycle(cycle), strict=True):
            player.vote(np.broadcast_to(gap, runs), np.ones(runs))
        for _ in range(CYCLE):
            first, second = (player.act() for player in players)
            players[0].observe(first, second)
            players[1].observe(second, first)
            played.append((first, second))
    return players, played


def choices(players):
    assert all(player.followed.all() for player in players)
    return [player.choice.tolist() for player in players]


@pytest.mark.parametrize(
    ("gaps", "adopted"),
    [
        ((SURE, SURE), 1),
        ((-SURE, -SURE), 0),
        ((SURE, 0.5), 1),
        ((0.5, -SURE), 0),
        ((0.5, -0.5), UNDECIDED),
        ((SURE, -SURE), UNDECIDED),
    ],
)
def test_what_a_ballot_decides(gaps, adopted):
    players, played = together(lambda cycle: gaps, 2)
    assert choices(players) == [[adopted], [adopted]]
    if adopted != UNDECIDED:
        assert {(int(a[0]), int(b[0])) for a, b in played[CYCLE + BALLOT :]} == {(adopted, adopted)}


@pytest.mark.parametrize(
    ("gaps", "adopted"), [((0.1, 0.2), 1), ((-0.1, -0.2), 0), ((0.1, -0.1), 1), ((-SURE, SURE), 1)]
)
def test_the_last_ballot_always_decides(gaps, adopted):
    players, _ = together(lambda cycle: gaps, LAST_CYCLE)
    assert choices(players) == [[UNDECIDED], [UNDECIDED]] or abs(gaps[0]) == SURE
    players, _ = together(lambda cycle: gaps, LAST_CYCLE + 1)
    assert choices(players) == [[adopted], [adopted]]


def test_private_noise_never_parts_two_followers():
    generator = np.random.default_rng(0)
    gaps = generator.normal(0, 1.5, size=(LAST_CYCLE + 1, 2, 500))
    players, played = together(lambda cycle: gaps[cycle], LAST_CYCLE + 1, runs=500)
    first, second = choices(players)
    assert first == second
    assert set(first) == {0, 1}
    apart = [t for t, (a, b) in enumerate(played) if (a != b).any()]
    assert apart and all(t % CYCLE < BALLOT for t in apart)


def test_measures_both_agreements_equally():
    cycle = [measuring_action(position) for position in range(CYCLE)]
    assert sum(cycle[BALLOT:]) * 2 == CYCLE - BALLOT
    assert cycle[:BALLOT] == [1, 0]


def test_the_first_cycle_knows_nothing():
    _, played = together(lambda cycle: (SURE, SURE), 1)
    assert [(int(a[0]), int(b[0])) for a, b in played] == [
        (measuring_action(t),) * 2 for t in range(CYCLE)
    ]


@pytest.mark.parametrize("when", [0, 1, 5, CYCLE - 1, CYCLE + BALLOT, 2 * CYCLE])
def test_whoever_does_otherwise_is_no_follower(when):
    player = PublicProtocol(1)
    player.vote(np.array([SURE]), np.array([1.0]))
    for t in range(2 * CYCLE + 1):
        assert player.followed[0]
        own = player.act()
        player.observe(own, 1 - own if t == when else own)
        if t == when:
            break
    assert not player.followed[0]


def test_a_ballot_has_three_words():
    player = PublicProtocol(1)
    for t in range(CYCLE + BALLOT):
        own = player.act()
        said = {CYCLE: 0, CYCLE + 1: 1}.get(t, own[0])
        player.observe(own, np.array([said], np.int8))
    assert not player.followed[0]
