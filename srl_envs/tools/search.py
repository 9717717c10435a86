"""Search: BM25 over documents of one's own, or any live provider behind the same call."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from srl_envs.errors import EnvConfigError
from srl_envs.tools.errors import ToolError

CORPUS = Path(__file__).with_name("corpus.jsonl")
SHOWN = 3  # documents a search gives
EXCERPT = 400  # characters of each
LARGEST_REPLY = 2**20  # bytes that are read of a live provider's reply

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Document:
    """What is found."""

    title: str
    text: str
    url: str = ""


class SearchProvider(Protocol):
    """Whatever can be searched; to make one of your own, write this one method."""

    def search(self, query: str, count: int) -> Sequence[Document]:
        """Up to `count` documents, the best first; raises ToolError where it cannot be done."""
        ...


class BM25Search:
    """Documents by BM25 (Robertson et al. 1995), in the bm25s library's ranking.

    Words are compared without case; a document that holds no word of the query is not found. Ties
    go to the earlier document. Raises EnvConfigError without documents, and ImportError where
    bm25s is missing.
    """

    def __init__(self, documents: Iterable[Document]) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise ImportError('search needs bm25s: run pip install "core-srl[tasks]"') from error
        self.documents = tuple(documents)
        if not self.documents:
            raise EnvConfigError("search needs at least one document, got none")
        self._index = bm25s.BM25()
        self._index.index(
            [_words(f"{found.title} {found.text}") for found in self.documents],
            show_progress=False,
        )

    def search(self, query: str, count: int) -> Sequence[Document]:
        """Up to `count` documents, the best first."""
        words = _words(query)
        if not words:
            raise ToolError("the query holds no word")
        scores = self._index.get_scores(words)
        order = sorted(range(len(self.documents)), key=lambda place: (-scores[place], place))
        return [self.documents[place] for place in order[:count] if scores[place] > 0]


class SearxngSearch:
    """A live provider: a SearXNG server (its JSON format must be on), which asks the web.

    `address` is the server's, such as "http://localhost:8888". Whatever the web says reaches the
    model, and the same query may be answered otherwise tomorrow: episodes with it do not repeat.
    """

    def __init__(self, address: str, *, timeout: float = 10.0) -> None:
        if not address.startswith(("http://", "https://")):
            raise EnvConfigError(f"a search server's address begins with http, got {address!r}")
        self.address, self.timeout = address.rstrip("/"), timeout

    def search(self, query: str, count: int) -> Sequence[Document]:
        """Up to `count` results; raises ToolError where the server does not answer as it should."""
        said = urllib.parse.urlencode(
            {"q": query.encode("utf-8", "replace"), "format": "json", "safesearch": 1}
        )
        try:
            with urllib.request.urlopen(
                f"{self.address}/search?{said}", timeout=self.timeout
            ) as reply:
                results = json.loads(reply.read(LARGEST_REPLY))["results"]
            return [_document(result) for result in results[:count]]
        except urllib.error.URLError as error:
            raise ToolError(f"the search server cannot be reached ({error.reason})") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ToolError("the search server's reply cannot be read") from error


def told(documents: Sequence[Document]) -> str:
    """What a search found, a paragraph for each."""
    if not documents:
        return "Nothing was found."
    return "\n\n".join(
        f"{found.title}\n{found.text[:EXCERPT]}{f' ({found.url})' if found.url else ''}"
        for found in documents
    )


def load_documents(path: Path) -> tuple[Document, ...]:
    """Documents of a JSONL file: an object with "title" and "text" on every line.

    Raises EnvConfigError, with the line's number, for anything else.
    """
    documents = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            documents.append(Document(str(said["title"]), str(said["text"])))
        except (ValueError, KeyError, TypeError) as error:
            raise EnvConfigError(
                f"{path}, line {number}: give an object with 'title' and 'text' ({error})"
            ) from error
    return tuple(documents)


@cache
def shipped() -> BM25Search:
    """The corpus that comes with the environment: towns of an island that does not exist."""
    return BM25Search(load_documents(CORPUS))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _document(result: Any) -> Document:
    return Document(str(result["title"]), str(result.get("content", "")), str(result["url"]))
