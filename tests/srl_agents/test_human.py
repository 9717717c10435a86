"""A person's seat: what is asked, what is understood, and how one leaves."""

import pytest

from srl_agents.human import Human
from srl_agents.rollout import play
from srl_agents.scripted import Always
from srl_envs import make


def played(lines, env, *, seat="agent_0", other=None, hears_words=False):
    """(episode, all that was told) of a game in which a person types these lines."""
    told, left = [], iter(lines)

    def ask(prompt):
        told.append(prompt)
        return next(left, None)

    human = Human(env.text_view, ask, told.append, hears_words=hears_words)
    seats = {agent: other or Always(1) for agent in env.possible_agents} | {seat: human}
    return play(env, seats, seed=0), "\n".join(told), human


def pair(**options):
    return make("coop_compete_pair_v0", max_cycles=2, **options)


def test_the_rules_are_told_once_and_every_situation():
    episode, told, _ = played(["cooperate", "Compete."], pair())
    assert [step.decision.action for step in episode.steps_of("agent_0")] == [1, 0]
    assert [step.decision.text for step in episode.steps_of("agent_0")] == ["cooperate", "Compete."]
    assert episode.failure is None and episode.seats["agent_0"] == "human"
    assert told.count("You are agent_0, one of 2 players.") == 1
    assert "Round 1 of 2." in told and "Round 2 of 2." in told
    assert told.count("You may answer: compete, cooperate") == 2


def test_what_cannot_be_read_may_be_tried_again():
    episode, told, _ = played(["", "I will not cooperate", "?", "cooperate", "compete"], pair())
    assert [step.decision.action for step in episode.steps_of("agent_0")] == [1, 0]
    assert told.count("That was not read:") == 2
    assert "A model would have played 'compete' now; you may try again" in told
    assert told.count("You are agent_0") == 2 and "Legal now: compete, cooperate" in told


@pytest.mark.parametrize("way", ["q", "quit", " Q ", None])
def test_leaving_ends_the_game_where_it_stands(way):
    lines = ["cooperate"] if way is None else ["cooperate", way]
    episode, _, human = played(lines, pair())
    assert human.left and len(episode.turns) == 1
    assert episode.failure == "BackendError: agent_0 left the game"


def test_words_are_heard_where_the_game_lets_them():
    def game():
        return make("social_negotiation_v0", messages=True, obs_mode="llm", max_cycles=2)

    lines = ["say low price, please", "say or I leave", "pass", "pass"]
    episode, told, _ = played(lines, game(), other=Always(0), hears_words=True)
    assert episode.steps_of("agent_0")[0].decision.text == "low price, please\nor I leave\npass"
    heard = episode.steps_of("agent_1")[1].observation["messages"]
    assert heard == 'agent_0 says: "low price, please or I leave"'
    assert "It will be heard with your move." in told

    episode, told, _ = played(["say hello", "cooperate", "compete"], pair())
    assert "Nobody hears words in this game." in told
    assert episode.steps_of("agent_0")[0].decision.text == "cooperate"
