"""Environments of messages: own ones, as games, with models, and several as one."""

import itertools

import numpy as np
import pytest
import torch

from mrlm.algorithms import trainer
from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.algorithms.ppo import PPOTrainer
from mrlm.core import Message, Observation, Reward
from mrlm.environments.code import CodeExecutionEnvironment
from mrlm.environments.debate import DebateEnvironment
from mrlm.environments.math import MathProblemGenerator, MathReasoningEnvironment
from mrlm.environments.task import registered_name
from mrlm.environments.tools import Tool, ToolCollection, ToolUseEnvironment
from mrlm.games import WrittenGame, as_parallel_env, named_environment
from srl_envs import registry
from srl_envs.env_checker import check_environment
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.tasks.tool_use.generators import asked
from srl_train.errors import TrainingError
from tests.docs.mrlm.lengths import Lengths


def say(text):
    return Message("assistant", text)


def test_own_environments_are_parallel_environments():
    check_environment(lambda: as_parallel_env(Lengths()))
    game = as_parallel_env(Lengths())
    seen, _ = game.reset(seed=7)
    again, _ = as_parallel_env(Lengths()).reset(seed=7)
    assert seen["agent_0"]["text"] == again["agent_0"]["text"]
    assert seen["agent_0"]["text"].startswith("Write.\n\nSay ")
    seen, rewards, ended, _, infos = game.step({"agent_0": "four"})
    assert seen["agent_0"]["text"] == "And again."  # New messages without the answer.
    assert rewards["agent_0"] == pytest.approx(0.4) and not ended["agent_0"]
    assert infos["agent_0"]["length"] == 4.0
    *_, cut, _ = game.step({"agent_0": "x"})
    assert cut["agent_0"] and not game.agents  # After max_turns.


@pytest.mark.parametrize("result", [None, (Observation([]), 1.0), ("text", Reward(1.0))])
def test_steps_with_wrong_results_are_refused(result):
    environment = Lengths()
    environment.step = lambda action: result
    game = WrittenGame(environment)
    game.reset(seed=0)
    with pytest.raises(EnvError, match="must return"):
        game.step({"agent_0": "x"})


def test_messages_are_checked():
    with pytest.raises(EnvConfigError, match="system, user, assistant, environment"):
        Message("wizard", "x")
    with pytest.raises(EnvConfigError, match="content"):
        Message("user", None)


def test_several_environments_are_drawn_by_chance():
    generator = MathProblemGenerator(difficulty_range=(1, 1))
    problems = [MathReasoningEnvironment(generator), MathReasoningEnvironment(generator)]
    options = {"max_cycles": 3, "difficulty": (1, 1)}
    assert named_environment(problems, 512) == ("math_v0", options)  # Equal ones are one member.
    name, options = named_environment([*problems, Lengths(), Lengths(5)], max_steps=1)
    game = registry.make(name, **options)
    assert sorted(game.environments) == ["Lengths", "Lengths_2", "math"]
    assert game.max_cycles == 1
    drawn = [game.reset(seed=seed)[1]["agent_0"]["environment"] for seed in range(60)]
    assert drawn.count("math") > drawn.count("Lengths") > 0


def test_wrong_environments_are_refused():
    with pytest.raises(EnvConfigError, match="got none"):
        named_environment([])
    with pytest.raises(EnvConfigError, match="got 'math'"):
        named_environment(["math"])
    with pytest.raises(EnvConfigError, match="did you mean 'math'"):
        registered_name("maths")
    with pytest.raises(EnvConfigError, match="gsm8k"):
        MathReasoningEnvironment(path="gsm8k").reset()
    with pytest.raises(EnvError):
        CodeExecutionEnvironment().step(say("x"))


def test_a_model_answers_and_is_frozen_in_client_mode(policy):
    asked = Message("user", "cooperate or compete?")
    told, reward = policy.step(asked)
    assert [str(one.role) for one in told.messages] == ["user", "assistant"]
    assert reward.value == 0.0
    policy.reward_fn = lambda messages: float(len(messages))
    assert policy.step(asked)[1].value == 4.0
    assert policy.reply([asked], seed=5) == policy.reply([asked], seed=5)
    policy.set_mode("client")
    assert not any(one.requires_grad for one in policy.model.parameters())
    with pytest.raises(EnvConfigError, match=r"policy_env.*client mode"):
        GRPOTrainer(policy, [Lengths()])


def test_trainers_move_a_policy_to_the_accelerator(policy, monkeypatch):
    moved = []
    monkeypatch.setattr(trainer, "_train", lambda *args, **kwargs: (None, None))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(policy.model, "to", moved.append)
    monkeypatch.setenv("LOCAL_RANK", "1")
    PPOTrainer(policy, [Lengths()]).train()
    policy.device = "cpu"  # The user's choice is kept.
    PPOTrainer(policy, [Lengths()]).train()
    assert moved == ["cuda:1"]


def test_sample_answers_have_no_duplicates():
    class Offering(Lengths):
        def sample_answers(self, rng, count):
            return ["4", "five", "4"][:count]

    rng = np.random.default_rng(0)
    assert as_parallel_env(Lengths()).sample_answers("agent_0", rng, 2) is None
    assert as_parallel_env(Offering()).sample_answers("agent_0", rng, 3) == ("4", "five")


def test_a_model_is_the_opponent_in_a_debate(policy):
    with DebateEnvironment(max_turns=1, opponent_model=policy) as debate:
        debate.seed(0)
        debate.reset()
        told, _ = debate.step(say("I say so because it is so."))
        assert told.done and policy.conversation == []


def test_own_tools():
    def double(number: int) -> int:
        """Double a number.

        Args:
            number: A number.
        """
        return 2 * number

    tools = ToolCollection([Tool.of(double)])
    assert tools.by_name()["double"].function(number=3) == 6
    problems = [asked("What is 21 doubled?", "42", required_tools=["double"])]
    with ToolUseEnvironment(tools, problems=problems) as env:
        assert "doubled?" in env.reset().messages[-1].content
        call = '<tool_call>{"name": "double", "arguments": {"number": 21}}</tool_call>'
        told, earned = env.step(say(call))
        assert "42" in told.messages[-1].content and earned.value > 0
        told, reward = env.step(say("Answer: 42"))
        assert told.done and reward.components == {"score": 1.0}


def test_grpo_refuses_environments_that_ignore_their_seed(policy):
    class Unseeded(Lengths):
        count = itertools.count()

        def reset(self) -> Observation:
            return Observation([Message("user", f"Say {next(self.count)}.")])

    with pytest.raises(TrainingError, match=r"Unseeded.*self\.rng"):
        GRPOTrainer(policy, [Unseeded()]).train(1)
