"""What holds for all graphs: the same games give the same, and records are data."""

from dataclasses import replace

import numpy as np
import pytest

from srl_agents.episode import Decision
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions import graphs, interactions, observe
from srl_envs import make
from tests.srl_agents.evaluation.interactions.known_players import played


def test_the_same_games_give_the_same_numbers_and_failed_ones_count_nowhere():
    players = [("a", "truthful_trader"), ("b", "hard_bargainer")]
    games = played("social_trading_v0", players, 0, 3, num_agents=2, max_cycles=9)
    failed = replace(games[0], failure="BackendError: gone")
    assert interactions([*games, failed], 7) == interactions(games, 7)
    assert interactions(games, 7) == graphs([observe(game, 7) for game in games], 7)
    with pytest.raises(EpisodeError, match="leave it out"):
        observe(failed)


def test_a_single_game_has_no_intervals_and_no_games_no_graphs():
    games = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], num_agents=2,
                   max_cycles=4)  # fmt: skip
    assert {edge.interval for edge in interactions(games[:1]).graphs[0].edges} == {None}
    assert interactions([]).graphs == ()
    alone = played("maze_v0", [("a", "explorer")], games=2)
    assert interactions(alone).graphs == () and interactions(alone).not_replayed == ()


def test_a_record_that_was_changed_is_not_measured_and_one_of_strangers_is_refused():
    [game] = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], games=1, num_agents=2,
                    max_cycles=4)  # fmt: skip
    changed = [tuple(replace(step, reward=9.0) for step in turn) for turn in game.turns]
    assert "was changed" in interactions([replace(game, turns=tuple(changed))]).not_replayed[0]
    with pytest.raises(EpisodeError, match="whom nobody played"):
        observe(replace(game, seats={"agent_0": "a"}))
    with pytest.raises(EpisodeError, match="at most 32"):
        observe(replace(game, seats={f"agent_{n}": "a" for n in range(33)}))


CALLED = []


def made_by_a_record(**options):
    CALLED.append(options)
    return make("coop_compete_v0", num_agents=2)


def test_code_that_a_record_names_runs_only_where_it_is_trusted():
    [game] = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], games=1, num_agents=2,
                    max_cycles=4)  # fmt: skip
    named = replace(game, made_as={"name": f"{__name__}:made_by_a_record", "options": {}})
    assert interactions([named]).not_replayed != () and CALLED == []
    interactions([named], trusted=True)
    assert CALLED == [{}]


def test_a_few_games_are_never_sure():
    # An even chance puts n values on one side of zero with probability 2^(1 - n). There are two
    # edges, so that has to be at most .025.
    players = [("a", "always_cooperate"), ("b", "always_cooperate")]
    games = played("coop_compete_v0", players, games=7, num_agents=2, max_cycles=3)
    for count, sure in ((6, False), (7, True)):
        edge = interactions(games[:count]).graph("influence").edge("a", "b")
        assert edge.interval == pytest.approx((edge.value if sure else 0.0, edge.value))
        assert edge.sure is sure


def changed_step(game, number, **fields):
    """The game with fields of the first agent's step of a turn replaced."""
    first, *others = game.turns[number]
    turns = list(game.turns)
    turns[number] = (replace(first, **fields), *others)
    return replace(game, turns=tuple(turns))


def test_a_forged_record_is_told_of_wherever_it_was_changed():
    [game] = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], games=1, num_agents=2,
                    max_cycles=4)  # fmt: skip
    ghost = replace(changed_step(game, 1, agent="ghost"), seats={**game.seats, "ghost": "c"})
    several = changed_step(game, 2, decision=Decision(np.array([0, 1])))
    words = changed_step(game, 0, decision=Decision("cooperate"))
    last = changed_step(game, -1, reward=50.0)
    short = replace(game, turns=game.turns[:2])
    for forged, reason in ((ghost, "moves of ghost"), (several, "outside"), (words, "outside"),
                           (last, "it earned 50.0"), (short, "the game goes on")):  # fmt: skip
        found = interactions([forged])
        assert reason in found.not_replayed[0] and found.graph("influence") is None
