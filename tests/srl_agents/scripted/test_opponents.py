"""Behavior of the scripted policies."""

from itertools import cycle, pairwise

import numpy as np
import pytest

from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_agents.rollout import play, play_many
from srl_agents.scripted.negotiation import Negotiator, Reciprocator, Talks
from srl_agents.scripted.registry import classic_policy, policies_by_agent
from srl_envs import registry
from srl_envs.games import bargaining
from srl_envs.games import trading_market as market

ROUNDS = 8


class Plays:
    """Policy that plays the given actions in order."""

    name = "plays"

    def __init__(self, actions):
        self.actions = actions

    def start(self, seed):
        return 0

    def act(self, seen, states):
        from srl_agents.episode import Decision

        return [Decision(self.actions[turn]) for turn in states], [turn + 1 for turn in states]


def actions(episode, agent):
    return [step.decision.action for step in episode.steps_of(agent)]


def games(name, seats, count, **options):
    """Return episodes of scripted policies: one name for all agents, or one per agent in turn."""
    env = registry.make(name, **options)
    who = [seats] if isinstance(seats, str) else list(seats)
    held = policies_by_agent(dict(zip(env.possible_agents, cycle(who), strict=False)), env)
    late = [{"episode": LONG_AFTER}] * count
    return play_many(lambda: registry.make(name, **options), held, range(count), reset_options=late)


def last(episode):
    return episode.turns[-1][0].info


# ---- cooperating and competing -------------------------------------------------------------------

GIVEN = [1, 0, 0, 1, 1, 0, 1, 1]
ANSWERS = {
    "tit_for_tat": [1, 1, 0, 0, 1, 1, 0, 1],
    "suspicious_tit_for_tat": [0, 1, 0, 0, 1, 1, 0, 1],
    "grim_trigger": [1, 1, 0, 0, 0, 0, 0, 0],
    "pavlov": [1, 1, 0, 1, 1, 1, 0, 0],
    "alternator": [1, 0, 1, 0, 1, 0, 1, 0],
    "bully": [0, 0, 1, 1, 0, 0, 1, 0],
}


@pytest.mark.parametrize("who", ANSWERS)
def test_answers_in_the_pair_game(who):
    env = registry.make("coop_compete_pair_v0", max_cycles=ROUNDS)
    seats = {"agent_0": Plays(GIVEN), "agent_1": classic_policy(who, env)}
    assert actions(play(env, seats, seed=0), "agent_1") == ANSWERS[who]


@pytest.mark.parametrize("who", ANSWERS)
def test_answers_the_rivals_in_the_team_game(who):
    env = registry.make("team_battle_v0", team_size=2, max_cycles=ROUNDS)
    seats = dict.fromkeys(("red_0", "red_1"), Plays(GIVEN))
    seats |= dict.fromkeys(("blue_0", "blue_1"), classic_policy(who, env))
    assert actions(play(env, seats, seed=0), "blue_1") == ANSWERS[who]


@pytest.mark.parametrize("who", ANSWERS)
def test_answers_the_majority_in_the_staged_game(who):
    env = registry.make("staged_v0", num_agents=4, max_cycles=ROUNDS)
    seats = dict.fromkeys(env.possible_agents, Plays(GIVEN))
    seats["agent_3"] = classic_policy(who, env)
    assert actions(play(env, seats, seed=0), "agent_3") == ANSWERS[who]


def test_leaders_keep_their_action_and_deserters_never_return():
    seats = ["leader", "deserter"]
    played = games("coop_compete_pair_v0", seats, 40, max_cycles=50)
    led = np.array([actions(episode, "agent_0") for episode in played])
    assert 0.86 < (led[:, 1:] == led[:, :-1]).mean() < 0.94 and 0.4 < led.mean() < 0.6
    left = np.array([actions(episode, "agent_1") for episode in played])
    assert (np.diff(left) <= 0).all() and 5 < left.sum(axis=1).mean() < 20


def test_of_several_names_each_episode_draws_one_policy_for_all_its_agents():
    seats = ["always_compete|always_cooperate|always_cooperate", "uniform"]
    played = games("coop_compete_v0", seats, 60, max_cycles=3)
    drawn = [{*actions(e, "agent_0"), *actions(e, "agent_2")} for e in played]
    assert all(len(each) == 1 for each in drawn), "both agents, in all rounds"
    assert 0.5 < np.mean([each == {1} for each in drawn]) < 0.85
    again = games("coop_compete_v0", seats, 60, max_cycles=3)
    assert [actions(e, "agent_0") for e in again] == [actions(e, "agent_0") for e in played]


# ---- bandits -------------------------------------------------------------------------------------


def test_win_stay_lose_shift():
    [episode] = games("bandit_v0", "win_stay_lose_shift", 1, max_cycles=200)
    steps = episode.steps_of("agent_0")
    for before, after in pairwise(steps):
        stayed = after.decision.action == before.decision.action
        assert stayed == (before.reward > 0)


def test_thompson_sampling_finds_the_improved_arm():
    arms = {"arm0_prob": 0.3, "arm1_prob_start": 0.1, "arm1_prob_after": 0.8, "switch_pull": 60}
    played = games("bandit_v0", "thompson_sampling", 20, max_cycles=160, **arms)
    pulled = np.array([actions(episode, "agent_0") for episode in played])
    assert pulled[:, 30:60].mean() < 0.3
    assert pulled[:, 90:].mean() > 0.85


# ---- mazes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"loop_share": 0.3}, {"width": 12, "view_radius": 2}])
def test_explorers_reach_the_goal_of_every_unseen_maze(options):
    played = games("maze_v0", "explorer", 30, split="test", max_cycles=400, **options)
    assert all(last(episode)["success"] for episode in played)
    detour = np.mean([last(e)["steps"] / last(e)["shortest_path"] for e in played])
    assert detour < 2.0


