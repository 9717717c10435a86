import numpy as np
import pytest

from srl_agents.baselines import OurMethodAgent, OurMethodPolicy, SimplePG, SimplePGAgent
from srl_agents.rollout import play, play_many
from srl_agents.scripted import Always, TitForTat
from srl_envs import coop_compete_v0

ROUNDS = 32


def pair(level=0.8, **settings):
    return coop_compete_v0.parallel_env(
        variant="pair", cooperation_level=level, difficulty=0.3, max_cycles=ROUNDS, **settings
    )


def actions(episode, agent):
    return [step.decision.action for step in episode.steps_of(agent)]


@pytest.mark.parametrize(("level", "better"), [(0.8, 1), (0.2, 0)])
def test_two_of_a_kind_agree_in_the_environment(level, better):
    seats = {
        agent: OurMethodAgent(OurMethodPolicy(seed=number))
        for number, agent in enumerate(("agent_0", "agent_1"))
    }
    for seed in range(4):
        episode = play(pair(level, observe_parameters=False), seats, seed=seed)
        for agent, seat in seats.items():
            seat.learn(episode, agent)
    for agent in seats:
        assert actions(episode, agent) == [better] * ROUNDS


def test_the_environment_and_the_bare_policy_are_the_same_game():
    seat, bare = OurMethodAgent(OurMethodPolicy(seed=0)), OurMethodPolicy(seed=0)
    for seed in range(5):
        episode = play(pair(), {"agent_0": seat, "agent_1": TitForTat()}, seed=seed)
        record = []
        for turn in episode.turns:
            action, logprob = bare.act()
            assert action == turn[0].decision.action
            bare.observe_opponent(turn[1].decision.action)
            record.append((action, logprob, turn[0].reward))
        bare.update(record)
        seat.learn(episode, "agent_0")


def test_reads_only_what_was_played():
    # The same course of actions; the parameters and rewards in the observations differ.
    seat = OurMethodAgent(OurMethodPolicy(seed=0))
    courses = [
        actions(play(pair(level), {"agent_0": seat, "agent_1": TitForTat()}, seed=3), "agent_0")
        for level in (0.1, 0.9)
    ]
    assert courses[0] == courses[1]


def test_learns_from_episodes_in_the_order_played():
    seat = OurMethodAgent(OurMethodPolicy(seed=0))
    seats = {"agent_0": seat, "agent_1": Always(0)}
    episodes = play_many(pair, seats, [1, 2])
    for episode in episodes * 4:
        try:
            seat.learn(episode, "agent_0")
        except ValueError as error:
            assert "learn from each episode before playing the next" in str(error)
            break
    else:
        pytest.fail("stale episodes were learnt from")


def test_the_majority_is_the_opponent():
    seats = {f"agent_{seat}": Always(0) for seat in range(4)}
    seats["agent_0"] = seat = OurMethodAgent(OurMethodPolicy(seed=0))
    env = coop_compete_v0.parallel_env(num_agents=4, max_cycles=ROUNDS, cooperation_level=0.6)
    for seed in range(8):
        episode = play(env, seats, seed=seed)
        seat.learn(episode, "agent_0")
    assert np.mean(actions(episode, "agent_0")) < 0.1  # with three competitors, competing pays


def test_simple_pg_learns_from_episodes():
    seat = SimplePGAgent(SimplePG(lr=5.0))
    seats = {"agent_0": seat, "agent_1": Always(1)}
    for seed in range(20):
        episode = play(pair(), seats, seed=seed)
        seat.learn(episode, "agent_0")
    assert seat.learner.chance > 0.9
    again = play(pair(), seats, seed=99)
    assert actions(again, "agent_0") == actions(play(pair(), seats, seed=99), "agent_0")
