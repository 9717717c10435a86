from math import log

import numpy as np
import pytest

from srl_agents.rollout import play
from srl_agents.scripted import Always, Bernoulli, SituationReader, TitForTat, Uniform
from srl_agents.scripted.memory_one import mirrored, situations
from srl_envs import coop_compete_v0
from srl_envs.games import team_battle as team_battle_v0

RIVALS = SituationReader(team_battle_v0.OBSERVATION_FIELDS, others="rivals_cooperated")


def actions(episode, agent):
    return [step.decision.action for step in episode.steps_of(agent)]


def pair(rounds=6):
    return coop_compete_v0.parallel_env(variant="pair", max_cycles=rounds)


@pytest.mark.parametrize("action", [0, 1])
def test_always(action):
    episode = play(pair(), {"agent_0": Always(action), "agent_1": Uniform()}, seed=3)
    assert actions(episode, "agent_0") == [action] * 6
    assert {step.decision.logprob for step in episode.steps_of("agent_0")} == {0.0}


def test_bernoulli_depends_on_probability_and_seed():
    def played(seed):
        seats = {"agent_0": Bernoulli(0.2), "agent_1": Uniform()}
        return play(pair(2000), seats, seed=seed)

    one, again, other = played(1), played(1), played(2)
    assert np.mean(actions(one, "agent_0")) == pytest.approx(0.2, abs=0.03)
    assert np.mean(actions(one, "agent_1")) == pytest.approx(0.5, abs=0.04)
    assert actions(one, "agent_0") == actions(again, "agent_0") != actions(other, "agent_0")
    step = one.steps_of("agent_0")[0]
    assert step.decision.logprob == pytest.approx(log(0.2 if step.decision.action else 0.8))


def test_tit_for_tat_cooperates_then_repeats():
    episode = play(pair(40), {"agent_0": TitForTat(), "agent_1": Uniform()}, seed=5)
    assert actions(episode, "agent_0") == [1, *actions(episode, "agent_1")[:-1]]


@pytest.mark.parametrize(("others", "expected"), [((1, 1, 0), 1), ((1, 0, 0), 0), ((0, 0, 0), 0)])
def test_tit_for_tat_repeats_the_majority(others, expected):
    seats = {"agent_0": TitForTat()}
    seats |= {f"agent_{seat + 1}": Always(action) for seat, action in enumerate(others)}
    env = coop_compete_v0.parallel_env(num_agents=4, max_cycles=4)
    assert actions(play(env, seats, seed=0), "agent_0") == [1] + [expected] * 3


def test_tit_for_tat_in_team_battle():
    env = team_battle_v0.parallel_env(max_cycles=3)
    seats = dict.fromkeys(env.possible_agents, Always(0))
    seats["red_0"] = TitForTat(RIVALS)
    assert actions(play(env, seats, seed=0), "red_0") == [1, 0, 0]


def test_mirrored_swaps_the_players():
    own, other = np.array([[1, 1, 0]], np.int8), np.array([[0, 1, 1]], np.int8)
    assert situations(own, other).tolist() == [[0, 3, 4]]
    swapped = mirrored(range(5))
    for own_action in (0, 1):
        for other_action in (0, 1):
            assert swapped[1 + 2 * own_action + other_action] == 1 + 2 * other_action + own_action
