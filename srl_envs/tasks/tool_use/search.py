"""Search over documents: the SearchProvider protocol, BM25, and the shipped corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from srl_envs.loading import needed_by
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
    """BM25 search (Robertson et al. 1995) by the bm25s library, without regard to case.

    Every result contains a word of the query. Of equal scores, the earlier document is first. A
    query without words raises ToolError.

    Args:
        documents: At least one document.

    Raises:
        ImportError: bm25s is missing.
    """

    def __init__(self, documents: Iterable[SearchDocument]) -> None:
        with needed_by("search"):
            import bm25s
        self.documents = tuple(documents)
        self._index = bm25s.BM25()
        self._index.index(
            [_words(f"{found.title} {found.text}") for found in self.documents], show_progress=False
        )

    def search(self, query: str, count: int) -> Sequence[SearchDocument]:
        words = _words(query)
        if not words:
            raise ToolError("the query holds no word")
        scores = self._index.get_scores(words)
        order = sorted(range(len(self.documents)), key=lambda place: (-scores[place], place))
        return [self.documents[place] for place in order[:count] if scores[place] > 0]


def as_text(documents: Sequence[SearchDocument]) -> str:
    """Return the titles and excerpts of documents as text, or that nothing was found."""
    paragraphs = [f"{found.title}\n{found.text[:EXCERPT]}" for found in documents]
    return "\n\n".join(paragraphs) or "Nothing was found."


@cache
def shipped() -> BM25Search:
    """Return the search over the shipped corpus, towns of a fictional island."""
    entries = map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines())
    return BM25Search(SearchDocument(entry["title"], entry["text"]) for entry in entries)


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]
