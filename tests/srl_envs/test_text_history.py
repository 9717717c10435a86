"""Text observations with history: their content and length."""

import pytest

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.text import TEXT_LENGTH, TextEnv


def text_env(**settings):
    return TextEnv(registry.make("coop_compete_pair_v0", noise_std=0.0), **settings)


def play(env, *answers):
    """agent_0 gives the answers, agent_1 competes; every observation of agent_0."""
    texts = [env.reset(seed=0)[0]["agent_0"]]
    for answer in answers:
        texts.append(env.step({"agent_0": answer, "agent_1": "compete"})[0]["agent_0"])
    return texts


def test_history_repeats_rules_in_every_observation():
    env = text_env(history=2)
    plain = play(text_env(), "compete", "who knows", "Hm.\ncooperate")
    rules = env.unwrapped.text_view.rules("agent_0")
    first, second, third, fourth = play(env, "compete", "who knows", "Hm.\ncooperate")
    assert first == plain[0]
    opening = first.removeprefix(f"{rules}\n\n")
    assert second == f"{rules}\n\nTurn 1:\n{opening}\nYou answered: compete\n\nNow:\n{plain[1]}"
    reason = "no legal choice stood alone on the last line"
    unread = f"Turn 2:\n{plain[1]}\nYou answered: who knows\nNot read: {reason}."
    assert third == (
        f"{rules}\n\nTurn 1:\n{opening}\nYou answered: compete\n\n{unread}\n\nNow:\n{plain[2]}"
    )
    assert plain[2].startswith(f"Your last answer was not read: {reason}. So compete was played.\n")
    situation = plain[2].partition("\n")[2]
    assert fourth == (
        f"{rules}\n\n{unread}\n\nTurn 3:\n{situation}\nYou answered: Hm.\ncooperate"
        f"\n\nNow:\n{plain[3]}"
    )


def test_history_drops_oldest_turns_to_fit_its_length():
    turns = 400
    env = text_env(history=turns)
    last = play(env, *["cooperate"] * turns)[-1]
    assert last in env.observation_space("agent_0") and len(last) > TEXT_LENGTH - 200
    assert last.startswith(env.unwrapped.text_view.rules("agent_0"))
    numbers = [int(line[5:-1]) for line in last.splitlines() if line.startswith("Turn ")]
    assert numbers == list(range(numbers[0], turns + 1)) and numbers[0] > 1


@pytest.mark.parametrize("history", [-1, 1.5, True, "all"])
def test_invalid_history_raises(history):
    with pytest.raises(EnvConfigError, match="history must be a whole number"):
        text_env(history=history)
