"""Cross-play: who meets whom where, from which starts, and what failed."""

from functools import partial

import pytest

from srl_agents.evaluation.population.arena import arena, scenario_arena
from srl_agents.evaluation.population.cross_play import play_cross
from srl_agents.evaluation.population.payoffs import cells, returns_by_start
from srl_agents.evaluation.population.results import results
from srl_agents.scripted.registry import classic_policy
from srl_envs import registry, scenarios
from srl_envs.errors import EnvConfigError
from tests.srl_agents.evaluation.population.contest import Contest, Number, players

CONTEST = arena("contest", Contest)


def scripted(made, *names):
    env = made.make()
    return {name: dict.fromkeys(made.agents, classic_policy(name, env)) for name in names}


def test_a_pair_meets_in_both_places_from_the_same_starts():
    games = play_cross(CONTEST, players(low=Number(1), high=Number(2)), episodes=3)
    met = [(game.first, game.second, game.start) for game in games]
    pairs = [("low", "low"), ("low", "high"), ("high", "low"), ("high", "high")]
    assert met == [(*pair, start) for pair in pairs for start in range(3)]
    seeds = {game.start: game.seed for game in games}
    assert len(set(seeds.values())) == 3
    assert all(game.seed == seeds[game.start] for game in games)
    assert [(one.first_return, one.winner) for one in games[3:9]] == [
        *[(-1.0, "second")] * 3, *[(1.0, "first")] * 3,
    ]  # fmt: skip


def test_a_team_is_held_by_one_player_in_either_place():
    battle = arena("team_battle_v0", partial(registry.make, "team_battle_v0", max_cycles=2))
    held = {}
    games = play_cross(
        battle,
        scripted(battle, "always_cooperate", "always_compete"),
        episodes=1,
        at_game=lambda game, episode: held.setdefault((game.first, game.second), episode.seats),
    )
    assert len(games) == 4 and battle.two_sided
    assert [game.winner for game in games] == ["draw", "first", "second", "draw"]
    seats = held["always_cooperate", "always_compete"]
    team_a = [agent for agent in seats if agent in battle.places[0]]
    assert 0 < len(team_a) < len(seats)
    assert {seats[agent] for agent in team_a} == {"always_cooperate"}
    assert {seats[agent] for agent in seats if agent not in team_a} == {"always_compete"}


def test_without_teams_one_agent_visits_all_others_in_every_place():
    four = arena("coop", partial(registry.make, "coop_compete_v0", num_agents=4, max_cycles=2))
    names = ("always_cooperate", "always_compete")
    games = play_cross(four, scripted(four, *names), episodes=1)
    places = [(game.first, game.second, game.place) for game in games]
    assert places == [
        (names[0], names[0], 0),
        *[(names[0], names[1], place) for place in range(4)],
        *[(names[1], names[0], place) for place in range(4)],
        (names[1], names[1], 0),
    ]


def test_a_scenario_has_the_evaluated_agents_as_its_only_place():
    scenario = scenarios.scenario("staged_v0.with_a_preying_adversary")
    made = scenario_arena(scenario)
    assert made.places == (scenario.focal,) and not made.two_sided
    games = play_cross(made, scripted(made, "uniform", "always_compete"), episodes=1)
    assert len(games) == 4


def test_nobody_is_met_where_there_is_one_agent():
    with pytest.raises(EnvConfigError, match="has one agent, so nobody to meet"):
        arena("maze_v0", partial(registry.make, "maze_v0"))


def test_the_same_seed_gives_the_same_numbers():
    field = players(low=Number(1, 5), high=Number(2, 5))
    first, again = (play_cross(CONTEST, field, episodes=4, seed=3) for _ in range(2))
    assert first == again != play_cross(CONTEST, field, episodes=4, seed=4)
    groups = dict.fromkeys(field, "all")
    assert results(CONTEST, first, groups, 3) == results(CONTEST, again, groups, 3)


def test_failed_games_are_counted_and_in_no_mean():
    broken = arena("contest", partial(Contest, broken_for=7))
    field = players(low=Number(1), broken=Number(6, 2), high=Number(9))
    games = play_cross(broken, field, episodes=20)
    failed = [game for game in games if game.failure is not None]
    assert 0 < len(failed) < len(games)
    assert all("broken" in (one.first, one.second) for one in failed)
    assert all(one.first_return is None and one.winner is None for one in failed)
    table = cells(games, list(field), broken.two_sided, seed=0)
    assert table[1][2].mean == -1.0  # of those games that came to their end
    assert table[1][2].failed == table[2][1].failed > 0
    assert table[1][2].games + table[1][2].failed == 40
    told = results(broken, games, dict.fromkeys(field, "all"), 0)["failed"]
    assert len(told) == len(failed) and "broken" in told[0]["failure"]


def test_a_pair_whose_games_all_failed_has_no_mean_and_no_ranking():
    broken = arena("contest", partial(Contest, broken_for=7))
    field = players(low=Number(1), broken=Number(7))
    games = play_cross(broken, field, episodes=2)
    found = results(broken, games, {"low": "low", "broken": "broken"}, 0)
    assert found["matrix"][0][1]["mean"] is None and found["matrix"][0][0]["mean"] == 0.0
    assert found["rankings"] is None


def test_returns_are_each_sides_own_over_both_places():
    uneven = arena("contest", partial(Contest, left_bonus=4.0))  # 2 on average of both places
    games = play_cross(uneven, players(low=Number(1), high=Number(2)), episodes=2)
    returns_RCE = returns_by_start(games, ["low", "high"], two_sided=True)
    assert returns_RCE[:, :, 0].tolist() == [[2.0, 1.0], [3.0, 2.0]]


def test_self_play_stands_between_uniform_play_and_the_optimum():
    battle = arena("team_battle_v0", partial(registry.make, "team_battle_v0", max_cycles=4))
    field = scripted(battle, "always_cooperate", "uniform")
    games = play_cross(battle, field, episodes=40)
    found = results(battle, games, {name: name for name in field}, 0)["normalised"]
    assert found["always_cooperate"] == pytest.approx(1.0, abs=0.02)
    assert found["uniform"] == pytest.approx(0.0, abs=0.2)
