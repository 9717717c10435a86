"""Actions in free text: rollouts, records and the embedded model."""

from functools import partial

import pytest

from srl_agents.episode import from_json, to_json
from srl_agents.errors import PolicyError
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.llm.tiny import FREE_GAMES, random_dialogues
from srl_agents.rollout import play_many
from srl_envs import make
from srl_envs.tasks.base import Grade, Problem, Task, TaskEnv
from srl_envs.text import ParseFailure
from tests.fakes import ScriptedBackend

make_math = partial(make, "math_v0", families="arithmetic", difficulty=1)


def played(answers, **parameters):
    env = make_math(**parameters)
    backend = ScriptedBackend(answers)
    policy = TextPolicy(backend, env.text_view)
    [episode] = play_many(lambda: env, {"agent_0": policy}, [0])
    return episode, backend, env


def test_free_text_is_the_action_and_recorded():
    seen, _ = make_math().reset(seed=0)
    one, sign, two, *_ = seen["agent_0"]["text"].split()
    truth = int(one) + int(two) if sign == "+" else int(one) - int(two)
    answers = ["no\nidea", "Answer: 99", f"Let me see.\nAnswer: {truth}"]
    episode, backend, _ = played(answers)
    steps = episode.steps_of("agent_0")
    assert [step.decision.action for step in steps] == ["", *answers[1:]]
    assert [step.decision.parse_failure is None for step in steps] == [False, True, True]
    assert [step.reward for step in steps] == pytest.approx([0, -0.05, 0.95])
    assert to_json(from_json(to_json(episode))) == to_json(episode)
    question = seen["agent_0"]["text"]
    # The question is repeated every step, the reason is not.
    assert backend.heard(2).count(question) == 3
    assert backend.heard(2).count("Your last answer was not read: no line says") == 1
    assert "was played" not in backend.heard(2)


def test_constrained_sampling_is_rejected():
    env = make_math()
    policy = TextPolicy(ScriptedBackend(["x"]), env.text_view, constrained=True)
    with pytest.raises(PolicyError, match="constrained must be False"):
        play_many(lambda: env, {"agent_0": policy}, [0])


def test_the_warm_start_teaches_the_answer_format():
    dialogues = random_dialogues(make_math, games=2, turns=16, seed=0)
    assert len(dialogues) == 2 * FREE_GAMES
    view, env = make_math().text_view, make_math()
    taught = [line for dialogue in dialogues for line in dialogue.lines if line.readable]
    assert len({line.words for line in taught}) > FREE_GAMES
    for line in taught:
        assert line.answer in line.legal
        assert not isinstance(view.parse("agent_0", line.answer), ParseFailure)
        assert env.task.read(line.answer).isdigit() or env.task.read(line.answer)[0] == "-"
    assert dialogues == random_dialogues(make_math, games=2, turns=16, seed=0)


class Silent(Task):
    name = "silent_v0"

    def rules(self):
        return "Say it."

    def draw(self, rng, difficulty):
        return Problem(str(rng.integers(100)))

    def grade(self, problem, answer):
        return Grade.wrong()


def test_a_task_without_sample_answers_is_rejected():
    with pytest.raises(PolicyError, match=r"silent_v0 .* must define sample_answers"):
        random_dialogues(lambda: TaskEnv(Silent()), games=1, turns=2, seed=0)
