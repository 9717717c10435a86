"""Search providers: BM25 over given documents, or a live SearXNG server."""

from __future__ import annotations

import http
import http.client
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from srl_envs.errors import DocumentError, EnvConfigError
from srl_envs.loading import needed_by, read_reply, read_rows
from srl_envs.tasks.tool_use.tools import ToolError
from srl_envs.untrusted import read_json

CORPUS = Path(__file__).with_name("corpus.jsonl")
SHOWN = 3  # documents in a result
EXCERPT = 400  # characters of each
LARGEST_REPLY = 2**20  # bytes of a live provider's reply

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Document:
    """Searchable document."""

    title: str
    text: str
    url: str = ""


class SearchProvider(Protocol):
    """Search provider; any object with this method."""

    def search(self, query: str, count: int) -> Sequence[Document]:
        """Return up to `count` documents, the best first; raise ToolError on failure."""
        ...


class BM25Search:
    """BM25 (Robertson et al. 1995) by the bm25s library, without regard to case.

    A result contains at least one word of the query. The earlier document wins a tie.

    Raises:
        EnvConfigError: There are no documents.
        ImportError: bm25s is missing.
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
        """Return up to `count` documents, the best first."""
        words = _words(query)
        if not words:
            raise ToolError("the query holds no word")
        scores = self._index.get_scores(words)
        order = sorted(range(len(self.documents)), key=lambda place: (-scores[place], place))
        return [self.documents[place] for place in order[:count] if scores[place] > 0]


class SearxngSearch:
    """Web search by a SearXNG server with its JSON format enabled.

    Episodes are not reproducible, because the results of a query change.

    Args:
        address: Address of the server, such as "http://localhost:8888".
        timeout: Seconds for one complete reply.
    """

    def __init__(self, address: str, *, timeout: float = 10.0) -> None:
        try:
            self._server = urllib.parse.urlsplit(address)
            known = self._server.scheme in _CONNECTIONS and bool(self._server.hostname)
            _ = self._server.port  # Reading the property validates the port.
        except ValueError:
            known = False
        if not known:
            raise EnvConfigError(
                f"a search server's address is like 'http://localhost:8888', got {address!r}"
            )
        self.address, self.timeout = address.rstrip("/"), timeout

    def search(self, query: str, count: int) -> Sequence[Document]:
        """Return up to `count` results, without results that are not texts.

        Raises:
            ToolError: The reply is invalid, a redirection, too late or larger than LARGEST_REPLY.
        """
        query = urllib.parse.urlencode(
            {"q": query.encode("utf-8", "replace"), "format": "json", "safesearch": 1}
        )
        kind = _CONNECTIONS[self._server.scheme]
        try:
            status, body = read_reply(
                kind(str(self._server.hostname), self._server.port, timeout=self.timeout),
                "GET",
                f"{self._server.path.rstrip('/')}/search?{query}",
                seconds=self.timeout,
                most_bytes=LARGEST_REPLY,
                headers={"User-Agent": "core-srl"},
            )
            reply = read_json(body, max_bytes=LARGEST_REPLY) if status == http.HTTPStatus.OK else {}
        except (DocumentError, ValueError, http.client.HTTPException) as error:
            raise ToolError("the search server's reply cannot be read") from error
        except OSError as error:
            raise ToolError(f"the search server cannot be reached ({error})") from error
        if status != http.HTTPStatus.OK:
            raise ToolError(f"the search server answers with HTTP status {status}")
        results = reply.get("results") if isinstance(reply, Mapping) else None
        if not isinstance(results, list):
            raise ToolError("the search server's reply cannot be read")
        found = map(_web_result, results)
        return [document for document in found if document is not None][:count]


_CONNECTIONS: dict[str, type[http.client.HTTPConnection]] = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}


def as_text(documents: Sequence[Document]) -> str:
    """Return documents as text, one paragraph each."""
    if not documents:
        return "Nothing was found."
    return "\n\n".join(
        f"{found.title}\n{found.text[:EXCERPT]}{f' ({found.url})' if found.url else ''}"
        for found in documents
    )


def load_documents(path: Path) -> tuple[Document, ...]:
    """Load documents from a JSONL file: an object with "title" and "text" on every line.

    Raises:
        EnvConfigError: A line is invalid; the message contains its number.
    """
    return tuple(read_rows(path, "documents", _document))


@cache
def shipped() -> BM25Search:
    """Return the shipped corpus: towns of an island that does not exist."""
    return BM25Search(load_documents(CORPUS))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _document(said: Any, number: int = 0) -> Document:
    """Return the document of a JSON object; raise EnvConfigError for anything else."""
    if not isinstance(said, Mapping) or not {"title", "text"} <= set(said):
        raise EnvConfigError(f"give an object with 'title' and 'text', got {said!r:.40}")
    return Document(str(said["title"]), str(said["text"]))


def _web_result(said: Any) -> Document | None:
    """Return a result of a search server as a document, or None if it is invalid."""
    if not isinstance(said, Mapping):
        return None
    title, text, url = (said.get(name) or "" for name in ("title", "content", "url"))
    if not all(isinstance(part, str) for part in (title, text, url)) or not (title or text):
        return None
    title, url = (" ".join(part.split())[:EXCERPT] for part in (title, url))
    return Document(title, text[:EXCERPT], url)
