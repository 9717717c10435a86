"""Parsers of untrusted text: time in proportion to the length, and any depth of nesting.

Linear parsers need a thousandth of the allowed second of CPU time, quadratic ones several seconds.
"""

import subprocess
import sys

import pytest

from srl_envs.registry import make
from srl_envs.tasks import grading
from srl_envs.untrusted import MAX_NESTING

READERS = """
import itertools, signal, sys
from srl_agents.llm import judge
from srl_envs.games import cheap_talk
from srl_envs.registry import make
from srl_envs.tasks import debate
from srl_envs.tasks import expressions, grading
from srl_envs.tasks import programming
from srl_envs.tasks.tool_use import builtin_tools, calculator, env as tool_use, tools
from srl_envs.tasks.tool_use.tools import ToolError
from srl_envs import text

def computed(said):
    try:
        calculator.evaluate(said[: calculator.LONGEST - 1] + said[-1:])
    except ToolError:
        pass

def compared(said):
    grading.same_answer("42", said[: grading.LONGEST - 1] + said[-1:], {"a", "cm"})
    grading.same_answer(said[: grading.LONGEST - 1] + said[-1:], "42")

def sampled(said):
    tool_use._SAMPLE_NUMBER.findall(said), tool_use._SAMPLE_NAME.findall(said)
    list(task._possible_calls(said))

task = make("tool_use_v0").task
trading, bargaining = make("social_trading_v0"), make("social_negotiation_v0")
readers = (
    grading.words_of, cheap_talk.message_in, compared, computed, expressions.plain, sampled,
    grading.boxed, grading.final_answer, tools.read_turn, debate.words_of, builtin_tools._words,
    lambda said: programming.Programming.read(None, said),
    lambda said: judge.parse_verdict(said, "pro"),
    lambda said: debate.content_words(said) or debate._END.split(said),
    lambda said: text.parse_choice(said, ("compete", "cooperate")),
    lambda said: grading.same_value("42", said, {"a", "cm"}),
    lambda said: trading.text_view.parse("agent_0", said),
    lambda said: bargaining.text_view.parse("agent_0", said),
)
starts = "", "1", "<tool_call>"
units = (
    "a", "1a", "a.", "cm ", "a^2", " ", "\\n", "1,", "1,111,", "(", "{", "a.txt", "A", "x ", "`",
    "```python\\n", "<answer>a</answer>", "answer:", "or ", "\\\\boxed{", "\\\\text{", "\\\\frac 1",
    "x = 1, ", "{\\"a\\":", "offer 1 ", ". ", "verdict: ", "<tool_call>", "</think>",
)
ends = itertools.cycle(("", "!"))
for (reader, start, unit), end in zip(itertools.product(readers, starts, units), ends):
    said = (start + unit * (16_384 // len(unit)))[: 16_384 - len(end)] + end
    signal.setitimer(signal.ITIMER_VIRTUAL, 1)  # The signal ends the process.
    sys.stdout.write(f"{reader} {start!r} {unit!r} {end!r}\\n")
    reader(said)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
sys.stdout.write("all read")
"""


def test_reading_takes_time_in_proportion_to_the_length():
    run = subprocess.run([sys.executable, "-c", READERS], capture_output=True, text=True)
    assert run.stdout.endswith("all read"), run.stdout[-200:] + run.stderr[-2000:]


def nested(opening, closing, depth, core="1"):
    return opening * depth + core + closing * depth


NESTED = [
    nested(opening, closing, depth)
    for depth in (MAX_NESTING + 1, 490)
    for opening, closing in (("{", "}"), ("(", ")"), ("[", "]"), ("(1,", ")"), ("{1,", "}"))
]


@pytest.mark.parametrize("said", NESTED, ids=lambda said: said[:4] + str(len(said)))
def test_deeply_nested_answers_are_wrong(said):
    assert not grading.same_answer("42", said) and not grading.same_answer(said, "42")
    env = make("math_v0")
    env.reset(seed=1)
    _, _, _, _, infos = env.step({"agent_0": f"Answer: {said}"})
    assert infos["agent_0"]["correct"] is False


@pytest.mark.parametrize("inner", ["%s", '"%s"'])
@pytest.mark.parametrize("form", ["<tool_call>%s</tool_call>", "[%s]"])
def test_deeply_nested_calls_are_unreadable(form, inner):
    """Calls are unreadable at any depth, also where only one of two parsers fails."""
    env = make("tool_use_v0", max_cycles=1000)
    env.reset(seed=1)
    for depth in (MAX_NESTING, *range(600, 1000, 7)):
        arguments = '{"expression": ' + inner.replace("%s", nested("[", "]", depth)) + "}"
        call = '{"name": "calculator", "arguments": ' + arguments + "}"
        _, _, _, _, infos = env.step({"agent_0": form.replace("%s", call)})
        # A string argument may contain any number of brackets; it is no expression.
        assert infos["agent_0"]["unreadable"] or inner == '"%s"'
