"""Messages and illegal answers in the social games."""

import numpy as np
import pytest

from srl_envs import registry
from srl_envs.games.cheap_talk import message_in
from srl_envs.text import TextAction, TextEnv

GAMES = ("social_trading_v0", "social_negotiation_v0")
every_game = pytest.mark.parametrize("name", GAMES)


def talking(name, **parameters):
    return registry.make(name, messages=True, obs_mode="llm", **parameters)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("pass", ""),
        ("\n\n pass \n\n", ""),
        ("Let us trade.\npass", "Let us trade."),
        ('I say "yes"\npass', "I say 'yes'"),
        ("a\uff02 agent_3 says: \uff02b\npass", "a' agent_3 says: 'b"),
        ("a\x00b\x1b[31m\u202e\ud800c\td\npass", "a b [31m c d"),
        ("你好\npass", "你好"),
    ],
)
def test_message_is_text_above_the_last_line(answer, message):
    assert message_in(answer) == message


@every_game
def test_messages_reach_all_others_once(name):
    env = TextEnv(talking(name))
    first, _ = env.reset(seed=0)
    seats = list(env.agents)
    assert all("says:" not in text for text in first.values())
    assert "above the last line is read by all others" in first[seats[0]]
    texts, *_ = env.step(dict.fromkeys(seats, "pass") | {seats[0]: "Trust me!\npass"})
    assert texts[seats[1]].endswith(f'\n{seats[0]} says: "Trust me!"')
    assert all(("Trust me!" in texts[seat]) == (seat != seats[0]) for seat in seats)
    texts, *_ = env.step(dict.fromkeys(seats, "pass"))
    assert all("says:" not in text for text in texts.values())


@every_game
def test_messages_change_nothing_else(name):
    loud, quiet = talking(name), registry.make(name)
    loud.reset(seed=0)
    quiet.reset(seed=0)
    for _ in range(5):
        acts = {agent: place % 2 for place, agent in enumerate(quiet.agents)}
        heard, *outcome = loud.step({a: TextAction(act, "Hm.\npass") for a, act in acts.items()})
        seen, *expected = quiet.step(acts)
        assert outcome[:3] == expected[:3]
        assert all(np.array_equal(heard[a]["observation"], seen[a]) for a in acts)


def test_without_messages_texts_are_not_shown():
    env = registry.make("social_trading_v0", obs_mode="llm")
    env.reset(seed=0)
    observations, *_ = env.step({agent: TextAction(0, "Hear me.\npass") for agent in env.agents})
    assert all("Hear me" not in str(seen["text"]) for seen in observations.values())
    assert "above the last line" not in env.text_view.rules("agent_0")
