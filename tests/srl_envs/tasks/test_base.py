"""A task as an environment: turns, rewards, splits, parsing and observations."""

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils import OrderEnforcingWrapper, parallel_to_aec

from srl_envs.env_checker import check_environment
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.tasks.base import Grade, Problem, Task, TaskEnv
from srl_envs.tasks.grading import final_answer
from srl_envs.text import ANSWER_LENGTH, ParseFailure
from srl_envs.wrappers import SingleAgentEnv


class Reverse(Task):
    """Task to write a word backwards, with a partial score for matching letters."""

    name = "reverse_v0"

    def rules(self):
        return "You are given a word. Write it backwards."

    def draw(self, rng, difficulty):
        word = "".join(rng.choice(list("abcdefg"), size=2 + difficulty))
        return Problem(word, word[::-1], difficulty, info={"length": len(word)})

    def grade(self, problem, answer):
        if answer == problem.answer:
            return Grade.right()
        same = sum(a == b for a, b in zip(answer, problem.answer, strict=False))
        return Grade.wrong("That is not it.", score=same / len(problem.answer) / 2)


def reverse(**parameters):
    return TaskEnv(Reverse(), **parameters)


@pytest.mark.parametrize("mode", ["llm", "vector"])
@pytest.mark.filterwarnings("ignore:Observation:UserWarning", "ignore:Action space:UserWarning")
def test_follows_the_pettingzoo_and_gymnasium_apis(mode, capsys):
    def make():
        return reverse(num_agents=2, obs_mode=mode)

    check_environment(make)
    parallel_api_test(make(), num_cycles=10)
    parallel_seed_test(make, num_cycles=10)
    api_test(OrderEnforcingWrapper(parallel_to_aec(make())), num_cycles=10)
    check_env(SingleAgentEnv(reverse(obs_mode=mode)), skip_render_check=True)
    made = gymnasium.make("srl_envs:srl/Math-v0", obs_mode=mode)
    check_env(made.unwrapped, skip_render_check=True)


def play(env, answers, agent="agent_0", seed=0):
    env.reset(seed=seed)
    return [env.step({agent: answer}) for answer in answers]


def test_reward_is_the_increase_of_the_best_score():
    env = reverse(difficulty=2, max_cycles=5)
    env.reset(seed=0)
    truth = env.attempt("agent_0").problem.answer
    half = truth[:2] + "??"
    rewards = [env.step({"agent_0": text})[1]["agent_0"] for text in (half, half, "????", truth)]
    assert rewards == pytest.approx([0.25, -0.05, -0.05, 0.75 - 0.05])
    assert not env.agents and sum(rewards) == pytest.approx(1 - 3 * 0.05)


def test_episode_ends_when_solved_or_after_all_attempts():
    env = reverse()
    env.reset(seed=1)
    truth = env.attempt("agent_0").problem.answer
    _, rewards, over, late, infos = env.step({"agent_0": f"Well.\nAnswer: {truth}"})
    assert rewards == {"agent_0": 1.0} and over == {"agent_0": True} and not late["agent_0"]
    assert infos["agent_0"]["success"] and infos["agent_0"]["length"] == len(truth)
    *_, (_, _, over, late, infos) = play(env, ["x", "y", "z"])
    assert over["agent_0"] and not late["agent_0"] and not infos["agent_0"]["success"]
    with pytest.raises(EnvError, match="reset"):
        env.step({"agent_0": "x"})


def test_observations_contain_the_question_and_never_the_answer():
    env = reverse(max_cycles=4, difficulty=5)
    seen, _ = env.reset(seed=2)
    problem = env.attempt("agent_0").problem
    for text in ("x", "", "a\nb", "<answer></answer>"):
        assert seen["agent_0"]["text"].startswith(problem.question)
        assert problem.answer not in seen["agent_0"]["text"]
        seen, _, _, _, infos = env.step({"agent_0": text})
        assert problem.answer not in str(infos)
    assert problem.answer not in seen["agent_0"]["text"]
    env.reset(seed=2)
    seen, rewards, _, _, infos = env.step({"agent_0": "two\nlines"})
    assert rewards["agent_0"] == 0 and "no line says" in infos["agent_0"]["unreadable"]
    assert "Attempt 2 of 4. Not read: no line says" in seen["agent_0"]["text"]


