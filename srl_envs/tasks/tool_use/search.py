"""Search over documents: the SearchProvider protocol, BM25, and the shipped corpus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from srl_envs.errors import EnvConfigError
from srl_envs.loading import needed_by, read_rows, text_of
from srl_envs.tasks.tool_use.tools import ToolError

CORPUS = Path(__file__).with_name("corpus.jsonl")
SHOWN = 3  # documents in a result
EXCERPT = 400  # characters of each

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class SearchDocument:
    """Searchable document."""

    title: str
    text: str
    url: str = ""


class SearchProvider(Protocol):
    """Search provider: any object with this method."""

    def search(self, query: str, count: int) -> Sequence[SearchDocument]:
        """Return the documents that match a query, the best first.

        Args:
            query: Text that the agent wrote.
            count: Largest number of documents.

        Raises:
            ToolError: The search failed; the agent reads the message.
        """
        ...


class BM25Search:
    """BM25 (Robertson et al. 1995) by the bm25s library, without regard to case.

    Every result contains a word of the query. Of equal scores, the earlier document is first.

    Args:
        documents: At least one document.

    Raises:
        EnvConfigError: There are no documents.
        ImportError: bm25s is missing.
    """

    def __init__(self, documents: Iterable[SearchDocument]) -> None:
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

    def search(self, query: str, count: int) -> Sequence[SearchDocument]:
        words = _words(query)
        if not words:
            raise ToolError("the query holds no word")
        scores = self._index.get_scores(words)
        order = sorted(range(len(self.documents)), key=lambda place: (-scores[place], place))
        return [self.documents[place] for place in order[:count] if scores[place] > 0]


def as_text(documents: Sequence[SearchDocument]) -> str:
    """Return documents as text, one paragraph each."""
    paragraphs = [
        f"{found.title}\n{found.text[:EXCERPT]}{f' ({found.url})' if found.url else ''}"
        for found in documents
    ]
    return "\n\n".join(paragraphs) or "Nothing was found."


def load_documents(path: Path) -> tuple[SearchDocument, ...]:
    """Load documents from a JSONL file with an object with "title" and "text" on every line.

    Raises:
        EnvConfigError: A line is invalid; the message contains its number.
    """
    return tuple(read_rows(path, "documents", _document))


@cache
def shipped() -> BM25Search:
    """Return the search over the shipped corpus, towns of a fictional island."""
    return BM25Search(load_documents(CORPUS))


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _document(row: Any, number: int) -> SearchDocument:
    if not isinstance(row, Mapping):
        raise EnvConfigError(f"a document must be an object, got {row!r:.40}")
    return SearchDocument(text_of(row, "title"), text_of(row, "text"))
