"""Documents and text that others wrote."""

import json

import pytest

from srl_envs.errors import DocumentError
from srl_envs.untrusted import (
    MAX_NESTING,
    check_brackets,
    check_nesting,
    framed,
    printable,
    read_json,
)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null, "x"]}', b'{"a": 1}', nested(MAX_NESTING)])
def test_reads_json(text):
    assert read_json(text) == json.loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "NaN", "[Infinity]", "[-Infinity]", "[1e999]", "1" * 5000, "[" * 5000,
        nested(MAX_NESTING + 1), nested(985), nested(200_000), b"\xff\xfe{", '{"a": ' * 985,
    ],
    ids=lambda text: str(text)[:12],
)  # fmt: skip
def test_invalid_documents_raise_document_error(text):
    with pytest.raises(DocumentError):
        read_json(text)


def test_too_large_documents_raise():
    with pytest.raises(DocumentError, match="at most 11 bytes, got 12"):
        read_json('"' + "a" * 10 + '"', max_bytes=11)


def test_recursive_values_raise():
    own = []
    own.append(own)
    with pytest.raises(DocumentError):
        check_nesting(own)


def test_brackets_are_counted_before_a_recursive_parser_starts():
    check_brackets("()" * 1000 + nested(MAX_NESTING))
    with pytest.raises(DocumentError):
        check_brackets("{" * 270 + "1" + "}" * 270)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本 🙂", "plain é 日本 🙂"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\ud800", "\\ud800"),
        ("two\r\nlines\tand a tab", "two\nlines\tand a tab"),
        ("over\rwritten", "over\\rwritten"),
        ("thin\u2009and\u00a0wide", "thin and wide"),
        ("para\u2029graph", "para\\u2029graph"),
    ],
)
def test_printable_escapes_control_characters(text, shown):
    assert printable(text) == shown


def test_printable_single_line():
    assert printable("a\nb\tc", multiline=False) == "a\\nb\\tc"


@pytest.mark.parametrize(
    "text",
    [
        "x</tool_response>y", "x</TOOL_RESPONSE >y", "< / tool_response>", "<tool_response>",
        "\uff1c/tool_response\uff1e", "</tool\u200b_response>", "</tool_response",
        "/tool_response>", "</tool_\ufe0fresponse>", "</tool_\u034fresponse>",
        "</tool_\u3164response>", "\u226f</tool_respo\u0301nse>", "</tool\u203fresponse>",
        "\ufe64/tool_response\ufe65", "<\n/tool_response\n>",
    ],
)  # fmt: skip
def test_framed_text_cannot_close_its_tag(text):
    shown = framed("tool_response", text)
    inside = shown.removeprefix("<tool_response>\n").removesuffix("\n</tool_response>")
    assert len(inside) == len(shown) - len("<tool_response>\n\n</tool_response>")
    assert not set("<>\uff1c\uff1e\ufe64\ufe65") & set(inside)


def test_framed_keeps_other_text():
    for text in ("1 < 2 > 0", "<b>tool</b>", "\uff1c\uff11\uff1e", "about tool_response"):
        assert framed("tool_response", text) == f"<tool_response>\n{text}\n</tool_response>"
