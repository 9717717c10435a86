"""From an episode's raw rewards to trajectories with advantages."""

import numpy as np
import pytest

from srl_agents.episode import AgentStep, Decision, End, Episode
from srl_train.credit import AgentRoles, assign_credit
from srl_train.errors import TrainingError
from srl_train.modes import cooperative
from srl_train.trajectory import shaped_game


def step(agent, reward, failure=None, info=None):
    return AgentStep(agent, None, Decision(0, parse_failure=failure), reward, info or {})


def episode(*turns, **more):
    return Episode("g", 5, {"a": "m", "b": "m"}, turns, **more)


def as_paid(rewards):
    return rewards


def test_parse_penalties_are_subtracted_after_shaping_at_the_step_of_the_failure():
    played = episode((step("a", 1.0), step("b", 3.0)), (step("a", 2.0, "unread"),))
    game = shaped_game(
        played, ("a", "b"), lambda raw: {a: [10 * r for r in own] for a, own in raw.items()}, 0.5
    )
    assert {agent: own.shaped for agent, own in game.items()} == {"a": (10.0, 19.5), "b": (30.0,)}
    assert [one.reward for one in game["a"].steps] == [1.0, 2.0], "the raw rewards stay"


def test_a_trajectory_contains_the_steps_of_its_agent():
    ends = {"a": End(True, "seen", (7,))}
    states = (np.zeros(1), np.ones(1), np.full(1, 2.0))
    label = {"environment": "maze"}
    turns = [(step("a", 1.0, info=label), step("b", 2.0)), (step("b", 3.0),), (step("a", 4.0),)]
    game = shaped_game(
        episode(*turns, ends=ends, states=states), ("a", "b"), as_paid, parse_penalty=0.5
    )
    assert game["a"].steps == (turns[0][0], turns[2][0])
    assert [state.tolist() for state in game["a"].states] == [[0.0], [2.0]]
    assert (game["a"].end, game["b"].end) == (ends["a"], None)
    assert {own.environment for own in game.values()} == {"maze"}
    assert {own.seed for own in game.values()} == {5}
    assert {own.advantages for own in game.values()} == {None}


def test_an_agent_that_joins_late_is_compared_with_the_agents_of_the_same_step():
    played = episode((step("a", 1.0),), (step("a", 3.0), step("b", 5.0)), (step("b", 2.0),))
    mode = cooperative(0.5)
    game = shaped_game(played, ("a", "b"), lambda raw: mode.shape(raw, None, {}), 0.0)
    assert {agent: own.shaped for agent, own in game.items()} == {"a": (1.0, 3.5), "b": (4.5, 2.0)}


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_rewards_that_are_not_finite_are_refused(reward):
    with pytest.raises(TrainingError, match=r"for b in step 0 of the episode with seed 5"):
        shaped_game(episode((step("a", 1.0), step("b", reward))), ("a", "b"), as_paid, 0.0)


def test_credit_is_added_group_by_group():
    def first_of_its_group(groups, seating, state):
        found = [
            [{"a": [float(game is group[0])] * len(game["a"].steps)} for game in group]
            for group in groups
        ]
        return found, {"groups": len(groups)}

    games = [shaped_game(episode((step("a", 1.0),)), ("a",), as_paid, 0.0) for _ in range(4)]
    rated, state = assign_credit(games, 2, first_of_its_group, AgentRoles(("a",)), {})
    assert [game["a"].advantages for game in rated] == [(1.0,), (0.0,), (1.0,), (0.0,)]
    assert state == {"groups": 2}
    assert assign_credit(games, 2, None, AgentRoles(("a",)), state) == (games, state)
