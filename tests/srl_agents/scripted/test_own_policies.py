"""Policies of the user's own, by the name 'module:Class'."""

import sys

import pytest

from srl_agents.episode import Decision
from srl_agents.errors import PolicyError
from srl_agents.policy import PerAgentPolicy
from srl_agents.scripted.registry import classic_policy, is_scripted
from srl_envs import loading, registry
from srl_envs.errors import UntrustedError
from srl_envs.scenarios import Scenario
from srl_extensions.judging.scenarios import score

A_NUMBER = 3


class Zero(PerAgentPolicy):
    """Policy that plays action 0."""

    def __init__(self, action=0):
        self.action = action

    def decide(self, seen, state):
        return Decision(self.action)


class Last(Zero):
    """Policy that plays the last action."""

    def __init__(self, env):
        super().__init__(env.action_space(env.possible_agents[0]).n - 1)


class Broken(Zero):
    def __init__(self):
        raise ValueError("my bug")


class Waiting:
    def start(self, seed):
        return None

    async def act(self, seen, states):
        return [Decision(0) for _ in seen], list(states)


def make(env):
    return Zero(1)


def number():
    return A_NUMBER


@pytest.fixture
def env():
    return registry.make("coop_compete_pair_v0", max_cycles=2)


@pytest.mark.parametrize(("name", "action"), [("Zero", 0), ("Last", 1), ("make", 1)])
def test_a_class_with_an_env_argument_receives_the_environment(name, action, env):
    assert classic_policy(f"{__name__}:{name}", env).action == action


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:Zero", "No module named 'no_such_module'"),
        (f"{__name__}:One", "has no function or class 'One'"),
        (f"{__name__}:A_NUMBER", "has no function or class 'A_NUMBER'"),
        ("builtins:int", r"must be a policy with start\(seed\) .* it has no start and no act"),
        (f"{__name__}:number", "must be a policy"),
        (f"{__name__}:Waiting", "it has no leave"),
        ("zero", "no scripted policy 'zero'"),
    ],
)
def test_a_class_that_is_no_policy_is_rejected(name, said, env):
    with pytest.raises(PolicyError, match=said):
        classic_policy(name, env)


def test_a_scenario_may_name_a_users_policy():
    half = Scenario(
        "mine", "coop_compete_pair_v0", "", ("agent_0",), {"agent_1": f"{__name__}:Last"},
        {"max_cycles": 2, "noise_std": 0.0},
    )  # fmt: skip
    agreed = score(half, Zero(1), episodes=1)
    assert agreed.focal_return == agreed.background_return
    assert agreed.focal_return > score(half, Zero(0), episodes=1).focal_return


@pytest.fixture
def others(tmp_path, monkeypatch):
    (tmp_path / "bot_of_others.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "bot_of_others:Bot"
    assert "bot_of_others" not in sys.modules


def test_a_record_cannot_import_a_policy(others, env):
    with loading.closed(), pytest.raises(UntrustedError, match="is code that a record names"):
        classic_policy(others, env)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tit_for_tat", True),
        ("mybot:Half", True),
        ("my.bots:Half", True),
        ("tit_for_tit", False),
        ("run:model_0", False),
        ("runs/a:model_0", False),
        ("openai:o3", False),
        ("org/model", False),
    ],
)
def test_is_scripted_imports_nothing(name, expected):
    assert is_scripted(name) == expected
