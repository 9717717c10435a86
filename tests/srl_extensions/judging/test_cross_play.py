"""Cross-play: pairs, places and starts; failures; payoffs by hand."""

from functools import partial

from srl_agents.episode import read_jsonl
from srl_agents.scripted.registry import classic_policy
from srl_envs import registry
from srl_extensions.judging.command_crossplay import table_of_arena
from srl_extensions.judging.cross_play import arena, play_cross, results, returns_by_start
from srl_extensions.judging.episodes import EpisodeRunner
from tests.srl_extensions.judging.contest import Contest, Number, players

CONTEST = arena("contest", Contest)


def scripted(made, *names):
    env = made.make()
    return {name: dict.fromkeys(made.agents, classic_policy(name, env)) for name in names}


def test_pairs_play_in_both_places_from_the_same_starts():
    games = play_cross(CONTEST, players(low=Number(1), high=Number(2)), episodes=3)
    pairs = [("low", "low"), ("low", "high"), ("high", "low"), ("high", "high")]
    assert [(game.first, game.second, game.start) for game in games] == [
        (*pair, start) for pair in pairs for start in range(3)
    ]
    seeds = {game.start: game.seed for game in games}
    assert len(set(seeds.values())) == 3
    assert all(game.seed == seeds[game.start] for game in games)
    assert [(one.first_return, one.winner) for one in games[3:9]] == [
        *[(-1.0, "second")] * 3, *[(1.0, "first")] * 3,
    ]  # fmt: skip


def test_one_player_controls_a_team(tmp_path):
    battle = arena("team_battle_v0", partial(registry.make, "team_battle_v0", max_cycles=2))
    pair = scripted(battle, "always_cooperate", "always_compete")
    games = play_cross(battle, pair, episodes=1, runner=EpisodeRunner(folder=tmp_path))
    assert battle.two_sided
    assert [game.winner for game in games] == ["draw", "first", "second", "draw"]
    mixed = list(read_jsonl(tmp_path / "team_battle_v0.jsonl"))[1].seats
    team = {agent for agent, name in mixed.items() if name == "always_cooperate"}
    assert team == set(battle.places[0]) and 0 < len(team) < len(mixed)


def test_without_teams_each_agent_is_a_place():
    four = arena("coop", partial(registry.make, "coop_compete_v0", num_agents=4, max_cycles=2))
    a, b = names = ("always_cooperate", "always_compete")
    games = play_cross(four, scripted(four, *names), episodes=1)
    assert [(game.first, game.second, game.place) for game in games] == [
        (a, a, 0), *[(a, b, n) for n in range(4)], *[(b, a, n) for n in range(4)], (b, b, 0),
    ]  # fmt: skip


def test_failed_games_are_counted_and_excluded_from_means():
    broken = arena("contest", partial(Contest, broken_for=7))
    field = players(low=Number(1), broken=Number(6, 2), high=Number(9))
    games = play_cross(broken, field, episodes=20)
    failed = [game for game in games if game.failure is not None]
    assert 0 < len(failed) < len(games)
    assert all("broken" in (one.first, one.second) for one in failed)
    assert all(one.first_return is None and one.winner is None for one in failed)
    found = results(broken, games, list(field), 0)
    assert found["matrix"][1][2]["mean"] == -1.0
    assert f"{len(failed)} of {len(games)} games failed" in table_of_arena(found)


def test_returns_are_means_over_both_places():
    uneven = arena("contest", partial(Contest, left_bonus=4.0))  # 2 on average of both places
    games = play_cross(uneven, players(low=Number(1), high=Number(2)), episodes=2)
    returns_RCE = returns_by_start(games, ["low", "high"], two_sided=True)
    assert returns_RCE[:, :, 0].tolist() == [[2.0, 1.0], [3.0, 2.0]]
