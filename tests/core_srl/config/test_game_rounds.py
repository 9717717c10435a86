"""How a number of games is divided into rounds."""

import pytest

from core_srl.config.game_rounds import rounds_of


@pytest.mark.parametrize(
    ("episodes", "frequency", "number", "games", "group", "told"),
    [
        (1000, 10, 100, 10, 10, ()),
        (96, 48, 2, 48, 16, ()),
        (25, 10, 2, 10, 10, ("max_episodes is 25: 20 games are played",)),
        (8, 10, 1, 8, 8, ("update_frequency is 10 and max_episodes 8: the models update once",)),
        (17, 20, 1, 16, 16, ("the models update once, after 16 games",)),  # no group divides 17
        (2, 10, 1, 2, 2, ("after 2 games",)),
        (1, 10, 1, 2, 2, ("max_episodes is 1: 2 games are played",)),
    ],
)
def test_at_most_so_many_games_are_played(episodes, frequency, number, games, group, told):
    rounds = rounds_of(episodes, frequency)
    assert (rounds.number, rounds.games, rounds.group) == (number, games, group)
    assert rounds.number * rounds.games <= max(episodes, 2)
    assert len(rounds.told) == len(told)
    assert all(part in line for part, line in zip(told, rounds.told, strict=True))


def test_a_round_of_a_billion_games_is_divided_at_once():
    assert rounds_of(100, 10**12)[:3] == (1, 100, 10)
