"""Which calls were needed: made on what was given, and not on what one made up."""

import numpy as np
import pytest

from srl_envs.tasks.tool_use.env import ToolSession, numbers_in, parallel_env
from srl_envs.tasks.tool_use.generators import FAMILIES, FILE_NAMES
from srl_envs.tasks.tool_use.parsing import ToolCall
from srl_envs.tasks.tool_use.tools import ToolResult
from tests.srl_envs.tasks.tool_use.test_env import call, needed, play

EVERY = "\n".join(map(str, range(-9, 100)))
NUMBERS = [str(number) for number in range(19)]


def guesses(tool, **arguments):
    """Calls with every number in place of the asterisk, eight in a turn."""
    calls = [
        call(tool, **{name: text.replace("*", number) for name, text in arguments.items()})
        for number in NUMBERS
    ]
    return ["".join(calls[start : start + 8]) for start in range(0, len(calls), 8)]


@pytest.mark.parametrize(
    ("family", "turns"),
    [
        # Files of one's own, under other names and in the place of those that were given.
        ("read", [call("write_file", path="own", content=EVERY), call("read_file", path="own")]),
        ("read", [call("write_file", path=name, content=EVERY) + call("read_file", path=name)
                  for name in FILE_NAMES]),
        ("follow", [call("write_file", path=name, content="\n".join(FILE_NAMES) + EVERY)
                    + call("read_file", path=name) for name in FILE_NAMES]),
        # Results tried out.
        ("read and calculate", guesses("calculator", expression="*")),
        ("read and calculate", guesses("calculator", expression="* + 0")),
        ("read and calculate", guesses("calculator", expression="99 - 99 + *")),
        ("read and calculate", guesses("calculator", expression="\u2212\u2212*")),
        ("read and calculate", guesses("calculator", expression="\n*")),
        ("write", guesses("write_file", path="sum.txt", content="*")),
        # Numbers brought up by oneself first, to calculate with them then.
        ("write", [*(call("write_file", path=n, content=n) for n in NUMBERS), call("list_files"),
                   *guesses("calculator", expression="*")]),
        ("write", [call("write_file", path="own", content=EVERY) + call("read_file", path="own"),
                   *guesses("calculator", expression="*")]),
        ("write", guesses("calculator", expression="*") * 2),
        ("write", [*guesses("search", query="*"), *guesses("calculator", expression="*")]),
    ],
)  # fmt: skip
def test_what_one_made_up_oneself_does_not_pay(family, turns):
    env = parallel_env(families=family, difficulty=1, max_cycles=50, attempt_penalty=0.0)
    for seed in range(5):
        env.reset(seed=seed)
        rewards, _, info = play(env, *turns)
        assert sum(rewards) == 0.0 and info["needed_calls_made"] == 0


def test_a_result_is_not_tried_out_with_numbers_that_no_file_told():
    """Computed from the question's own number, or from none at all."""
    env = parallel_env(families="read and calculate", difficulty=1, max_cycles=50)
    for seed in range(5):
        env.reset(seed=seed)
        given = min(numbers_in(env.attempt("agent_0").problem.question))
        for one in ("floor(pi)/floor(pi)", f"({given}+floor(pi))/({given}+floor(pi))"):
            tried = [call("calculator", expression="+".join([one] * n)) for n in range(1, 10)]
            tried.append(call("calculator", expression=f"{one}-{one}"))
            assert play(env, "".join(tried[:5]), "".join(tried[5:]))[2]["needed_calls_made"] == 0
        assert play(env, *needed(env))[2]["needed_calls_made"] == 2


def test_what_is_called_in_one_turn_was_not_read_in_it():
    """Whoever has not seen a file yet can only guess what to calculate."""
    env = parallel_env(families="read and calculate", difficulty=1)
    env.reset(seed=0)
    read, calculate = needed(env)
    assert play(env, read + calculate)[2]["needed_calls_made"] == 1
    env.reset(seed=0)
    assert play(env, read, calculate)[2]["needed_calls_made"] == 2


def test_a_program_does_not_hold_what_it_finds():
    problem = FAMILIES["count"].draw(np.random.default_rng(0), 2)
    [step] = problem.data["steps"]
    found = ToolResult("python", True, step.evidence)
    for code, held in ((step.call.arguments["code"], False), (f"print({step.evidence})", True)):
        session = ToolSession(None, (step,), problem.question)
        made_up = numbers_in(code) - numbers_in(session.question)
        assert step.met(ToolCall("python", {"code": code}), found, made_up) is not held


def test_numbers_that_a_text_writes():
    said = "12,345 people, 007.50 m, .5 and 3.0; f1.txt, x2, 1,2 and 1.2.3"
    assert numbers_in(said) == {"12", "345", "12345", "7.5", "0.5", "3", "1", "2", "1.2"}
