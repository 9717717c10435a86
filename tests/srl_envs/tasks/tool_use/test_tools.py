"""Tools: schemas of functions, parsing and validation of calls, and errors as text."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.tools import (
    CALLS_A_TURN,
    RESULT_LENGTH,
    Tool,
    ToolCall,
    ToolError,
    ToolRegistry,
    read_turn,
)
from srl_envs.text import ParseFailure
from tests.srl_envs.tasks.grading.hostile_answers import hostile_answers


def repeat(text: str, times: int = 2, mark: Literal["-", "+"] = "-") -> str:
    """Say a text several times.

    Args:
        text: What is said.
        times: How
            often.
        mark: What stands between.

    Returns:
        The text.
    """
    if times > 1000:
        raise ToolError("that is too often")
    return mark.join([text] * times)


@pytest.fixture(scope="module")
def registry():
    return ToolRegistry([Tool.of(repeat)])


def test_schema_of_a_function():
    assert Tool.of(repeat).schema()["function"] == {
        "name": "repeat",
        "description": "Say a text several times.",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "What is said."},
                "times": {"type": "integer", "description": "How often."},
                "mark": {
                    "enum": ["-", "+"],
                    "type": "string",
                    "description": "What stands between.",
                },
            },
            "required": ["text"],
        },
    }


def unhinted(x):
    """Do something.

    Args:
        x: Anything.
    """


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Tool.of(lambda: 1), "a docstring"),
        (lambda: Tool.of(unhinted), "type hint"),
        (lambda: ToolRegistry([Tool.of(repeat), Tool.of(repeat)]), "different names, got 'repeat'"),
        (
            lambda: ToolRegistry([Tool("x", "x", {"type": "nothing"}, repeat)]),
            "a JSON schema",
        ),
    ],
)
def test_invalid_tools_are_refused(make, said):
    with pytest.raises(EnvConfigError, match=said):
        make()


@pytest.mark.parametrize(
    ("call", "ok", "content"),
    [
        (ToolCall("repeat", {"text": "a"}), True, "a-a"),
        (ToolCall("repeat", {"text": "a", "times": 3, "mark": "+"}), True, "a+a+a"),
        (ToolCall("repeat", {}), False, "'text' is a required property"),
        (ToolCall("repeat", {"text": 3}), False, "text: 3 is not of type 'string'"),
        (ToolCall("repeat", {"text": "a", "times": "3"}), False,
         "times: '3' is not of type 'integer'"),
        (ToolCall("repeat", {"text": "a", "mark": "*"}), False,
         "mark: '*' is not one of ['-', '+']"),
        (ToolCall("repeat", {"text": "a", "loud": True}), False,
         "repeat has no argument 'loud'; text, times, mark"),
        (ToolCall("repeat", {"text": "a", "times": 1001}), False, "that is too often"),
        (ToolCall("repaet", {}), False,
         "there is no tool 'repaet' (did you mean 'repeat'?); repeat"),
    ],
)  # fmt: skip
def test_calls_are_validated(registry, call, ok, content):
    result = registry.call(call)
    assert (result.ok, result.content) == (ok, content)


def weather(town: str) -> Any:
    """Tell the weather.

    Args:
        town: The town.
    """
    if town == "Moria":
        raise SystemExit(2)
    return {"Tarn": object()}[town]


@pytest.mark.parametrize(
    ("town", "error", "said"),
    [
        ("Bree", KeyError, "KeyError: 'Bree'"),
        ("Tarn", TypeError, "TypeError: Object of type object is not JSON serializable"),
        ("Moria", SystemExit, "SystemExit: 2"),
    ],
)
def test_an_exception_of_a_tool_is_text_for_the_model(caplog, town, error, said):
    registry = ToolRegistry([Tool.of(weather, error.__name__)])
    for _ in range(2):
        result = registry.call(ToolCall(error.__name__, {"town": town}))
        assert (result.ok, result.content) == (False, said)
    [record] = caplog.records  # The exception is logged once, with its traceback.
    assert record.exc_info[0] is error


CALL = {"name": "f", "arguments": {"x": 1}}
AS_TEXT = {"name": "f", "arguments": '{"x": 1}'}


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{json.dumps(CALL)}</tool_call>",
        f"Let me see.\n<tool_call>\n{json.dumps(CALL)}\n</tool_call>\nAnswer: 3",
        f"<tool_call>{json.dumps(AS_TEXT)}</tool_call>",
        json.dumps(CALL),
        json.dumps([CALL]),
        json.dumps({"name": "f", "parameters": {"x": 1}}),
        json.dumps({"name": "f", "arguments": '{"x": 1}'}),
        f"<think>Is <tool_call> right?</think>\n<tool_call>{json.dumps(CALL)}</tool_call>",
        f"Or Answer: 3?</think>{json.dumps(CALL)}",
    ],
)
def test_the_forms_of_a_call(text):
    assert read_turn(text) == (ToolCall("f", {"x": 1}),)


def test_a_call_without_arguments():
    assert read_turn('{"name": "f", "arguments": ""}') == (ToolCall("f", {}),)


def test_arguments_may_contain_tags():
    one = ToolCall("f", {"x": "<tool_call>{}</tool_call></think>"})
    assert read_turn(f"{one.written()}\n{one.written()}") == (one, one)
    assert read_turn(json.dumps({"name": "f", "arguments": one.arguments})) == (one,)


def test_answers_and_several_calls():
    assert read_turn("So it is.\nAnswer: 42") == "42"
    assert read_turn("<think>Answer: 41</think>Answer: 42") == "42"

    text = "".join(ToolCall("f", {"x": n}).written() for n in range(3))
    assert [call.arguments["x"] for call in read_turn(text)] == [0, 1, 2]
    assert isinstance(read_turn(text * CALLS_A_TURN), ParseFailure)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither"),
        ("I think it is 42", "neither"),
        ("{}", "'name' and 'arguments'"),
        ("[]", "no tool call"),
        ('<tool_call>{"name": "f"', "not closed"),
        ("<tool_call>f(1)</tool_call>", "not valid JSON"),
        ('<tool_call>{"name": "f", "arguments": {"x": 1e999}}</tool_call>', "not valid JSON"),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "JSON object"),
        ('<tool_call>{"name": "f", "arguments": "x"}</tool_call>', "not valid JSON"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON"),
        ("<tool_call>" + "9" * 10_000 + "</tool_call>", "not valid JSON"),
    ],
)
def test_invalid_turns_have_a_reason(text, said):
    read = read_turn(text)
    assert isinstance(read, ParseFailure) and said in read.reason


WORDS = (
    "<tool_call>",
    "</tool_call>",
    '{"name": "repeat", "arguments": {"text": "a"}}',
    "Answer: 1",
)


def test_long_results_are_truncated_to_valid_text(registry):
    result = registry.call(ToolCall("repeat", {"text": "ab\ud800", "times": 999}))
    assert len(result.content) == RESULT_LENGTH and result.content.endswith("(cut)")
    result.content.encode()


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(hostile_answers(*WORDS))
def test_no_text_raises(registry, text):
    read = read_turn(text)
    assert isinstance(read, ParseFailure | str | tuple)
    for call in read if isinstance(read, tuple) else ():
        json.dumps(registry.call(call).content)
