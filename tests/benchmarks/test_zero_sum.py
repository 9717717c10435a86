"""Zero-sum games in words: their rules, and best responses against known values."""

import itertools

import numpy as np
import pytest

from benchmarks import games, zero_sum
from benchmarks.games import BET, OPEN, PASS, BiasedRockPaperScissors, KuhnPoker
from benchmarks.zero_sum import SITUATIONS
from srl_agents.event_loop import run
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.llm.tiny import folder
from srl_agents.policy import AgentObservation
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs.env_checker import check_environment

pytest.importorskip("pyspiel")
JACK, QUEEN, KING = range(3)
UNIFORM = dict.fromkeys(SITUATIONS, 0.5)


def equilibrium(alpha):
    """The family of Kuhn 1950: the jack is bet first with chance alpha, the king with three times
    that."""
    return {
        (JACK, ()): alpha, (QUEEN, ()): 0.0, (KING, ()): 3 * alpha,
        (JACK, (PASS, BET)): 0.0, (QUEEN, (PASS, BET)): alpha + 1 / 3, (KING, (PASS, BET)): 1.0,
        (JACK, (PASS,)): 1 / 3, (QUEEN, (PASS,)): 0.0, (KING, (PASS,)): 1.0,
        (JACK, (BET,)): 0.0, (QUEEN, (BET,)): 1 / 3, (KING, (BET,)): 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("make", [KuhnPoker, BiasedRockPaperScissors])
def test_conforms_to_the_environment_api(make):
    check_environment(make)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3])
def test_kuhn_poker_equilibria_have_zero_exploitability(alpha):
    own = equilibrium(alpha)
    assert zero_sum.poker_exploitability(own) == pytest.approx(0.0, abs=1e-12)


def test_several_hands_of_kuhn_poker_are_one_episode():
    env, hands, deals = KuhnPoker(hands=3), 0, set()
    for seed in range(20):
        env.reset(seed=seed)
        while env.agents:
            deals.add((env._deal, env._opener))
            _, rewards, *_ = env.step(dict.fromkeys(games.PLAYERS, PASS))
            hands += any(rewards.values())
            assert sum(rewards.values()) == 0
    assert hands == 3 * 20 and len(deals) == 12


def test_exploitability_gain():
    assert zero_sum.poker_exploitability(UNIFORM) == pytest.approx(11 / 24)
    always = dict.fromkeys(SITUATIONS, 1.0)
    assert zero_sum.poker_exploitability(always) == pytest.approx(1 / 3)
    assert zero_sum.poker_exploitability(dict.fromkeys(SITUATIONS, 0.0)) == pytest.approx(1.0)


def test_mixture_has_the_mean_probability_of_each_line_of_play():
    members = [equilibrium(0.0), UNIFORM, dict.fromkeys(SITUATIONS, 1.0)]
    weights = [3.0, 2.0, 1.0]
    mixed = zero_sum.poker_mixture(members, weights)
    for card in (JACK, QUEEN, KING):
        first = [one[card, ()] for one in (*members, mixed)]
        call = [(1 - one[card, ()]) * one[card, (PASS, BET)] for one in (*members, mixed)]
        for *own, of_mixed in (first, call):
            assert of_mixed == pytest.approx(np.average(own, weights=weights))


def test_rock_paper_scissors():
    uniform = [1 / 3] * 3
    assert zero_sum.moves_exploitability(uniform) == pytest.approx(2 / 3)
    assert zero_sum.moves_exploitability([0.2, 0.6, 0.2]) == pytest.approx(0.0, abs=1e-12)
    pure = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    assert list(map(zero_sum.moves_exploitability, pure)) == [1.0, 1.0, 3.0]
    assert zero_sum.moves_mixture(pure, [1.0] * 3) == pytest.approx(uniform)
    assert zero_sum.moves_mixture(pure, [1.0, 3.0, 1.0]) == pytest.approx([0.2, 0.6, 0.2])


def test_payoffs_equal_the_game_tree():
    policy = classic_policy("uniform", KuhnPoker())
    ends = set()
    for episode in play_many(KuhnPoker, dict.fromkeys(games.PLAYERS, policy), range(60)):
        asked = [step for turn in episode.turns for step in turn if step.decision.asked]
        chosen = tuple(int(step.decision.action) for step in asked)
        first = asked[0].agent
        cards = {step.agent: int(step.observation[0]) for step in episode.turns[0]}
        [second] = set(cards) - {first}
        won = games.poker_value((cards[first], cards[second]), chosen)
        assert episode.returns() == {first: won, second: -won}
        assert all(chosen[:n] in OPEN for n in range(len(chosen)))
        ends.add(chosen)
    assert ends == {(0, 0), (1, 0), (1, 1), (0, 1, 0), (0, 1, 1)}


def test_requested_probabilities_are_the_played_ones():
    backend = HuggingFaceBackend.load(folder(KuhnPoker, steps=4), device="cpu")
    chances, view = zero_sum.poker_strategy(backend), games.PokerView()
    policy = TextPolicy(backend, view, constrained=True)
    card, count = KING, 1500
    seen = [AgentObservation("player_0", games.poker_row(card, True, ()))] * count
    decisions, _ = run(policy.act(seen, [policy.start(seed) for seed in range(count)]))
    bets = sum(decision.action == BET for decision in decisions) / count
    assert bets == pytest.approx(chances[card, ()], abs=0.05)
    assert chances.keys() == set(itertools.product(range(3), OPEN))
    assert all(0 < chance < 1 for chance in chances.values())
