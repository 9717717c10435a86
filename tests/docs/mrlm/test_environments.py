"""Environments in messages: of one's own, as games, with models, and side by side."""

import itertools

import numpy as np
import pytest
import torch

from mrlm.algorithms.grpo import GRPOTrainer
from mrlm.config import ExperimentConfig
from mrlm.core import Message, Observation, Reward, SimulatedEnvironment
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


def test_an_environment_of_ones_own_keeps_the_contract():
    check_environment(lambda: as_parallel_env(Lengths()))


def test_a_game_is_the_environment_turn_by_turn():
    game = as_parallel_env(Lengths())
    seen, _ = game.reset(seed=7)
    again, _ = as_parallel_env(Lengths()).reset(seed=7)
    assert seen["agent_0"]["text"] == again["agent_0"]["text"]
    assert seen["agent_0"]["text"].startswith("Write.\n\nSay ")
    seen, rewards, ended, _, infos = game.step({"agent_0": "four"})
    assert seen["agent_0"]["text"] == "And again."  # what is new, not the answer itself
    assert rewards["agent_0"] == pytest.approx(0.4) and not ended["agent_0"]
    assert infos["agent_0"]["length"] == 4.0
    *_, cut, _ = game.step({"agent_0": "x"})
    assert cut["agent_0"] and not game.agents  # max_turns


class Wrong(Lengths):
    def __init__(self, told):
        super().__init__()
        self.told = told

    def step(self, action):
        return self.told


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (None, "must return \\(Observation, Reward\\)"),
        ((Observation([]), 1.0), "must return a Reward"),
        (("text", Reward(1.0)), "must return an Observation"),
    ],
    ids=["nothing", "number", "text"],
)
def test_what_is_no_step_is_refused(told, message):
    game = WrittenGame(Wrong(told))
    game.reset(seed=0)
    with pytest.raises(EnvError, match=message):
        game.step({"agent_0": "x"})


def test_roles_are_checked():
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


def test_the_model_talks_and_freezes(policy):
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
    def moved(device):
        raise RuntimeError(f"moved to {device}")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(policy.model, "to", moved)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(RuntimeError, match="moved to cuda:1"):
        GRPOTrainer(policy, [Lengths()]).train(1)


def test_an_environment_may_offer_the_embedded_model_answers():
    class Offering(Lengths):
        def sample_answers(self, rng, count):
            return ["4", "five", "4"][:count]

    rng = np.random.default_rng(0)
    assert as_parallel_env(Lengths()).sample_answers("agent_0", rng, 2) is None
    assert as_parallel_env(Offering()).sample_answers("agent_0", rng, 3) == ("4", "five")


def test_a_model_may_be_the_opponent(policy):
    with DebateEnvironment(max_turns=1, opponent_model=policy) as debate:
        debate.seed(0)
        debate.reset()
        told, _ = debate.step(say("I say so because it is so."))
        assert told.done and policy.conversation == []


def test_tools_of_ones_own():
    def double(number: int) -> int:
        return 2 * number

    schema = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    }
    tools = ToolCollection([Tool("double", "Twice a number.", schema, double)])
    assert tools.by_name()["double"].function(number=3) == 6
    problems = [asked("What is 21 doubled?", "42", required_tools=["double"])]
    with ToolUseEnvironment(tools, problems=problems) as env:
        assert "doubled?" in env.reset().messages[-1].content
        call = '<tool_call>{"name": "double", "arguments": {"number": 21}}</tool_call>'
        told, earned = env.step(say(call))
        assert "42" in told.messages[-1].content and earned.value > 0
        told, reward = env.step(say("Answer: 42"))
        assert told.done and reward.components == {"score": 1.0}


class Restless(Lengths):
    asked = itertools.count()

    def reset(self) -> Observation:
        return Observation([Message("user", f"Say {next(self.asked)}.")])


def test_groups_need_one_start(policy):
    assert issubclass(Restless, SimulatedEnvironment)
    with pytest.raises(TrainingError, match=r"Restless.*self\.rng"):
        GRPOTrainer(policy, [Restless()], ExperimentConfig()).train(1)
