"""Text views of third-party games: actions, masks, infos and prompts."""

import pytest
from pettingzoo.utils import BaseParallelWrapper, turn_based_aec_to_parallel

from srl_agents.rollout import play
from srl_agents.scripted.basic import Uniform
from srl_envs import check_environment
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import WAITING, TextEnv
from srl_envs.wrappers import with_text
from tests.srl_envs.third_party_games import Counted, InCycles, NeverTwice, Nim

COLOURS = ("red", "green", "blue")


def never_twice(**settings):
    return with_text(
        NeverTwice(),
        rules="Show the same colour.",
        answers=COLOURS,
        describe=lambda _, seen: f"You see: {(*COLOURS, 'nothing')[seen['observation']]}",
        **settings,
    )


def nim(mask="observation", **settings):
    return with_text(Nim(mask), rules="Take the last stick.", answers=("one", "two"), **settings)


@pytest.mark.parametrize(
    "make",
    [
        never_twice,
        nim,
        lambda: with_text(Counted(), rules="Any will do.", answers=COLOURS),
        lambda: nim("info"),
        lambda: nim(None),
        lambda: with_text(InCycles(), rules="Take sticks.", answers=("one", "two")),
        lambda: with_text(
            BaseParallelWrapper(turn_based_aec_to_parallel(Nim())),
            rules="Take the last stick.",
            answers=("one", "two"),
        ),
    ],
)
def test_own_environments_fulfill_the_contract(make):
    check_environment(make)


def test_texts_of_a_parallel_game():
    env = TextEnv(never_twice())
    seen, _ = env.reset(seed=0)
    assert seen["player_0"] == (
        "You are player_0. Show the same colour.\n"
        "Write your choice alone on the last line: 'red', 'green' or 'blue'. What cannot be read "
        "costs 0.1.\n\nYou see: nothing"
    )
    seen, rewards, *_ = env.step({"player_0": "red", "player_1": "Red."})
    assert seen["player_1"] == "You see: red\nYou may choose: green, blue."
    assert rewards == {"player_0": 1.0, "player_1": 1.0}
    assert type(rewards["player_0"]) is float


def test_texts_of_a_turn_based_game():
    env = TextEnv(nim(describe=lambda _, seen: f"You see: {seen['observation']} left"))
    seen, infos = env.reset(seed=0)
    assert "On your turn 'pass', or what cannot be read, plays the first move" in seen["player_1"]
    assert seen["player_1"].endswith("\nYou see: 7 left")
    assert seen["player_2"].endswith(f"\n\n{WAITING}")
    assert infos["player_1"]["action_mask"].tolist() == [0, 1, 1]
    assert infos["player_2"]["action_mask"].tolist() == [1, 0, 0]
    assert [infos[seat]["to_move"] for seat in ("player_1", "player_2")] == [True, False]
    seen, _, _, _, infos = env.step({"player_1": "two", "player_2": "pass"})
    assert seen == {
        "player_1": WAITING,
        "player_2": "You see: 5 left",
    }
    assert infos["player_2"]["action_mask"].tolist() == [0, 1, 1]
    assert (
        env.unwrapped.text_view.describe("player_1", {"observation": 5, "action_mask": [1, 0, 0]})
        == "You see: 5 left\nIt is not your turn: write 'pass'."
    )


def test_turns_to_the_end():
    game = nim()
    game.reset(seed=0)
    for first, second in ((2, 0), (0, 2), (2, 0)):
        _, rewards, terminations, _, infos = game.step({"player_1": first, "player_2": second})
        assert rewards == {"player_1": 0.0, "player_2": 0.0} and not any(terminations.values())
        assert not any(info["illegal"] for info in infos.values())
    assert infos["player_2"]["action_mask"].tolist() == [0, 1, 0]  # one stick is left
    assert game.text_view.describe("player_2", {"observation": 1, "action_mask": [0, 1, 0]}) == (
        "You see: 1\nYou may choose: one."
    )
    _, rewards, terminations, _, infos = game.step({"player_1": 0, "player_2": 1})
    assert rewards == {"player_1": -1.0, "player_2": 1.0} and all(terminations.values())
    assert game.agents == []
    with pytest.raises(EnvError, match="call reset"):
        game.step({"player_1": 0})


