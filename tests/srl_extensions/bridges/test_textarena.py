"""TextArena's games as environments."""

import pickle
import random

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play
from srl_envs import make, registry
from srl_envs.errors import EnvConfigError, UntrustedError

GAME = "textarena:IteratedPrisonersDilemma-v0"


@pytest.mark.parametrize("game", ["IteratedPrisonersDilemma-v0", "KuhnPoker-v0", "2048-v0"])
def test_official_tests(game):
    parallel_api_test(make(f"textarena:{game}"), num_cycles=30)
    parallel_seed_test(lambda: make(f"textarena:{game}"), num_cycles=30)


def test_an_episode():
    env = make("textarena:KuhnPoker-v0", settings={"max_rounds": 1})
    observations, infos = env.reset(seed=1)
    [mover] = [agent for agent in env.agents if infos[agent]["to_move"]]
    assert "Kuhn Poker" in observations[mover]["text"]
    earned = dict.fromkeys(env.agents, 0.0)
    for answer in ("[bet]", "[call]"):
        observations, rewards, terminations, _, _ = env.step(dict.fromkeys(env.agents, answer))
        earned = {agent: earned[agent] + reward for agent, reward in rewards.items()}
    assert all(terminations.values()) and sorted(earned.values()) == [-1, 1]


def test_an_observation_is_the_new_part_of_textarenas():
    env = make(GAME)
    env.reset(seed=1)
    texts = []
    for _ in range(4):
        observations, *_, infos = env.step(dict.fromkeys(env.agents, "[Cooperate]"))
        texts += [observations[agent]["text"] for agent in env.agents if infos[agent]["to_move"]]
    assert "Prisoner" in texts[0] and all("rounds:" not in text for text in texts[1:])


def test_seeds_do_not_depend_on_other_random_numbers():
    firsts = []
    for noise in range(2):
        random.seed(noise)
        np.random.seed(noise)
        env, other = make("textarena:KuhnPoker-v0"), make("textarena:KuhnPoker-v0")
        env.reset(seed=5)
        other.reset(seed=noise)
        drawn = random.random()
        texts = []
        for _ in range(4):
            observations, *_ = env.step(dict.fromkeys(env.agents, "[bet]"))
            other.step(dict.fromkeys(other.agents, "[bet]"))
            texts += [seen["text"] for seen in observations.values()]
        firsts.append(texts)
        random.seed(noise)
        assert drawn == random.random()  # The global generator is as before.
    assert firsts[0] == firsts[1]


def first_steps(env, count=3):
    """Reset an environment; return the observations of its first steps."""
    seen = [env.reset(seed=5)[0]]
    for _ in range(count):
        seen.append(env.step(dict.fromkeys(env.agents, "[Cooperate]"))[0])
    return [{agent: one["text"] for agent, one in each.items()} for each in seen]


@pytest.mark.parametrize("game", ["IteratedPrisonersDilemma-v0", "Nim-v0", "2048-v0"])
def test_episodes_of_one_environment_are_independent(game):
    env = make(f"textarena:{game}")
    first = first_steps(env)
    assert first_steps(env) == first
    assert first_steps(pickle.loads(pickle.dumps(env))) == first


def test_copies_continue_alike():
    env = make("textarena:KuhnPoker-v0")
    env.reset(seed=5)
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(6):
        answers = dict.fromkeys(env.agents, "[check]")
        (seen, *_), (twins, *_) = env.step(answers), twin.step(answers)
        assert {a: s["text"] for a, s in seen.items()} == {a: s["text"] for a, s in twins.items()}


def test_a_language_model_is_asked_only_when_it_is_to_move(tiny_folder):
    backend = HuggingFaceBackend.load(tiny_folder)
    env = make(GAME, max_cycles=6)
    policy = TextPolicy(backend, env.text_view)
    episode = play(env, dict.fromkeys(env.possible_agents, policy), seed=0)
    assert episode.failure is None
    assert [sum(step.decision.asked for step in turn) for turn in episode.turns] == [1] * 6


def test_unknown_games_and_settings():
    with pytest.raises(EnvConfigError, match="NoGame-v0"):
        make("textarena:NoGame-v0")
    with pytest.raises(EnvConfigError, match="KuhnPoker"):
        make("textarena:KuhnPoker-v0", num_players=7)
    with pytest.raises(UntrustedError, match="settings"):
        registry.remake("textarena:KuhnPoker-v0", {"settings": {"max_rounds": 1}})
