"""The policy of a person: prompts, answers and commands."""

import pytest

from srl_agents.human import Human
from srl_agents.rollout import play
from srl_agents.scripted import Always
from srl_envs import make


def played(lines, env, *, seat="agent_0", other=None, hears_words=False):
    """Return (episode, all text shown) of an episode in which a person types these lines."""
    shown, typed = [], iter(lines)

    def ask(prompt):
        shown.append(prompt)
        return next(typed, None)

    human = Human(env.text_view, ask, shown.append, hears_words=hears_words)
    seats = {agent: other or Always(1) for agent in env.possible_agents} | {seat: human}
    return play(env, seats, seed=0), "\n".join(shown), human


def pair(**options):
    return make("coop_compete_pair_v0", max_cycles=2, **options)


def test_rules_are_shown_once_and_observations_every_step():
    episode, shown, _ = played(["cooperate", "Compete."], pair())
    assert [step.decision.action for step in episode.steps_of("agent_0")] == [1, 0]
    assert [step.decision.text for step in episode.steps_of("agent_0")] == ["cooperate", "Compete."]
    assert episode.failure is None and episode.seats["agent_0"] == "human"
    assert shown.count("You are agent_0, one of 2 players.") == 1
    assert "Round 1 of 2." in shown and "Round 2 of 2." in shown
    assert shown.count("You may answer: compete, cooperate") == 2


def test_invalid_answers_may_be_repeated():
    episode, shown, _ = played(["", "I will not cooperate", "?", "cooperate", "compete"], pair())
    assert [step.decision.action for step in episode.steps_of("agent_0")] == [1, 0]
    assert shown.count("This answer is not valid:") == 2
    assert "A model would have played 'compete' now; you may try again" in shown
    assert shown.count("You are agent_0") == 2 and "Legal now: compete, cooperate" in shown


@pytest.mark.parametrize("way", ["q", "quit", " Q ", None])
def test_leaving_ends_the_episode(way):
    lines = ["cooperate"] if way is None else ["cooperate", way]
    episode, _, human = played(lines, pair())
    assert human.left and len(episode.turns) == 1
    assert episode.failure == "BackendError: agent_0 left the game"


def test_messages_are_sent_if_the_game_has_messages():
    def game():
        return make("social_negotiation_v0", messages=True, obs_mode="llm", max_cycles=2)

    lines = ["say low price, please", "say or I leave", "pass", "pass"]
    episode, shown, _ = played(lines, game(), other=Always(0), hears_words=True)
    assert episode.steps_of("agent_0")[0].decision.text == "low price, please\nor I leave\npass"
    heard = episode.steps_of("agent_1")[1].observation["messages"]
    assert heard == 'agent_0 says: "low price, please or I leave"'
    assert "This is sent with your next answer." in shown

    episode, shown, _ = played(["say hello", "cooperate", "compete"], pair())
    assert "There are no messages in this game." in shown
    assert episode.steps_of("agent_0")[0].decision.text == "cooperate"
