"""Words as a part of discrete actions."""

import numpy as np
import pytest

from srl_agents.evaluation.episode_stats import cooperation_rate
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy, names
from srl_envs import registry, vector
from srl_envs.text import ParseFailure, TextEnv
from srl_train.run import ModelTotals
from tests.fakes import ByteTokenizer, ScriptedBackend

GAMES = ("team_battle_v0", "team_battle_v1", "social_trading_v0", "social_negotiation_v0")
every_game = pytest.mark.parametrize("name", GAMES)


@every_game
def test_words_change_nothing_but_what_the_others_see(name):
    loud, quiet = registry.make(name, talk=2), registry.make(name)
    (heard, infos), (seen, before) = loud.reset(seed=3), quiet.reset(seed=3)
    agents = quiet.possible_agents
    generator = np.random.default_rng(0)
    words = [0] * len(agents)
    while quiet.agents:
        for place, agent in enumerate(agents):
            features = len(seen[agent])
            assert np.array_equal(heard[agent][:features], seen[agent])
            flags = np.eye(3)[words[:place] + words[place + 1 :], 1:]
            assert np.array_equal(heard[agent][features:], flags.ravel())
            assert np.array_equal(infos[agent]["action_mask"], [*before[agent]["action_mask"]] * 3)
        acts = [generator.choice(np.flatnonzero(before[a]["action_mask"])) for a in agents]
        words = generator.integers(0, 3, len(agents)).tolist()
        count = quiet.action_space(agents[0]).n
        flat = [act + word * count for act, word in zip(acts, words, strict=True)]
        heard, *outcome, infos = loud.step(dict(zip(agents, flat, strict=True)))
        seen, *expected, before = quiet.step(dict(zip(agents, acts, strict=True)))
        assert outcome == expected


@every_game
def test_words_in_text(name):
    env = TextEnv(registry.make(name, talk=2, render_mode="ansi"))
    texts, _ = env.reset(seed=0)
    agents, view = env.possible_agents, env.unwrapped.text_view
    act = view.answers(agents[0])[0]
    for answer in (
        f"{act} and say B.",
        f"<answer>{act} and say b</answer>",
        f"Hm.\n{act} and say b",
    ):
        assert view.answers(agents[0])[view.parse(agents[0], answer)] == f"{act} and say b"
    assert isinstance(view.parse(agents[0], f"{act} and say c"), ParseFailure)
    assert f"{act} and say b" in texts[agents[0]] or len(view.answers(agents[0])) > 10
    texts, *_ = env.step(dict.fromkeys(agents, act) | {agents[1]: f"{act} and say b"})
    assert [f"{agents[1]} said b." in texts[agent] for agent in agents[:3]] == (
        [True, False, True][: len(agents)]
    )
    assert all(text.count(" said ") == (a != agents[1]) for a, text in texts.items())
    assert env.render().endswith(f"{agents[1]} said b\n")
    texts, *_ = env.step(dict.fromkeys(agents, act))
    assert not any(" said " in text for text in texts.values())


@every_game
def test_scripted_policies_play_on_in_silence(name):
    def returns(who, **options):
        env = registry.make(name, max_cycles=12, **options)
        seats = dict.fromkeys(env.possible_agents, classic_policy(who, env))
        [episode] = play_many(lambda: env, seats, [5])
        assert episode.failure is None
        return episode.returns()

    for who in names(registry.make(name)):
        if who != "uniform":  # which draws from all actions, with words
            assert returns(who, talk=3, obs_mode="dict") == returns(who)


def test_language_models_talk_and_read():
    backend = ScriptedBackend(lambda request: "cooperate and say a")
    env = registry.make("team_battle_v0", team_size=1, talk=1, max_cycles=2)
    policy = TextPolicy(backend, env.text_view)
    [episode] = play_many(lambda: env, dict.fromkeys(env.possible_agents, policy), [0])
    assert episode.failure is None
    assert {step.decision.action for step in episode.steps_of("red_0")} == {3}
    assert cooperation_rate(episode.steps_of("red_0")) == 1.0
    totals = ModelTotals()
    totals.add(episode, "red_0", episode.returns())
    assert totals.cooperations == totals.choices == 2
    prompts = [ByteTokenizer().decode(request.context) for request in backend.requests]
    assert ["blue_0 said a." in prompt for prompt in prompts[::2]] == [False, True]


def test_vector_environments_have_words():
    games = vector.make("team_battle_v0", 2, talk=2, team_size=1)
    observations, _ = games.reset(seed=0)
    assert not observations[..., 9:].any()
    observations, *_ = games.step(np.array([[5, 2], [0, 0]]))
    assert observations[:, :, 9:].tolist() == [[[1, 0], [0, 1]], [[0, 0], [0, 0]]]
