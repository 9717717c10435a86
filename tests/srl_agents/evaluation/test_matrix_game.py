import numpy as np
import pytest

from srl_agents.baselines import SimplePG
from srl_agents.evaluation.matrix_game import (
    NOISE,
    PLAYERS,
    SCRIPTED,
    best_response,
    maker,
    payoffs,
    play_match,
)
from srl_envs import coop_compete_v0

SETTINGS = [(level, difficulty) for level in (0.0, 0.2, 0.55, 1.0) for difficulty in (0.3, 0.6)]
GAME = payoffs(0.6, 0.3)


@pytest.mark.parametrize(("level", "difficulty"), SETTINGS)
def test_payoffs_and_noise_equal_the_environment(level, difficulty):
    rounds = 2000
    env = coop_compete_v0.parallel_env(
        variant="pair", cooperation_level=level, difficulty=difficulty, max_cycles=rounds
    )
    for own in (0, 1):
        for other in (0, 1):
            env.reset(seed=2 * own + other)
            sampled = []
            for _ in range(rounds):
                rewards = env.step({"agent_0": own, "agent_1": other})[1]
                sampled.append((rewards["agent_0"], rewards["agent_1"]))
            mean, expected = np.mean(sampled, axis=0), payoffs(level, difficulty)
            error = 5 * NOISE / np.sqrt(rounds)
            assert mean == pytest.approx([expected[own, other], expected[other, own]], abs=error)
            assert np.std(sampled, axis=0) == pytest.approx(NOISE, rel=0.1)
            assert abs(np.corrcoef(np.transpose(sampled))[0, 1]) < 0.12


def play(row, column, **settings):
    defaults = {"runs": 4, "episodes": 6, "horizon": 16, "seed": (1,)}
    return play_match(maker(row, 5.0), maker(column, 5.0), GAME, **(defaults | settings))


@pytest.mark.parametrize(("row", "column"), [("OUR", "PG_TUNED"), ("TFT", "RANDOM_0.5")])
def test_a_run_does_not_depend_on_the_number_of_runs(row, column):
    few, many = play(row, column, runs=2), play(row, column, runs=5)
    assert np.array_equal(few.rewards_2NE, many.rewards_2NE[:, :2])
    other = play(row, column, runs=2, seed=(2,))
    assert not np.array_equal(few.rewards_2NE, other.rewards_2NE)


def test_match_equals_the_documented_classes():
    outcome = play("PG_TUNED", "AC", runs=1, episodes=3)
    [draws] = [np.random.default_rng(np.random.SeedSequence([1, role, 0])) for role in (2,)]
    learner = SimplePG(5.0, seed=np.random.SeedSequence([1, 0, 0]))
    for episode in range(3):
        record = []
        for noise in draws.standard_normal(16):
            action, logprob = learner.act()
            record.append((action, logprob, GAME[action, 1] + NOISE * noise))
        learner.update(record)
        mean = np.mean([reward for _, _, reward in record])
        assert outcome.rewards_2NE[0, 0, episode] == pytest.approx(mean)


@pytest.mark.parametrize("partner", SCRIPTED)
def test_no_player_beats_the_best_response(partner):
    best = best_response(GAME, SCRIPTED[partner].chances, 16)
    for name in PLAYERS:
        value = play(name, partner, runs=20, episodes=20).of(0)
        assert value.mean() < best + 5 * 0.15 / np.sqrt(20 * 20 * 16)


def test_best_responses_by_hand():
    assert best_response(GAME, SCRIPTED["AC"].chances, 32) == pytest.approx(0.85)
    assert best_response(GAME, SCRIPTED["AP"].chances, 32) == pytest.approx(0.8)
    assert best_response(GAME, SCRIPTED["TFT"].chances, 32) == pytest.approx(0.85)
    # s + max((.25c + .1) q - .1, (.35 - .25c)(1 - q) - .1)
    assert best_response(GAME, SCRIPTED["RANDOM_0.3"].chances, 32) == pytest.approx(0.74)
    competing = payoffs(0.2, 0.3)
    assert best_response(competing, SCRIPTED["TFT"].chances, 32) == pytest.approx(
        (31 * 0.9 + 0.6) / 32
    )
