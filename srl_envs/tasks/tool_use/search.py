"""Search: BM25 over given documents, or any live provider behind the same call."""

from __future__ import annotations

import http
import http.client
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from srl_envs.errors import DocumentError, EnvConfigError
from srl_envs.loading.data_files import read_rows
from srl_envs.loading.extras import needed_by
from srl_envs.loading.http_reply import read_reply
from srl_envs.loading.untrusted import read_json
from srl_envs.tasks.tool_use.tools import ToolError

CORPUS = Path(__file__).with_name("corpus.jsonl")
SHOWN = 3  # documents a search gives
EXCERPT = 400  # characters of each
LARGEST_REPLY = 2**20  # bytes that are read of a live provider's reply

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Document:
    """A document that search can find."""

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
        with needed_by("search"):
            import bm25s
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
        try:
            self._server = urllib.parse.urlsplit(address)
            known = self._server.scheme in _CONNECTIONS and bool(self._server.hostname)
            _ = self._server.port  # looked at only when it is asked for
        except ValueError:
            known = False
        if not known:
            raise EnvConfigError(
                f"a search server's address is like 'http://localhost:8888', got {address!r}"
            )
        self.address, self.timeout = address.rstrip("/"), timeout

    def search(self, query: str, count: int) -> Sequence[Document]:
        """Up to `count` results; raises ToolError where the server does not answer as it should.

        A whole answer may take `timeout` seconds and LARGEST_REPLY bytes; redirections are not
        followed, and results that are not texts are passed over.
        """
        said = urllib.parse.urlencode(
            {"q": query.encode("utf-8", "replace"), "format": "json", "safesearch": 1}
        )
        try:
            status, body = self._get(f"{self._server.path.rstrip('/')}/search?{said}")
            if status != http.HTTPStatus.OK:
                raise ToolError(f"the search server answers with HTTP status {status}")
            reply = read_json(body, max_bytes=LARGEST_REPLY)
        except (DocumentError, ValueError, http.client.HTTPException) as error:
            if isinstance(error, ToolError):
                raise
            raise ToolError("the search server's reply cannot be read") from error
        except OSError as error:
            raise ToolError(f"the search server cannot be reached ({error})") from error
        results = reply.get("results") if isinstance(reply, Mapping) else None
        if not isinstance(results, list):
            raise ToolError("the search server's reply cannot be read")
        found = map(_web_result, results)
        return [document for document in found if document is not None][:count]

    def _get(self, path: str) -> tuple[int, bytes]:
        kind = _CONNECTIONS[self._server.scheme]
        return read_reply(
            kind(str(self._server.hostname), self._server.port, timeout=self.timeout),
            "GET",
            path,
            seconds=self.timeout,
            most_bytes=LARGEST_REPLY,
            headers={"User-Agent": "core-srl"},
        )


_CONNECTIONS: Mapping[str, type[http.client.HTTPConnection]] = MappingProxyType(
    {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
)


def as_text(documents: Sequence[Document]) -> str:
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
    return tuple(read_rows(path, "documents", _document))


@cache
def shipped() -> BM25Search:
    """The corpus that comes with the environment: towns of an island that does not exist."""
    return BM25Search(load_documents(CORPUS))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _document(said: Any, number: int = 0) -> Document:
    """Raises EnvConfigError for what is no object of texts."""
    if not isinstance(said, Mapping) or not {"title", "text"} <= set(said):
        raise EnvConfigError(f"give an object with 'title' and 'text', got {said!r:.40}")
    return Document(str(said["title"]), str(said["text"]))


def _web_result(said: Any) -> Document | None:
    """A search server's result; None for what is none."""
    if not isinstance(said, Mapping):
        return None
    title, text, url = (said.get(name) or "" for name in ("title", "content", "url"))
    if not all(isinstance(part, str) for part in (title, text, url)) or not (title or text):
        return None
    title, url = (" ".join(part.split())[:EXCERPT] for part in (title, url))
    return Document(title, text[:EXCERPT], url)
