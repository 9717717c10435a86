"""Prompts and drawings of mazes."""

import pytest

from srl_envs.games.maze import parallel_env
from srl_envs.text import TextEnv

BEND = ["A.#", "#..", "##G"]


def told(env, *answers):
    """Return the text of agent_0 after rounds in which all agents give the same answer."""
    env.reset(seed=0)
    for answer in answers:
        observations, *_ = env.step(dict.fromkeys(env.agents, answer))
    return observations["agent_0"]


def test_description():
    env = TextEnv(parallel_env(layout=BEND, max_cycles=9))
    observations, _ = env.reset(seed=0)
    rules, situation = observations["agent_0"].split("\n\n")
    assert "You are agent_0 in a maze of 3 by 3 cells. Reach the goal" in rules
    assert rules.endswith("alone on the last line: up, down, left or right.")
    assert situation == "Step 1 of 9. Open: right (new). Goal: 2 right, 2 down."
    assert told(env, "Right.") == (
        "Step 2 of 9. You went right. Open: down (new), left (been 1). Goal: 1 right, 2 down."
    )
    assert told(env, "right", "UP") == (
        "Step 3 of 9. A wall stopped you going up. Open: down (new), left (been 1). "
        "Goal: 1 right, 2 down."
    )
    assert told(env, "right", "down", "right") == (
        "Step 4 of 9. You went right. Open: down (new), left (been 1). Goal: 1 down."
    )
    assert told(env, "right", "down", "right", "down").endswith(
        "You are at the goal; your moves no longer count."
    )


@pytest.mark.parametrize(
    ("task", "seats", "rules", "situation"),
    [
        (
            "race",
            2,
            "before the others, 2 players",
            "Goal: 1 right, 2 down. Other player: here.",
        ),
        ("own", 2, "Reach your goal", "Goal: 1 right, 2 down. Other player: 1 right, 2 down."),
        ("meet", 2, "Both players must come together", "Other player: 1 right, 2 down."),
        (
            "meet",
            3,
            "All 3 players must come together",
            "Farthest player: 1 right, 2 down. Nearest player: 1 down.",
        ),
    ],
)
def test_description_for_several_agents(task, seats, rules, situation):
    env = TextEnv(parallel_env(layout=BEND, num_agents=seats, task=task))
    observations, _ = env.reset(seed=0)
    assert rules in observations["agent_0"]
    # agent_1 and agent_2, which begin at (2, 2) and (1, 1) unless they race, walk into walls.
    answers = {"agent_0": "right", "agent_1": "right", "agent_2": "left"}
    observations, *_ = env.step({agent: answers[agent] for agent in env.agents})
    assert observations["agent_0"].endswith(situation)


def test_text_drawing():
    env = parallel_env(layout=BEND, max_cycles=9, render_mode="ansi")
    env.reset(seed=0)
    env.step({"agent_0": 3})
    assert env.render() == "maze_v0 round 1/9\n.A#\n#..\n##G\n"
    two = parallel_env(layout=BEND, num_agents=2, task="own", max_cycles=9, render_mode="ansi")
    two.reset(seed=0)
    two.step({"agent_0": 3, "agent_1": 0})
    assert two.render() == "maze_v0 round 1/9\nGA#\n#.B\n##G\n"
    crowd = parallel_env(layout="complex", num_agents=30, task="meet", render_mode="ansi")
    crowd.reset(seed=0)
    assert crowd.render().count("*") == 5 and "G" not in crowd.render()


def test_pictures_of_an_episode_have_one_size():
    env = parallel_env(layout="simple", num_agents=2, render_mode="rgb_array")
    env.reset(seed=0)
    shapes = {env.render().shape}
    for _ in range(12):  # The number of the round gets a second digit.
        env.step({"agent_0": 3, "agent_1": 1})
        shapes.add(env.render().shape)
    assert len(shapes) == 1
