"""Influence, deals and listening of players with known effects on each other."""

import threading
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from srl_agents.episode import Decision
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions import effects, graphs, interactions, observe
from srl_agents.rollout import play
from srl_envs import make
from srl_envs.errors import EnvError
from srl_envs.games.bargaining import POINTS
from srl_envs.games.cheap_talk import spoken
from srl_envs.games.team_battle import TeamBattleRules
from tests.srl_agents.evaluation.known_players import Does, deaf, edges, played, unknown

UNIFORM = [("a", "uniform"), ("b", "uniform")]
SHORT = {"num_agents": 2, "max_cycles": 4}
TALK = {"messages": True, "obs_mode": "llm", "max_cycles": 8}
FACING = {**TALK, "num_agents": 2, "offers": "simultaneous"}


@pytest.mark.parametrize("seed", [0, 100])
def test_influence_of_cooperators_and_competitors_by_hand(seed):
    players = [("giver", "always_cooperate"), ("friend", "always_cooperate"),
               ("bully", "always_compete")]  # fmt: skip
    games = played("coop_compete_v0", players, seed, 8, True, num_agents=3, max_cycles=4)
    got = edges(interactions(games), "influence")
    # For each of two: .25 * .6 / 2 for cooperation with a cooperator, and a loss of .25 * .4 / 2
    # of a competitor; noise is the same in both worlds.
    assert got["giver", "friend"].value == pytest.approx(0.075)
    assert got["giver", "bully"].value == pytest.approx(-0.05)
    assert got["bully", "friend"].value == pytest.approx(-0.075)
    assert all(edge.sure and edge.games == 8 for edge in got.values())