def test_illegal_action_plays_default_or_first_legal():
    game = never_twice(default_action=1)
    game.reset(seed=0)
    game.step({"player_0": 0, "player_1": 1})
    seen, _, _, _, infos = game.step({"player_0": 0, "player_1": 1})
    assert infos["player_0"]["illegal"] and infos["player_1"]["illegal"]
    assert (seen["player_0"]["observation"], seen["player_1"]["observation"]) == (1, 0)

    turns = nim()
    turns.reset(seed=0)
    seen, _, _, _, infos = turns.step({"player_1": 0, "player_2": 2})  # each does the other's part
    assert seen["player_2"]["observation"] == 6
    assert [infos[seat]["illegal"] for seat in turns.agents] == [True, True]


def test_feedback_names_the_played_action():
    reason = "no legal choice stood alone on the last line"
    env = TextEnv(nim())
    env.reset(seed=0)
    seen, _, _, _, infos = env.step({"player_1": "banana", "player_2": "banana"})
    assert infos["player_1"]["action"] == 1 and infos["player_2"]["action"] == 0
    assert not any(info["illegal"] for info in infos.values())
    told = {seat: text.partition("\n")[0] for seat, text in seen.items()}
    assert told["player_1"] == f"Your last answer was not read: {reason}. So one was played."
    assert infos["player_2"]["parse_failure"] is None  # It was not to move.
    seen, _, _, _, infos = env.step({"player_1": "pass", "player_2": "Pass."})
    assert seen["player_2"].startswith(
        "Your last answer was not read: that choice is not allowed now. So one was played.\n"
        f"{WAITING}"
    )

    same = TextEnv(never_twice(default_action=1))
    same.reset(seed=0)
    same.step({"player_0": "green", "player_1": "red"})
    seen, _, _, _, infos = same.step({"player_0": "banana", "player_1": "banana"})
    assert "So red was played." in seen["player_0"] and "So green was played." in seen["player_1"]
    assert [infos[seat]["action"] for seat in same.agents] == [0, 1]


def test_agents_that_ended_need_no_action():
    game = never_twice()
    game.reset(seed=0)
    for action in (0, 1, 2):
        game.step(dict.fromkeys(game.agents, action))
    assert game.agents == ["player_0"]
    episode = play(never_twice(), dict.fromkeys(game.possible_agents, Uniform(3)), seed=1)
    assert episode.failure is None
    assert [len(turn) for turn in episode.turns] == [2, 2, 2, 1]


def test_custom_description_receives_the_observation():
    env = with_text(
        Nim(), rules="r", answers=("one", "two"), describe=lambda seat, seen: f"{seat}: {seen}"
    )
    seen, _ = env.reset(seed=0)
    told = env.text_view.describe("player_1", seen["player_1"])
    assert told.startswith("player_1: {'observation': 7, 'action_mask': array([0, 1, 1]")


class Stuck(NeverTwice):
    def reset(self, seed=None, options=None):
        seen, infos = super().reset(seed, options)
        seen["player_1"]["action_mask"][:] = 0
        return seen, infos


GIVEN = {"rules": "r", "answers": COLOURS}


@pytest.mark.parametrize(
    ("env", "settings", "said"),
    [
        (NeverTwice(), {"answers": ("yes", "no")}, "answers of player_0 must be 3 texts"),
        (NeverTwice(), {"answers": ("red", "", "blue")}, "answers of player_0"),
        (NeverTwice(), {"rules": {"player_0": "r"}}, "rules must have the agents"),
        (Nim(), {"answers": ("pass", "two")}, "answers of player_1"),
        (object(), {}, "env must be a PettingZoo"),
    ],
)
def test_wrong_arguments_raise_one_line(env, settings, said):
    with pytest.raises(EnvConfigError, match=said) as refused:
        with_text(env, **{**GIVEN, **settings})
    assert "\n" not in str(refused.value)


def test_wrong_actions_and_masks_raise():
    game = never_twice()
    game.reset(seed=0)
    with pytest.raises(EnvError, match="needs one for each of"):
        game.step({"player_0": 0})
    with pytest.raises(EnvError, match="must be a mapping agent -> action, got 5"):
        game.step(5)
    with pytest.raises(EnvError, match="action 3 of player_1 is outside Discrete"):
        game.step({"player_0": 0, "player_1": 3})
    with pytest.raises(EnvError, match="action mask of player_1"):
        with_text(Stuck(), **GIVEN).reset(seed=0)
