"""Needed calls: only those whose arguments the agent could know count."""

import pytest

from srl_envs.tasks.tool_use.env import numbers_in, parallel_env
from srl_envs.tasks.tool_use.generators import FILE_NAMES
from tests.srl_envs.tasks.tool_use.test_env import call, needed, play

EVERY = "\n".join(map(str, range(-9, 100)))
NUMBERS = [str(number) for number in range(19)]


def guesses(tool, **arguments):
    """Return turns of eight calls, in which each number replaces the asterisk."""
    calls = [
        call(tool, **{name: text.replace("*", number) for name, text in arguments.items()})
        for number in NUMBERS
    ]
    return ["".join(calls[start : start + 8]) for start in range(0, len(calls), 8)]


@pytest.mark.parametrize(
    ("family", "turns"),
    [
        # Files that the agent wrote, under a new name and under the given names.
        ("read", [call("write_file", path="own", content=EVERY), call("read_file", path="own")]),
        ("follow", [call("write_file", path=name, content="\n".join(FILE_NAMES) + EVERY)
                    + call("read_file", path=name) for name in FILE_NAMES]),
        # Guessed results.
        ("read and calculate", guesses("calculator", expression="99 - 99 + *")),
        ("read and calculate", guesses("calculator", expression="\u2212\u2212*")),
        ("read and calculate", guesses("calculator", expression="\n*")),
        # Numbers that the agent introduced before it calculated with them.
        ("read and calculate", [*(call("write_file", path=n, content=n) for n in NUMBERS),
                                call("list_files"), *guesses("calculator", expression="*")]),
        ("read and calculate", guesses("calculator", expression="*") * 2),
        ("read and calculate", [*guesses("search", query="*"),
                                *guesses("calculator", expression="*")]),
    ],
)  # fmt: skip
def test_invented_numbers_and_files_have_no_reward(family, turns):
    env = parallel_env(families=family, difficulty=1, max_cycles=50, attempt_penalty=0.0)
    for seed in range(3):
        env.reset(seed=seed)
        rewards, _, info = play(env, *turns)
        assert sum(rewards) == 0.0 and info["needed_calls_made"] == 0


def test_results_computed_from_the_question_alone_have_no_reward():
    env = parallel_env(families="read and calculate", difficulty=1, max_cycles=50)
    for seed in range(5):
        env.reset(seed=seed)
        given = min(numbers_in(env.attempt("agent_0").problem.question))
        for one in ("floor(pi)/floor(pi)", f"({given}+floor(pi))/({given}+floor(pi))"):
            tried = [call("calculator", expression="+".join([one] * n)) for n in range(1, 10)]
            tried.append(call("calculator", expression=f"{one}-{one}"))
            assert play(env, "".join(tried[:5]), "".join(tried[5:]))[2]["needed_calls_made"] == 0
        assert play(env, *needed(env))[2]["needed_calls_made"] == 2


def test_results_count_as_known_from_the_next_turn():
    env = parallel_env(families="read and calculate", difficulty=1)
    env.reset(seed=0)
    read, calculate = needed(env)
    assert play(env, read + calculate)[2]["needed_calls_made"] == 1
    env.reset(seed=0)
    assert play(env, read, calculate)[2]["needed_calls_made"] == 2


def test_numbers_in_a_text():
    said = "12,345 people, 007.50 m, .5 and 3.0; f1.txt, x2, 1,2 and 1.2.3"
    assert numbers_in(said) == {"12", "345", "12345", "7.5", "0.5", "3", "1", "2", "1.2"}