def test_influence_in_a_team_battle_follows_the_payoffs():
    players = [("loyal", "always_cooperate"), ("raider", "always_compete"),
               ("rival", "always_compete"), ("soft", "always_cooperate")]  # fmt: skip
    games = played(
        "team_battle_v0", players, 0, 9, team_size=2, max_cycles=4, reset={"episode": 50}
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


class Pays:
    """Two agents with four actions, and a reward of .1 for each action."""

    metadata: ClassVar = {"name": "pays"}
    possible_agents: ClassVar = ["a", "b"]
    unwrapped = None

    def action_space(self, agent):
        return Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents, self.left = list(self.possible_agents), 3
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.left -= 1
        agents = self.agents
        self.agents = agents if self.left else []
        over = dict.fromkeys(agents, not self.left)
        paid = dict.fromkeys(agents, 0.1)
        return dict.fromkeys(agents, 0), paid, over, dict.fromkeys(agents, False), {
            agent: {} for agent in agents
        }  # fmt: skip


def test_rounding_is_no_effect_and_an_environment_without_copies_is_refused():
    env = Pays()
    episode = play(env, dict.fromkeys("ab", Does(deaf)), 0)
    assert (0.1 + 0.1 + 0.1) / 3 != 0.1  # mean reward of the three other actions
    assert effects(episode, env, np.random.default_rng(0)) == {("a", "b"): 0.0, ("b", "a"): 0.0}
    env.connection = threading.Lock()
    with pytest.raises(EnvError, match=r"pays cannot be copied: .*lock"):
        effects(episode, env, np.random.default_rng(0))


def test_games_that_cannot_be_replayed_have_no_influence():
    found = interactions(unknown(played("coop_compete_v0", UNIFORM, **SHORT)))
    assert found.graph("influence") is None
    assert "does not say how" in found.not_replayed[0]


def test_traders_deliver_and_a_defaulter_breaks_its_promises():
    players = [("honest", "truthful_trader"), ("fair", "truthful_trader"),
               ("cheat", "defaulting_trader")]  # fmt: skip
    games = played("social_trading_v0", players, 0, 18, True, num_agents=3, max_cycles=15)
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


def test_received_minus_given_goods_are_the_gain_of_the_market():
    players = [(name, "truthful_trader") for name in ("a", "b", "c")]
    options = {"num_agents": 3, "max_cycles": 15, "agreements": "binding"}
    [game] = played("social_trading_v0", players, 3, 1, **options)
    found = interactions([game])
    received = dict.fromkeys("abc", 0.0)
    for (_, target), edge in edges(found, "traded").items():
        received[target] += edge.value
    agents = list(game.seats)
    env = make("social_trading_v0", **options)
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
        assert received[name] - gave[agent] == pytest.approx(game.end_of(agent)["gain"])


def test_a_deal_is_worth_its_utility_above_the_reservation():
    players = [("yielding", "conceder"), ("firm", "boulware")]
    games = played("social_negotiation_v0", players, 0, 8, reset={"reservations": [10, 25]})
    traded = edges(interactions(games), "traded")
    paid = {name: np.mean([game.returns()[agent] for game in games])
            for agent, (name, _) in zip(games[0].seats, players, strict=True)}  # fmt: skip
    assert traded["firm", "yielding"].sure and traded["yielding", "firm"].sure
    assert traded["firm", "yielding"].value == pytest.approx(paid["yielding"] - 10 / POINTS)
    assert traded["yielding", "firm"].value == pytest.approx(paid["firm"] - 25 / POINTS)
    none = played("social_negotiation_v0", [("a", Does(lambda *_: (0, None)))] * 2, 0, 4)
    assert {edge.value for edge in interactions(none).graph("traded").edges} == {0.0}


VOCABULARIES = {
    "two words": lambda said, rng: ("no", "yes")[said],
    "free text": lambda said, rng: (
        f"{('no', 'Yes!')[said]} {' '.join(f'w{n}' for n in rng.integers(30, size=4))}"
    ),
}


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("seed", [0, 100])
def test_a_follower_listens_and_a_deaf_player_does_not(seed, vocabulary):
    def speaking(seen, rng):
        return 0, VOCABULARIES[vocabulary](int(rng.integers(2)), rng)

    def following(seen, rng):
        words = dict(spoken(seen.observation)).get("agent_0", "")
        return int("yes" in words.casefold()), None

    players = [("speaker", Does(speaking)), ("follower", Does(following)), ("deaf", Does(deaf))]
    games = played("social_trading_v0", players, seed, 12, num_agents=3, **TALK)
    got = edges(interactions(unknown(games)), "listened")
    assert set(got) == {("speaker", "follower"), ("speaker", "deaf")}
    follower, deaf_one = got["speaker", "follower"], got["speaker", "deaf"]
    assert follower.sure and follower.interval[0] > 0.4 and follower.value <= 1.0
    assert not deaf_one.sure and abs(deaf_one.value) < 0.1


def test_a_common_clock_and_unique_messages_are_no_listening():
    def clock(seen):
        return round(8 * float(seen.observation["observation"][0])) % 2

    numbers = iter(range(10_000))
    timed = Does(lambda seen, rng: (0, ("no", "yes")[clock(seen)]))
    acting = Does(lambda seen, rng: (clock(seen), None))
    unique = Does(lambda seen, rng: (0, f"m{next(numbers)}"))
    for speaker, hearer in ((timed, acting), (unique, Does(deaf))):
        games = played("social_negotiation_v0", [("a", speaker), ("b", hearer)], 0, 10, **FACING)
        edge = interactions(unknown(games)).graph("listened").edge("a", "b")
        assert not edge.sure and (speaker is unique or edge.value == pytest.approx(0.0, abs=1e-9))


def test_the_seed_determines_all_numbers_and_failed_games_are_left_out():
    players = [("a", "truthful_trader"), ("b", "hard_bargainer")]
    games = played("social_trading_v0", players, 0, 3, num_agents=2, max_cycles=9)
    failed = replace(games[0], failure="BackendError: gone")
    assert interactions([*games, failed], 7) == interactions(games, 7)
    assert interactions(games, 7) == graphs([observe(game, 7) for game in games], 7)
    with pytest.raises(EpisodeError, match="leave it out"):
        observe(failed)


CALLED = []


def made_by_a_record(**options):
    CALLED.append(options)
    return make("coop_compete_v0", num_agents=2)


def test_code_named_by_a_record_needs_trust():
    [game] = played("coop_compete_v0", UNIFORM, games=1, **SHORT)
    named = replace(game, made_as={"name": f"{__name__}:made_by_a_record", "options": {}})
    assert interactions([named]).not_replayed != () and CALLED == []
    interactions([named], trusted=True)
    assert CALLED == [{}]


def changed_step(game, number, **fields):
    """Return the game with fields of the first agent's step of a turn replaced."""
    first, *others = game.turns[number]
    turns = list(game.turns)
    turns[number] = (replace(first, **fields), *others)
    return replace(game, turns=tuple(turns))


def test_forged_records_are_not_measured():
    [game] = played("coop_compete_v0", UNIFORM, games=1, **SHORT)
    ghost = replace(changed_step(game, 1, agent="ghost"), seats={**game.seats, "ghost": "c"})
    several = changed_step(game, 2, decision=Decision(np.array([0, 1])))
    last = changed_step(game, -1, reward=50.0)
    for forged, reason in ((ghost, "ghost"), (several, "outside"), (last, "50.0")):
        found = interactions([forged])
        assert reason in found.not_replayed[0] and found.graph("influence") is None
    with pytest.raises(EpisodeError, match="unknown agent"):
        observe(replace(game, seats={"agent_0": "a"}))
    with pytest.raises(EpisodeError, match="at most 32"):
        observe(replace(game, seats={f"agent_{n}": "a" for n in range(33)}))
