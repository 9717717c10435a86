from math import log

import numpy as np
import pytest

from srl_agents.policy import AgentObservation
from srl_agents.rollout import play
from srl_agents.scripted import Always, Bernoulli, MemoryOne, SituationReader, TitForTat, Uniform
from srl_agents.scripted.memory_one import mirrored, situation_after, situations
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


def test_always_knows_two_actions():
    with pytest.raises(ValueError, match="got 2"):
        Always(2)


def test_bernoulli_keeps_its_chance_and_its_seed():
    def played(seed):
        seats = {"agent_0": Bernoulli(0.2), "agent_1": Uniform()}
        return play(pair(2000), seats, seed=seed)

    one, again, other = played(1), played(1), played(2)
    assert np.mean(actions(one, "agent_0")) == pytest.approx(0.2, abs=0.03)
    assert np.mean(actions(one, "agent_1")) == pytest.approx(0.5, abs=0.04)
    assert actions(one, "agent_0") == actions(again, "agent_0") != actions(other, "agent_0")
    step = one.steps_of("agent_0")[0]
    assert step.decision.logprob == pytest.approx(log(0.2 if step.decision.action else 0.8))


def test_seats_of_one_policy_draw_apart():
    coin = Uniform()
    episode = play(pair(100), {"agent_0": coin, "agent_1": coin}, seed=0)
    assert actions(episode, "agent_0") != actions(episode, "agent_1")


def test_tit_for_tat_cooperates_then_repeats():
    episode = play(pair(40), {"agent_0": TitForTat(), "agent_1": Uniform()}, seed=5)
    assert actions(episode, "agent_0") == [1, *actions(episode, "agent_1")[:-1]]


@pytest.mark.parametrize(("others", "expected"), [((1, 1, 0), 1), ((1, 0, 0), 0), ((0, 0, 0), 0)])
def test_tit_for_tat_repeats_the_majority(others, expected):
    seats = {"agent_0": TitForTat()}
    seats |= {f"agent_{seat + 1}": Always(action) for seat, action in enumerate(others)}
    env = coop_compete_v0.parallel_env(num_agents=4, max_cycles=4)
    assert actions(play(env, seats, seed=0), "agent_0") == [1] + [expected] * 3


def test_tit_for_tat_keeps_its_course_when_the_others_are_split():
    seats = {"agent_0": TitForTat(), "agent_1": Always(1), "agent_2": Always(0)}
    env = coop_compete_v0.parallel_env(num_agents=3, max_cycles=4)
    assert actions(play(env, seats, seed=0), "agent_0") == [1] * 4


def test_tit_for_tat_reads_another_game():
    env = team_battle_v0.parallel_env(max_cycles=3)
    seats = dict.fromkeys(env.possible_agents, Always(0))
    seats["red_0"] = TitForTat(RIVALS)
    assert actions(play(env, seats, seed=0), "red_0") == [1, 0, 0]


def test_reads_dict_observations():
    env = coop_compete_v0.parallel_env(variant="pair", max_cycles=3, obs_mode="dict")
    episode = play(env, {"agent_0": TitForTat(), "agent_1": Always(0)}, seed=0)
    assert actions(episode, "agent_0") == [1, 0, 0]


def test_a_reader_needs_its_fields():
    with pytest.raises(ValueError, match="no field 'others_cooperated'"):
        SituationReader(team_battle_v0.OBSERVATION_FIELDS)


@pytest.mark.parametrize("chances", [(0.5,) * 4, (0, 0, 0, 0, 1.5), (-0.1, 0, 0, 0, 0)])
def test_chances_are_five_within_0_and_1(chances):
    with pytest.raises(ValueError, match="five numbers"):
        MemoryOne("odd", chances)


def test_answers_a_batch_in_order():
    policy = TitForTat()
    vectors = [np.array([0, 0, other, 0, 0, 0, 0], np.float32) for other in (1, 0, 1)]
    seen = [AgentObservation("agent_0", vector) for vector in vectors]
    decisions, states = policy.act(seen, [policy.start(s) for s in range(3)])
    assert [decision.action for decision in decisions] == [1, 0, 1]
    assert len(states) == 3


def test_situations_and_their_mirror():
    own, other = np.array([[1, 1, 0]], np.int8), np.array([[0, 1, 1]], np.int8)
    assert situations(own, other).tolist() == [[0, 3, 4]]
    swapped = mirrored(range(5))
    for own_action in (0, 1):
        for other_action in (0, 1):
            mine = situation_after(own_action, other_action)
            assert swapped[mine] == situation_after(other_action, own_action)
