"""Several environments as one: drawing, observations, rules, and compatible environments."""

import numpy as np
import pytest

from srl_envs import make
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import ParseFailure, TextEnv, view_for

SUMS = {"name": "math_v0", "options": {"families": "arithmetic", "difficulty": 1}}
TOOLS = {"name": "tool_use_v0", "options": {"families": "read", "tools": ["files"]}}
TWO = {"sums": SUMS, "tools": TOOLS}


def label_of(env, seed, **options):
    _, infos = env.reset(seed=seed, options=options)
    return infos["agent_0"]["environment"]


def test_episode_equals_that_of_the_single_environment():
    env = make("multitask_v0", environments=TWO)
    for label, told in TWO.items():
        own = make(told["name"], **told["options"])
        seen, infos = env.reset(seed=5, options={"environment": label, "problem_seed": 3})
        theirs, their_infos = own.reset(seed=0, options={"problem_seed": 3})
        assert env.environment == label
        assert seen["agent_0"]["text"] == theirs["agent_0"]["text"]
        assert infos["agent_0"] == {**their_infos["agent_0"], "environment": label}
        answer = own.sample_answers("agent_0", np.random.default_rng(0), 64)[0]
        told, theirs = env.step({"agent_0": answer}), own.step({"agent_0": answer})
        assert told[1:4] == theirs[1:4]
        assert told[4]["agent_0"] == {**theirs[4]["agent_0"], "environment": label}


def test_seed_determines_the_environment():
    env = make("multitask_v0", environments=TWO)
    drawn = [label_of(env, seed) for seed in range(200)]
    assert 0.4 < drawn.count("sums") / 200 < 0.6
    assert drawn[:20] == [label_of(env, seed) for seed in range(20)]
    assert label_of(env, 0, environment="sums") == "sums"


def test_vector_is_padded_and_ends_with_the_one_hot_label():
    env = make("multitask_v0", environments=TWO, obs_mode="vector")
    for place, label in enumerate(TWO):
        seen, _ = env.reset(seed=1, options={"environment": label})
        assert seen["agent_0"] in env.observation_space("agent_0")
        assert seen["agent_0"][-2:].tolist() == [float(place == 0), float(place == 1)]
        assert env.state() in env.state_space and env.state()[-2:].tolist() == [1 - place, place]


def test_rules_and_parsing_are_those_of_the_current_environment():
    env = make("multitask_v0", environments=TWO)
    for label, member in env.environments.items():
        seen, _ = env.reset(seed=0, options={"environment": label})
        view = view_for(env.text_view, seen["agent_0"])
        assert view.rules("agent_0") == member.text_view.rules("agent_0")
        assert env.text_view.rules("agent_0").count(view.rules("agent_0")) == 1
    words = "2 and 2, whatever that is\nis not easy"  # Two lines, which math_v0 cannot read.
    seen, _ = env.reset(seed=0, options={"environment": "sums"})
    assert isinstance(
        view_for(env.text_view, seen["agent_0"]).parse("agent_0", words), ParseFailure
    )

    told = TextEnv(env)
    for label in ("tools", "sums"):
        texts, _ = told.reset(seed=0, options={"environment": label})
        for name, one in env.environments.items():
            assert (one.text_view.rules("agent_0") in texts["agent_0"]) == (name == label)
    _, rewards, _, _, infos = told.step({"agent_0": words})
    assert infos["agent_0"]["parse_failure"] and rewards["agent_0"] == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"environments": {}}, "environments must be label -> "),
        ({"environments": {"a": "math_v0"}}, "environments must be label -> "),
        ({"environments": {"a": {"name": "maths_v0"}}}, "environments.a: there is no environment"),
        (
            {"environments": {"a": {"name": "math_v0", "options": {"obs_mode": "dict"}}}},
            "environments.a.options must not contain obs_mode",
        ),
        ({"environments": {"a": {"name": "multitask_v0"}}}, "must not be multitask_v0"),
        (
            {"environments": {"sums": SUMS, "game": {"name": "coop_compete_pair_v0"}}},
            "environments.sums and environments.game must have the same agents",
        ),
        ({"environments": {"sums": SUMS, "way": {"name": "maze_v0"}}}, "the same actions"),
    ],
)
def test_incompatible_environments_are_refused(parameters, said):
    with pytest.raises(EnvConfigError) as caught:
        make("multitask_v0", **parameters)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_methods_before_the_first_reset_raise():
    env = make("multitask_v0", environments=TWO)
    assert env.agents == []
    for use in (env.state, env.render, lambda: env.step({"agent_0": "4"})):
        with pytest.raises(EnvError, match="reset"):
            use()
    with pytest.raises(EnvConfigError, match="environment"):
        env.reset(options={"environment": "chess"})