def test_problem_seed_determines_the_problem():
    env = reverse()
    env.reset(seed=0, options={"problem_seed": 11})
    question = env.attempt("agent_0").problem.question
    env.reset(seed=99, options={"problem_seed": 11})
    assert env.attempt("agent_0").problem.question == question == env.problem(11).question
    fixed = reverse(problem_seed=11)
    fixed.reset(seed=5)
    assert fixed.attempt("agent_0").problem.question == question


def test_no_problem_is_in_both_splits():
    train, test = (
        {reverse(split=s).problem(k).question for k in range(100)} for s in ("train", "test")
    )
    assert train and test and not train & test
    both = {reverse(split="any").problem(k).question for k in range(100)}
    assert both & train and both & test


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("42", "42"), ("so\n**Answer:** 42", "42"), ("x\nFinal answer: 42", "42"),
        ("Answer: 41\nno\nanswer: 42", "42"), ("<answer> 42 </answer>", "42"),
        (r"\boxed{42}", "42"),
        ("<answer>41</answer> <ANSWER>42</ANSWER>\nAnswer: 7", "42"), ("Answer: $42$", "$42$"),
        (r"so \boxed{\frac{1}{2}} it is" + "\nyes", r"\frac{1}{2}"), (r"Answer: \boxed{42}", "42"),
        ("Answer: `42`", "42"), ("> Answer: 42", "42"), (r"\boxed{1}\n\boxed{42}", "42"),
        ("<answer>4\n2</answer>", "4\n2"), (r"\fbox{42} " + "\nx", "42"),
    ],
)  # fmt: skip
def test_final_answer_is_extracted(text, answer):
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    "text", ["", " \n", "a\nb", "Answer:", "<answer></answer>", "x" * (ANSWER_LENGTH + 1), None, 3,
             "The answer is 42\nsurely", "\\boxed{4\n2"]
)  # fmt: skip
def test_missing_final_answer_has_a_reason(text):
    assert isinstance(final_answer(text), ParseFailure)


def test_agents_terminate_independently():
    env = reverse(num_agents=3)
    env.reset(seed=3)
    truths = {agent: env.attempt(agent).problem.answer for agent in env.agents}
    assert len(set(truths.values())) == 3
    _, rewards, over, _, _ = env.step({**truths, "agent_1": "?"})
    assert rewards == {"agent_0": 1, "agent_1": 0, "agent_2": 1}
    assert env.agents == ["agent_1"] and over["agent_0"] and not over["agent_1"]
    env.step({"agent_1": truths["agent_1"]})
    assert env.agents == [] and env.state().shape == (12,)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"difficulty": 6}, "difficulty must be a whole number from 1 to 5, got 6"),
        ({"difficulty": (3, 2)}, "difficulty must be a whole number from 3 to 5, got 2"),
        ({"split": "dev"}, "split must be one of"),
        ({"problem_seed": -1}, "problem_seed must be"),
    ],
)
def test_wrong_arguments(wrong, said):
    with pytest.raises(EnvConfigError, match=said):
        reverse(**wrong)


def test_wrong_actions_change_nothing():
    env = reverse(num_agents=2)
    with pytest.raises(EnvError, match="reset"):
        env.step({})
    env.reset(seed=0)
    for actions, said in (
        ({"agent_0": "x"}, "no action for agent_1"),
        ({"agent_0": "x", "agent_1": 3}, "must be a text"),
        ({"agent_0": "x", "agent_1": "y" * (ANSWER_LENGTH + 1)}, "must be a text"),
        ({"agent_0": "x", "agent_1": "y", "agent_2": "z"}, "not among"),
        ("x", "mapping"),
    ):
        with pytest.raises(EnvError, match=said):
            env.step(actions)
    assert env.played == 0 and env.agents == ["agent_0", "agent_1"]


def test_a_refused_reset_leaves_the_attempt_unchanged(monkeypatch):
    class Holding(Reverse):
        def begin(self, problem):
            return problem

    env = TaskEnv(Holding())
    env.reset(seed=1)
    attempt = env.attempt("agent_0")
    env.split = "none"  # No problem is in this split.
    monkeypatch.setattr("srl_envs.tasks.base.DRAWS", 5)
    with pytest.raises(EnvConfigError, match="has no problem"):
        env.reset(options={"problem_seed": 3})
    assert env.attempt("agent_0") is attempt and attempt.memory is attempt.problem
    _, _, _, _, infos = env.step({"agent_0": attempt.problem.answer})
    assert infos["agent_0"]["success"] and infos["agent_0"]["problem_seed"] != 3
