"""Limits for documents of others, and text made safe to show.

Every parser of outside input takes its limits on size and nesting from here, and every outside text
passes `printable` before it reaches a terminal or a page.
"""

from __future__ import annotations

import contextlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from srl_envs.errors import DocumentError

MAX_NESTING = 64
"""Maximum nesting of containers or brackets in anything that is parsed."""
MAX_DIGITS = 4300
"""Maximum digits of a whole number: Python's own default limit."""
MAX_BYTES = 64 * 2**20
"""Maximum bytes of one document: a line of JSON Lines, a JSON file, a YAML file."""


def read_json(text: str | bytes, *, max_bytes: int = MAX_BYTES, constants: bool = False) -> Any:
    """Return the value of a JSON document.

    Args:
        text: The document.
        max_bytes: Maximum length.
        constants: Read NaN and Infinity, as Python writes them.

    Raises:
        DocumentError: The text is not JSON (RFC 8259), too long, nested too deep, or has a number
            beyond a float's range or of too many digits.
    """
    if len(text) > max_bytes:
        raise DocumentError(f"{len(text)} bytes, at most {max_bytes} are read")
    with _one_kind_of_error():
        value = json.loads(
            text, parse_constant=None if constants else _refuse_constant, parse_float=_finite
        )
    check_nesting(value)
    return value


def read_json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value that begins at `start` of a longer text, and its end.

    Raises DocumentError as `read_json` does.
    """
    with _one_kind_of_error():
        value, end = _DECODER.raw_decode(text, start)
    check_nesting(value)
    return value, end


@contextlib.contextmanager
def _one_kind_of_error() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise DocumentError(f"nested deeper than {MAX_NESTING}") from None
    except DocumentError:
        raise
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, or an integer too long
        raise DocumentError(f"not JSON: {error}") from error


def read_bytes(path: Path, max_bytes: int = MAX_BYTES, *, pipes: bool = False) -> bytes:
    """Return a file's bytes.

    Raises:
        DocumentError: The file has more than `max_bytes`, or is a folder, a device or, without
            `pipes`, a named pipe, which may never end.
        OSError: The system's error.
    """
    if path.exists() and not path.is_file() and not (pipes and path.is_fifo()):
        raise DocumentError("not a plain file")
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DocumentError(f"more than {max_bytes} bytes")
    return content


def check_nesting(value: Any) -> None:
    """Raise DocumentError if mappings and lists are nested deeper than MAX_NESTING in `value`.

    Each container is examined once per level, so that shared parts (YAML's aliases) cost little.
    """
    level: dict[int, Any] = {0: value}
    for _ in range(MAX_NESTING):
        inner: dict[int, Any] = {}
        for part in level.values():
            if isinstance(part, Mapping):
                inner.update((id(one), one) for one in part.values() if _holds_others(one))
            elif _holds_others(part):
                inner.update((id(one), one) for one in part if _holds_others(one))
        if not inner:
            return
        level = inner
    raise DocumentError(f"nested deeper than {MAX_NESTING}")


def _holds_others(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple | set)


def check_brackets(text: str) -> None:
    """Raise DocumentError if `text` has more than MAX_NESTING open brackets, before parsing it."""
    depth = 0
    for sign in text:
        if sign in "([{":
            depth += 1
            if depth > MAX_NESTING:
                raise DocumentError(f"nested deeper than {MAX_NESTING}")
        elif sign in ")]}":
            depth = max(0, depth - 1)


def printable(text: object, *, multiline: bool = True) -> str:
    """Return `text` as a terminal or a page may show it.

    Control, format, private-use and unassigned characters and lone surrogates become escapes such
    as `\\x1b`; spaces of other widths become a plain one. Line feed and tab stay if `multiline`; a
    carriage return before a line feed is dropped.
    """
    said = str(text)
    if multiline:
        said = said.replace("\r\n", "\n")
    kept = "\n\t" if multiline else ""
    if said.isprintable():
        return said
    return "".join(sign if sign.isprintable() or sign in kept else _escape(sign) for sign in said)


def cut(text: str, length: int) -> str:
    """Return the text, or its beginning and the number of characters that were left out."""
    left = len(text) - length
    return text if left <= 0 else f"{text[:length]} […{left} more characters]"


def framed(tag: str, text: str) -> str:
    """Return `text` between `<tag>` and `</tag>`, neither of which it can contain.

    If the text names the tag in any spelling, its brackets become `(` and `)`.
    """
    if _letters(tag) in _letters(text):
        text = text.translate(_BRACKETS)
    return f"<{tag}>\n{text}\n</{tag}>"


_BRACKETS = str.maketrans("<>\u226e\u226f\ufe64\ufe65\uff1c\uff1e", "()()()()")
"""All signs that are `<` or `>` after normalization, at least in part."""


def _letters(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(sign for sign in plain if sign.isascii() and sign.isalnum())


def _escape(sign: str) -> str:
    if sign.isspace() and sign not in "\x1c\x1d\x1e\x1f\x85\n\r\t\v\f\u2028\u2029":
        return " "  # no-break, thin and ideographic spaces
    return sign.encode("unicode_escape").decode("ascii")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise DocumentError(f"not JSON: {digits[:20]} is beyond the range of a float")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise DocumentError(f"not JSON: {name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
