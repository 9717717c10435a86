"""Limits for documents from others, and text that is safe to show.

All parsers of external input use the limits of this module, and all external text passes
`printable` before it is written to a terminal or a page.
"""

from __future__ import annotations

import contextlib
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from srl_envs.errors import DocumentError

MAX_NESTING = 64
"""Maximum nesting of containers or brackets."""
MAX_DIGITS = 4300
"""Maximum number of digits of a whole number, Python's own default limit."""
MAX_BYTES = 64 * 2**20
"""Maximum number of bytes of a document, such as a line of JSON Lines."""


def read_json(text: str | bytes, *, max_bytes: int = MAX_BYTES, constants: bool = False) -> Any:
    """Return the value of a JSON document.

    Args:
        text: The document.
        max_bytes: Maximum length of the document, in characters for a str.
        constants: Accept NaN and Infinity, as Python writes them.

    Raises:
        DocumentError: The text is not JSON (RFC 8259), too long or nested too deep, or a number is
            beyond the range of a float or has too many digits.
    """
    if len(text) > max_bytes:
        raise DocumentError(f"a document may have at most {max_bytes} bytes, got {len(text)}")
    with _one_kind_of_error():
        value = json.loads(
            text, parse_constant=None if constants else _refuse_constant, parse_float=_finite
        )
    check_nesting(value)
    return value


def read_json_at(text: str, start: int) -> tuple[Any, int]:
    """Return the JSON value at `start` and the index after it; DocumentError if none is there."""
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
    except ValueError as error:  # JSONDecodeError, UnicodeDecodeError, or too many digits.
        raise DocumentError(f"not JSON: {error}") from error


def read_bytes(path: Path, max_bytes: int = MAX_BYTES, *, pipes: bool = False) -> bytes:
    """Return the bytes of a file.

    Args:
        path: The file.
        max_bytes: Greatest allowed size.
        pipes: Also accept named pipes, whose reading may block.

    Raises:
        DocumentError: The file has over `max_bytes`, or is a folder, device or refused pipe.
        OSError: The file cannot be read.
    """
    if path.exists() and not path.is_file() and not (pipes and path.is_fifo()):
        raise DocumentError("not a plain file")
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DocumentError(f"more than {max_bytes} bytes")
    return content


def check_nesting(value: Any, levels: int = MAX_NESTING) -> None:
    """Raise DocumentError if JSON data has containers that are nested deeper than `levels`."""
    if not isinstance(value, dict | list):
        return
    if levels == 0:
        raise DocumentError(f"nested deeper than {MAX_NESTING}")
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, dict | list):
            check_nesting(part, levels - 1)


def check_brackets(text: str) -> None:
    """Raise DocumentError if the brackets ( [ { in `text` are nested deeper than MAX_NESTING."""
    depth = 0
    for sign in text:
        if sign in "([{":
            depth += 1
            if depth > MAX_NESTING:
                raise DocumentError(f"nested deeper than {MAX_NESTING}")
        elif sign in ")]}":
            depth = max(0, depth - 1)


def printable(text: object, *, multiline: bool = True) -> str:
    r"""Return `text` with escapes for characters that are unsafe on a terminal or a page.

    Control, format, private-use and unassigned characters, line separators and lone surrogates
    become escapes such as `\x1b`. Other spaces become plain spaces. With `multiline`, line feeds
    and tabs are kept, and a carriage return before a line feed is dropped; else they are escaped.
    """
    shown = str(text)
    if multiline:
        shown = shown.replace("\r\n", "\n")
    kept = "\n\t" if multiline else ""
    if shown.isprintable():
        return shown
    return "".join(sign if sign.isprintable() or sign in kept else _escape(sign) for sign in shown)


def cut(text: str, length: int) -> str:
    """Return `text`, or its first `length` characters and " […<number> more characters]"."""
    left = len(text) - length
    return text if left <= 0 else f"{text[:length]} […{left} more characters]"


def framed(tag: str, text: str) -> str:
    """Return three or more lines: `<tag>`, `text` and `</tag>`.

    If `text` contains the name of the tag in any spelling, all angle brackets in `text` become `(`
    and `)`. The text then cannot close the tag.
    """
    if _letters(tag) in _letters(text):
        text = text.translate(_BRACKETS)
    return f"<{tag}>\n{text}\n</{tag}>"


_BRACKETS = str.maketrans("<>\u226e\u226f\ufe64\ufe65\uff1c\uff1e", "()()()()")
"""Replacements of all characters that are or contain `<` or `>` after normalization."""


def _letters(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(sign for sign in plain if sign.isascii() and sign.isalnum())


def _escape(sign: str) -> str:
    if sign.isspace() and sign not in "\x1c\x1d\x1e\x1f\x85\n\r\t\v\f\u2028\u2029":
        return " "
    return sign.encode("unicode_escape").decode("ascii")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise DocumentError(f"not JSON: {digits[:20]} is beyond the range of a float")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise DocumentError(f"not JSON: {name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
