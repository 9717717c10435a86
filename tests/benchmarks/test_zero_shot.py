"""Zero-shot coordination: games with equivalent conventions, exact cross-play and its interval."""

from collections import Counter

import numpy as np
import pytest

from benchmarks import zero_shot
from benchmarks.records import OverSeeds
from benchmarks.zero_shot import GAMES, LEVERS, SIZE, LeverGame, MessageGame, cross_play, expected
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_envs.env_checker import check_environment

LAST = len(LEVERS) - 1


def lever_run(*shares):
    """Return the strategy of a run whose models choose levers with these probabilities."""
    found = np.array(shares)
    return found[:, None], (zero_shot.PAID * found)[..., None]


def message_run(*words):
    """Return the strategy of a run with one model, which has this word for each animal."""
    said = np.eye(SIZE)[list(words)]
    return said[None], said.T[None]


def test_conforms_to_the_environment_api():
    check_environment(LeverGame)


def test_expected_rewards_are_those_computed_by_hand():
    first, last = np.eye(len(LEVERS))[[0, LAST]]
    half = (first + last) / 2
    assert expected(lever_run(half), lever_run(last)) == pytest.approx(0.45)
    assert expected(lever_run(half), lever_run(half)) == pytest.approx(0.25 + 0.225)
    assert expected(message_run(0, 1, 2, 3), message_run(1, 0, 2, 3)) == pytest.approx(0.5)
    assert expected(message_run(1, 2, 3, 0), message_run(1, 2, 3, 0)) == pytest.approx(1.0)
    assert expected(message_run(0, 0, 2, 3), message_run(0, 1, 2, 3)) == pytest.approx(0.75)


def test_models_of_one_run_meet_each_other():
    first, last = np.eye(len(LEVERS))[[0, LAST]]
    run = lever_run(first, last)
    assert expected(run, run) == 0.0
    assert expected(run, lever_run(first, last)) == pytest.approx(1.9 / 4)


def test_relabelled_levers_are_alike_except_for_the_last():
    env = LeverGame(relabel=True)
    matched = Counter()
    for seed in range(900):
        env.reset(seed=seed)
        _, rewards, *_ = env.step({"agent_0": 3, "agent_1": 3})
        matched["same"] += rewards["agent_0"]
        env.reset(seed=seed)
        _, rewards, *_ = env.step({"agent_0": LAST, "agent_1": LAST})
        assert set(rewards.values()) == {0.9}
    assert matched["same"] / 900 == pytest.approx(1 / 9, abs=0.04)
    env = LeverGame()
    env.reset(seed=0)
    assert env.step({"agent_0": 3, "agent_1": 3})[1] == {"agent_0": 1.0, "agent_1": 1.0}


@pytest.mark.parametrize("relabel", [False, True])
def test_listener_hears_the_word_or_a_permuted_one(relabel):
    env, heard = MessageGame(relabel), Counter()
    for seed in range(400):
        seen, infos = env.reset(seed=seed)
        [speaker] = [agent for agent, info in infos.items() if info["to_move"]]
        [listener] = set(seen) - {speaker}
        kind, animal = map(int, seen[speaker])
        assert (
            kind == zero_shot.SEE
            and infos[speaker]["action_mask"].tolist() == [1] * SIZE + [0] * SIZE
        )
        seen, rewards, _, _, infos = env.step({speaker: 1, listener: 0})
        assert set(rewards.values()) == {0.0}
        assert infos[listener]["action_mask"].tolist() == [0] * SIZE + [1] * SIZE
        assert int(seen[listener][0]) == zero_shot.HEAR
        heard[int(seen[listener][1])] += 1
        answer = SIZE + (animal if seed % 2 else (animal + 1) % SIZE)
        _, rewards, *_ = env.step({speaker: 0, listener: answer})
        assert set(rewards.values()) == {float(seed % 2)} and not env.agents
    if relabel:
        assert len(heard) == SIZE and max(heard.values()) < 150
    else:
        assert heard == {1: 400}


def test_starting_models_only_learn_to_copy():
    make, view = GAMES["messages"][1], zero_shot.MessageView()
    policy = classic_policy("uniform", make())
    for episode in play_many(make, dict.fromkeys(zero_shot.AGENTS, policy), range(20)):
        for turn in episode.turns:
            [step] = [step for step in turn if step.decision.asked]
            text = view.describe(step.agent, step.observation)
            assert text.endswith(f": {view.choices[step.decision.action]}")


def test_cross_play_equals_the_jackknife():
    paid = np.random.default_rng(0).random((5, 5))
    rows = cross_play(paid)

    def outside(matrix):
        return matrix[~np.eye(len(matrix), dtype=bool)].mean()

    whole = outside(paid)
    for n, row in enumerate(rows):
        rest = [i for i in range(5) if i != n]
        assert row["cross_play"] == pytest.approx(5 * whole - 4 * outside(paid[np.ix_(rest, rest)]))
        assert row["gap"] == pytest.approx(row["self_play"] - row["cross_play"])
    assert OverSeeds(row["cross_play"] for row in rows).middle == pytest.approx(whole)
    assert OverSeeds(row["self_play"] for row in rows).middle == pytest.approx(np.trace(paid) / 5)


@pytest.mark.slow
def test_every_method_is_trained_and_compared_with_the_first(small):
    request = small("zero_shot", seeds=(3, 4, 5), algorithm__learning_rate=1e-2)
    request.overrides.pop("models.base")
    rows = zero_shot.measure(request).rows
    methods = list(request.claim.methods)
    assert [(row["game"], row["method"]) for row in rows] == [
        (game, method) for game in GAMES for method in methods for _ in range(3)
    ]
    assert all(row["above"] == 0.0 for row in rows if row["method"] == methods[0])
    for row in rows:
        assert all(0 <= paid <= 1 for paid in row["paid"].values())
        assert row["self_play"] == row["paid"][rows.index(row) % 3]