# ---- trading -------------------------------------------------------------------------------------


def surplus_share(seats, count=15, **options):
    played = games("social_trading_v0", seats, count, **options)
    shares = [last(e)["surplus_share"] for e in played]
    return np.mean([share for share in shares if share is not None]), played


@pytest.mark.parametrize(
    ("options", "least"),
    [({}, 0.75), ({"agreements": "binding"}, 0.8), ({"num_agents": 3, "goods": 5}, 0.9)],
)
def test_truthful_traders_gain_most_of_the_surplus(options, least):
    share, played = surplus_share("truthful_trader", **options)
    assert share > least
    gains = [step.info["gain"] for episode in played for step in episode.turns[-1]]
    assert min(gains) >= 0, "nobody agrees to what it loses by, and all keep their word"


def test_truthful_traders_deliver_and_defaulters_do_not():
    _, played = surplus_share(["truthful_trader", "defaulting_trader"], num_agents=2)
    honest, false = (
        [turn[seat].info["reputation"] for episode in played for turn in episode.turns[-1:]]
        for seat in (0, 1)
    )
    assert min(honest) >= 0.5 and max(false) <= 0.5 and np.mean(false) < 0.45


def test_late_defaulters_deliver_until_late():
    _, played = surplus_share("late_defaulter")
    owed = {True: [], False: []}  # late or not -> actions on owed deliveries
    for episode in played:
        for turn in episode.turns:
            if turn[0].info["phase"] != "deliveries":
                continue
            late = bool(turn[0].observation[0] >= 0.6)
            owed[late].append({step.decision.action for step in turn})
    assert all(market.DELIVER in done for done in owed[False])
    assert owed[True] and all(done == {market.PASS} for done in owed[True])


def test_sly_traders_break_their_word_as_long_as_their_reputation_allows_it():
    _, played = surplus_share("sly_trader", num_agents=4)
    owed = {True: set(), False: set()}  # reputation above 1/2 or not -> actions on deliveries
    for episode in played:
        for turn in episode.turns:
            for step in turn if turn[0].info["phase"] == "deliveries" else ():
                time, _, _, due, _, reputation, *_ = step.observation
                assert due
                if time < 0.8:
                    owed[bool(reputation > 0.5)].add(step.decision.action)
    assert owed == {True: {market.PASS}, False: {market.PASS, market.DELIVER}}


# ---- negotiation ---------------------------------------------------------------------------------


DILEMMAS = [
    pytest.param(
        "social_trading_v0",
        {"num_agents": 4, "max_cycles": 24},
        ("truthful_trader", "sly_trader", "sly_bargainer"),
        marks=pytest.mark.slow,
    ),
    ("social_negotiation_v0", {"discount": 0.99}, ("conceder", "firm", "boulware")),
]


@pytest.mark.parametrize(("name", "options", "kinds"), DILEMMAS, ids=["trading", "negotiation"])
def test_exploiting_pays_against_cooperation_only(name, options, kinds):
    def payoff(who, others):
        """Return the mean returns of an agent that plays `who`, and of all that play `others`."""
        played = games(name, [who, *[others] * (options.get("num_agents", 2) - 1)], 60, **options)
        returns = [list(episode.returns().values()) for episode in played]
        return np.mean([own for own, *_ in returns]), np.mean([rest for _, *rest in returns])

    friend, exploiter, answer = kinds
    peace, war, robbery = (
        payoff(*pair) for pair in ((friend, friend), (exploiter, exploiter), (exploiter, friend))
    )
    assert robbery[0] > peace[0] > robbery[1], "the exploiter gains at the others' expense"
    assert min(peace) > max(war), "mutual exploitation is worse for all"
    assert robbery[0] > payoff(answer, friend)[0], "the best response to each differs"
    assert payoff(answer, exploiter)[0] > max(payoff(friend, exploiter)[0], war[0])


@pytest.mark.parametrize("options", [{}, {"offers": "simultaneous"}, {"conflict": 1.0}])
@pytest.mark.parametrize(("who", "least"), [("conceder", 0.9), ("reciprocator", 0.7)])
def test_conceders_and_reciprocators_reach_agreements(who, least, options):
    played = games("social_negotiation_v0", who, 30, **options)
    assert np.mean([last(e)["outcome"] == "agreement" for e in played]) > least
    assert all(all(last(e)["individually_rational"].values()) for e in played)


@pytest.mark.parametrize(
    ("beta", "time", "target"),
    # 0.2 + 0.8 * (1 - time ** (1 / beta))
    [(1.0, 0.5, 0.6), (2.0, 0.25, 0.6), (0.5, 0.5, 0.8), (0.2, 0.0, 1.0), (3.0, 1.0, 0.2)],
)
def test_targets_decrease_with_time(beta, time, target):
    policy = Negotiator(bargaining.NegotiationRules(), 10, beta=beta)
    found = policy.target(time, 0.2, 1.0, {}, policy.start(0))
    assert found == pytest.approx(target)


def test_reciprocators_concede_as_much_as_the_others():
    policy = Reciprocator(bargaining.NegotiationRules(), 10)
    talks = Talks(first_worth={0: 0.1}, moves=2)
    gave_way = policy.target(0.5, 0.2, 1.0, {0: 0.3}, talks)
    # 1 less the 0.2 that the other's proposals got better and 0.06 for each of two moves
    assert gave_way == pytest.approx(0.68)
    assert policy.target(0.5, 0.2, 1.0, {0: 0.05}, talks) == pytest.approx(0.88)
    assert policy.target(0.5, 0.2, 1.0, {0: 1.0}, talks) == pytest.approx(0.2)
