"""Graphs of games of known players say who helped, hurt, traded with and listened to whom."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from srl_agents.episode import Decision, from_json, to_json
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions import graphs, interactions, observe
from srl_agents.policy import PerAgentPolicy
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs import make
from srl_envs.games.cheap_talk import spoken
from srl_envs.games.team_battle.payoffs import TeamBattleRules

SEEDS = (0, 100, 200)


def played(name, players, seed=0, games=6, rotate=False, **options):
    """Recorded games of these players: (name, policy or the name of one), in agent order."""
    told = options.pop("reset", None)
    env = make(name, **options)
    agents = env.possible_agents
    policies = [
        classic_policy(who, env) if isinstance(who, str) else who for _, who in players
    ]  # fmt: skip
    episodes = []
    for game in range(games):
        turned = np.roll(range(len(players)), game if rotate else 0)
        episodes += play_many(
            partial(make, name, **options),
            {agent: policies[place] for agent, place in zip(agents, turned, strict=True)},
            [seed + game],
            names={agent: players[place][0] for agent, place in zip(agents, turned, strict=True)},
            reset_options=None if told is None else [told],
        )
    return [from_json(to_json(episode)) for episode in episodes]


def edges(found, measure):
    return {(e.source, e.target): e for e in found.graph(measure).edges}


def unknown(games):
    """The same records, without how their environment was made."""
    return [replace(game, made_as=None) for game in games]


class Does(PerAgentPolicy):
    """Does and says what a function of the observation and a generator gives."""

    def __init__(self, choose):
        self.choose = choose

    def decide(self, seen, state):
        action, words = self.choose(seen, state)
        return Decision(action, None if words is None else f"{words}\n{action}")


# Helped and hurt.


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cooperator_helps_cooperators_and_a_bully_hurts_them_whatever_their_places(seed):
    players = [("giver", "always_cooperate"), ("friend", "always_cooperate"),
               ("bully", "always_compete")]  # fmt: skip
    games = played("coop_compete_v0", players, seed, rotate=True, num_agents=3, max_cycles=4)
    got = edges(interactions(games), "influence")
    # Each of two others: .25 * .6 / 2 for cooperating with a cooperator, and .25 * .4 / 2 that a
    # competitor loses by it; noise is the same in both worlds.
    assert got["giver", "friend"].value == pytest.approx(0.075)
    assert got["giver", "bully"].value == pytest.approx(-0.05)
    assert got["bully", "friend"].value == pytest.approx(-0.075)
    assert all(edge.sure and edge.games == 6 for edge in got.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_battle_of_teams_effects_are_those_of_the_payoffs(seed):
    players = [("loyal", "always_cooperate"), ("raider", "always_compete"),
               ("rival", "always_compete"), ("soft", "always_cooperate")]  # fmt: skip
    games = played(
        "team_battle_v0", players, seed, team_size=2, max_cycles=4, reset={"episode": 50}
    )
    got = edges(interactions(games), "influence")
    rules, actions = TeamBattleRules((2, 2)), [1, 0, 0, 1]
    names = [name for name, _ in players]
    now = rules.expected_rewards(actions)
    for place, name in enumerate(names):
        other = rules.expected_rewards([1 - a if p == place else a for p, a in enumerate(actions)])
        for target, value, instead in zip(names, now, other, strict=True):
            if target != name:
                edge = got[name, target]
                assert edge.value == pytest.approx(value - instead, abs=1e-9)
                assert edge.sure is (abs(value - instead) > 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_cannot_reach_each_other_has_no_edge_that_is_sure(seed):
    players = [(name, "uniform") for name in ("a", "b", "c")]
    found = interactions(played("bandit_v0", players, seed, num_agents=3, max_cycles=6))
    assert [graph.measure.name for graph in found.graphs] == ["influence"]
    for edge in found.graphs[0].edges:
        assert (edge.value, edge.interval, edge.sure) == (0.0, (0.0, 0.0), False)


def test_copies_of_one_model_have_an_edge_to_themselves():
    games = played("coop_compete_v0", [("copy", "always_cooperate")] * 4, max_cycles=3)
    [edge] = interactions(games).graph("influence").edges
    assert (edge.source, edge.target, edge.value) == ("copy", "copy", pytest.approx(0.05))


# Correlation, where games cannot be played again.


@pytest.mark.parametrize("seed", SEEDS)
def test_games_that_cannot_be_played_again_give_a_correlation_that_is_called_so(seed):
    def at_random(seen, rng):
        return int(rng.random() < 0.5), None

    players = [("one", Does(at_random)), ("other", Does(at_random))]
    games = unknown(played("coop_compete_pair_v0", players, seed, 10, max_cycles=20, noise_std=0.0))
    found = interactions(games)
    assert found.graph("influence") is None
    assert "does not say how" in found.not_replayed[0]
    graph = found.graph("correlation")
    assert graph.measure.title == "Whose rewards went together" and not graph.measure.directed
    [edge] = graph.edges
    assert edge.value == pytest.approx(1.0) and edge.sure  # a pair earns the same
    assert graph.edge("other", "one") is graph.edge("one", "other") is edge


def test_rewards_that_have_nothing_to_do_with_each_other_do_not_correlate():
    surely = 0
    for seed in range(0, 2000, 100):
        players = [("a", "uniform"), ("b", "uniform")]
        games = unknown(played("bandit_v0", players, seed, 8, num_agents=2, max_cycles=12))
        surely += interactions(games).graph("correlation").edge("a", "b").sure
    assert surely <= 4  # one of twenty is expected


def test_one_game_that_cannot_be_played_again_makes_all_of_them_a_correlation():
    games = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], num_agents=2,
                   max_cycles=4)  # fmt: skip
    found = interactions([*games[1:], *unknown(games[:1])])
    assert found.graph("influence") is None and found.graph("correlation").edges[0].games == 6


def test_who_always_earns_the_same_has_no_correlation():
    games = played("coop_compete_v0", [("a", "always_cooperate"), ("b", "always_cooperate")],
                   num_agents=2, noise_std=0.0, max_cycles=4)  # fmt: skip
    assert interactions(unknown(games)).graphs == ()


def test_rewards_that_are_no_numbers_count_nowhere():
    [first, *rest] = unknown(played("bandit_v0", [("a", "uniform"), ("b", "uniform")],
                                    num_agents=2, max_cycles=8))  # fmt: skip
    rewards = [float("nan"), float("inf"), 1e300, *[0.5] * 5]
    turns = [
        tuple(replace(step, reward=reward) for step in turn)
        for turn, reward in zip(first.turns, rewards, strict=True)
    ]
    found = interactions([replace(first, turns=tuple(turns)), *rest])
    assert np.isfinite(found.graph("correlation").edges[0].value)


# Traded.


@pytest.mark.parametrize("seed", SEEDS)
def test_traders_deliver_to_each_other_and_a_defaulter_only_takes(seed):
    players = [("honest", "truthful_trader"), ("fair", "truthful_trader"),
               ("cheat", "defaulting_trader")]  # fmt: skip
    games = played("social_trading_v0", players, seed, 12, True, num_agents=3, max_cycles=15)
    found = interactions(games)
    traded, broken = edges(found, "traded"), edges(found, "broken")
    assert traded["honest", "fair"].sure and traded["fair", "honest"].value > 1.0
    for victim in ("honest", "fair"):
        assert traded["cheat", victim].value == 0.0 and not traded["cheat", victim].sure
        assert traded[victim, "cheat"].value > 0.0
        assert broken["cheat", victim].value > 0.0 == broken[victim, "cheat"].value
    assert broken["cheat", "fair"].sure or broken["cheat", "honest"].sure
    helped = edges(found, "influence")
    assert helped["honest", "fair"].sure and helped["honest", "fair"].value > 0.0
    assert helped["cheat", "fair"].value < 0.0


def test_what_all_received_and_gave_is_what_the_market_says_they_gained():
    players = [(name, "truthful_trader") for name in ("a", "b", "c")]
    [game] = played("social_trading_v0", players, 3, 1, num_agents=3, max_cycles=15,
                    agreements="binding")  # fmt: skip
    found = interactions([game])
    received = dict.fromkeys("abc", 0.0)
    for (_, target), edge in edges(found, "traded").items():
        received[target] += edge.value
    agents = list(game.seats)
    env = make("social_trading_v0", num_agents=3, max_cycles=15, agreements="binding")
    env.reset(seed=game.seed)
    gave = dict.fromkeys(agents, 0.0)
    for turn in game.turns:
        before = np.array(env.market.stocks)
        env.step({step.agent: step.decision.action for step in turn})
        lost = np.minimum(np.array(env.market.stocks) - before, 0) * np.array(env.market.values)
        for agent, worth in zip(agents, lost.sum(axis=1), strict=True):
            gave[agent] -= worth
    assert sum(received.values()) > 0 and found.graph("broken") is None
    for agent, name in game.seats.items():
        gained = game.end_of(agent)["gain"]
        assert received[name] - gave[agent] == pytest.approx(gained)


def test_a_deal_pays_both_above_what_no_deal_would():
    players = [("yielding", "conceder"), ("firm", "boulware")]
    games = played("social_negotiation_v0", players, 0, 8)
    traded = edges(interactions(games), "traded")
    assert all(game.end_of("agent_0")["outcome"] == "agreement" for game in games)
    assert traded["firm", "yielding"].sure and traded["yielding", "firm"].sure
    assert traded["yielding", "firm"].value > traded["firm", "yielding"].value
    none = played("social_negotiation_v0", [("a", Does(lambda *_: (0, None)))] * 2, 0, 4)
    assert {edge.value for edge in interactions(none).graph("traded").edges} == {0.0}


# Listened.


def speaking(vocabulary):
    def choose(seen, rng):
        said = int(rng.integers(2))
        return 0, vocabulary(said, rng)

    return choose


def following(seen, rng):
    words = dict(spoken(seen.observation)).get("agent_0", "")
    return int("yes" in words.casefold()), None


def deaf(seen, rng):
    return int(rng.integers(2)), None


VOCABULARIES = {
    "two words": lambda said, rng: ("no", "yes")[said],
    "free text": lambda said, rng: (
        f"{('no', 'Yes!')[said]} {' '.join(f'w{n}' for n in rng.integers(30, size=4))}"
    ),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_one_who_does_as_told_listens_and_the_deaf_one_does_not(seed, vocabulary):
    players = [("speaker", Does(speaking(VOCABULARIES[vocabulary]))),
               ("follower", Does(following)), ("deaf", Does(deaf))]  # fmt: skip
    games = played("social_trading_v0", players, seed, 12, num_agents=3, max_cycles=8,
                   messages=True, obs_mode="llm")  # fmt: skip
    got = edges(interactions(unknown(games)), "listened")
    assert set(got) == {("speaker", "follower"), ("speaker", "deaf")}
    follower, deaf_one = got["speaker", "follower"], got["speaker", "deaf"]
    assert follower.sure and follower.interval[0] > 0.4 and follower.value <= 1.0
    assert not deaf_one.sure and abs(deaf_one.value) < 0.1


def test_who_both_follow_the_clock_do_not_listen_to_each_other():
    def clock(seen):
        return round(8 * float(seen.observation["observation"][0])) % 2

    def telling(seen, rng):
        return 0, ("no", "yes")[clock(seen)]

    players = [("a", Does(telling)), ("b", Does(lambda seen, rng: (clock(seen), None)))]
    games = played("social_negotiation_v0", players, 0, 10, num_agents=2, max_cycles=8,
                   messages=True, obs_mode="llm", offers="simultaneous")  # fmt: skip
    edge = interactions(unknown(games)).graph("listened").edge("a", "b")
    assert edge.value == pytest.approx(0.0, abs=1e-9)


def test_messages_that_are_all_different_tell_nothing():
    numbers = iter(range(10_000))
    speaker = Does(lambda seen, rng: (0, f"m{next(numbers)}"))
    games = played("social_negotiation_v0", [("a", speaker), ("b", Does(deaf))], 0, 10,
                   num_agents=2, max_cycles=8, messages=True, obs_mode="llm",
                   offers="simultaneous")  # fmt: skip
    edge = interactions(unknown(games)).graph("listened").edge("a", "b")
    assert not edge.sure


# What holds for all.


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


def test_a_record_that_names_code_is_not_run_and_one_of_strangers_is_refused():
    [game] = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], games=1, num_agents=2,
                    max_cycles=4)  # fmt: skip
    evil = replace(game, made_as={"name": "os:system", "options": {"command": "true"}})
    assert "os:system" in interactions([evil]).not_replayed[0]
    changed = [tuple(replace(step, reward=9.0) for step in turn) for turn in game.turns]
    assert "differs" not in interactions([replace(game, turns=tuple(changed))]).not_replayed[0]
    with pytest.raises(EpisodeError, match="whom nobody played"):
        observe(replace(game, seats={"agent_0": "a"}))
    with pytest.raises(EpisodeError, match="at most 32"):
        observe(replace(game, seats={f"agent_{n}": "a" for n in range(33)}))
