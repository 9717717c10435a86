"""Environments of messages: own ones, as games, with models, and several as one."""

from contextlib import closing

import pytest

from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.core import Message
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from mrlm.environments.tools import Tool, ToolCollection, ToolUseEnvironment
from mrlm.games import WrittenGame, named_environment
from srl_envs import registry
from srl_envs.env_checker import check_environment
from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.generators import asked
from tests.docs.mrlm.lengths import Lengths


def say(text):
    return Message("assistant", text)


def test_own_environments_are_parallel_environments():
    check_environment(lambda: WrittenGame(Lengths()))
    game = WrittenGame(Lengths())
    seen, _ = game.reset(seed=7)
    again, _ = WrittenGame(Lengths()).reset(seed=7)
    assert seen["agent_0"]["text"] == again["agent_0"]["text"]
    assert seen["agent_0"]["text"].startswith("Write.\n\nSay ")
    seen, rewards, ended, _, infos = game.step({"agent_0": "four"})
    assert seen["agent_0"]["text"] == "And again."  # New messages without the answer.
    assert rewards["agent_0"] == pytest.approx(0.4) and not ended["agent_0"]
    assert infos["agent_0"]["length"] == 4.0
    *_, cut, _ = game.step({"agent_0": "x"})
    assert cut["agent_0"] and not game.agents  # After max_turns.


def test_several_environments_are_drawn_by_chance():
    generator = MathProblemGenerator(difficulty_range=(1, 1))
    problems = [MathReasoningEnvironment(generator), MathReasoningEnvironment(generator)]
    options = {"difficulty": (1, 1)}
    assert named_environment(problems) == ("math_v0", options)  # Equal ones are one member.
    name, options = named_environment([*problems, Lengths(), Lengths(5)])
    game = registry.make(name, **options)
    assert sorted(game.environments) == ["Lengths", "Lengths_2", "math"]
    drawn = [game.reset(seed=seed)[1]["agent_0"]["environment"] for seed in range(60)]
    assert {*drawn} == {*game.environments}


def test_a_model_answers_and_is_frozen_in_client_mode(policy):
    asked = Message("user", "cooperate or compete?")
    told, reward = policy.step(asked)
    assert [str(one.role) for one in told.messages] == ["user", "assistant"]
    assert reward.value == 0.0
    policy.set_mode("client")
    assert not any(one.requires_grad for one in policy.model.parameters())
    with pytest.raises(EnvConfigError, match=r"policy_env.*client mode"):
        GRPOTrainer(policy, [Lengths()])


def test_own_tools():
    def double(number: int) -> int:
        """Double a number.

        Args:
            number: A number.
        """
        return 2 * number

    tools = ToolCollection([Tool.of(double)])
    problems = [asked("What is 21 doubled?", "42", required_tools=["double"])]
    with closing(ToolUseEnvironment(tools, problems=problems)) as env:
        assert "doubled?" in env.reset().messages[-1].content
        call = '<tool_call>{"name": "double", "arguments": {"number": 21}}</tool_call>'
        told, earned = env.step(say(call))
        assert "42" in told.messages[-1].content and earned.value > 0
        told, reward = env.step(say("Answer: 42"))
        assert told.done and reward.components == {"score": 1.0}
