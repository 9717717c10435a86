"""Untrusted input: limits for documents, and text made safe to show.

Every parser of what comes from outside (episodes, metrics, manifests, configurations, tool calls,
mathematics, data files, replies of servers) takes its limits on size and nesting from here, and
every text from outside passes `printable` before it reaches a terminal or a page.
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
"""Containers within containers, or brackets within brackets, in anything that is parsed."""
MAX_DIGITS = 4300
"""Of a whole number; Python's own limit, where nobody has changed it."""
MAX_BYTES = 64 * 2**20
"""Of one document: a line of JSON Lines, a JSON file, a YAML file."""


def read_json(text: str | bytes, *, max_bytes: int = MAX_BYTES, constants: bool = False) -> Any:
    """The value of a JSON document.

    Raises DocumentError for anything that is not JSON as RFC 8259 has it (NaN and Infinity are
    not; with `constants` they are read all the same, as Python writes them), numbers beyond a
    float's range or of more than 4,300 digits, more than `max_bytes` bytes, and more than
    MAX_NESTING containers within each other.
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
    """The JSON value that begins at `start` of a text that goes on after it, and where it ends.

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
    """A file's bytes.

    Raises DocumentError for more than `max_bytes` and for folders, devices and, without `pipes`,
    named pipes, which may never end or begin; OSError as the system.
    """
    if path.exists() and not path.is_file() and not (pipes and path.is_fifo()):
        raise DocumentError("not a plain file")
    with path.open("rb") as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DocumentError(f"more than {max_bytes} bytes")
    return content


def check_nesting(value: Any) -> None:
    """Raise DocumentError where mappings and lists stand more than MAX_NESTING deep in `value`.

    A container is looked at once a level, so that a document whose parts are shared (YAML's
    aliases) costs little more than what it holds, and one that holds itself is refused.
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
    """Raise DocumentError where `text` opens more than MAX_NESTING brackets without closing them.

    For recursive parsers, before they start: it counts, and does not match kinds.
    """
    depth = 0
    for sign in text:
        if sign in "([{":
            depth += 1
            if depth > MAX_NESTING:
                raise DocumentError(f"nested deeper than {MAX_NESTING}")
        elif sign in ")]}":
            depth = max(0, depth - 1)


def printable(text: object, *, multiline: bool = True) -> str:
    """`text` as a terminal or a page may show it.

    Control characters (ESC and BEL among them), C1 controls, bidirectional and invisible format
    characters, private-use and unassigned ones and lone surrogates become escapes such as `\\x1b`
    and `\\u202e`; spaces of other widths become a plain one. Line feed and tab stay where
    `multiline`; a carriage return before a line feed is dropped.
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
    """`text` between `<tag>` and `</tag>`, which it cannot close or open itself.

    Where it names the tag, whatever its letters' case and width and whatever stands between them,
    its brackets become `(` and `)`; it stays as long as it was.
    """
    if _letters(tag) in _letters(text):
        text = text.translate(_BRACKETS)
    return f"<{tag}>\n{text}\n</{tag}>"


_BRACKETS = str.maketrans("<>\u226e\u226f\ufe64\ufe65\uff1c\uff1e", "()()()()")
"""All signs that are `<` or `>` once a text is normalised, if only in part."""


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
