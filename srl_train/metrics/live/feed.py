"""Feeds of documents: a whole one first, then what changes, to any number of readers."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from srl_train.metrics.live.changes import changes

REMEMBERED = 4 * 2**20
"""Characters of changes that are kept for readers who come back."""


@dataclass(frozen=True)
class Event:
    """One server-sent event; `data` is one line of ASCII JSON."""

    id: str
    name: str
    data: str

    def encoded(self) -> bytes:
        """As it goes over the wire."""
        return f"id: {self.id}\nevent: {self.name}\ndata: {self.data}\n\n".encode()


class Feed:
    """Versions of one document. Only the last is kept whole, with the changes that led to it."""

    def __init__(self) -> None:
        self.readers = 0
        self.left = time.monotonic()
        """When the last reader went."""
        self.built = 0.0
        """When the document was last looked at."""
        self._epoch = secrets.token_hex(4)  # another server counts its versions anew
        self._version = 0
        self._document: Any = None
        self._changes: deque[tuple[int, str]] = deque()
        self._kept = 0
        self._news = asyncio.Event()

    @property
    def empty(self) -> bool:
        """Whether no document was published yet."""
        return self._document is None

    @contextmanager
    def reader(self) -> Iterator[None]:
        """Within, somebody reads."""
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self.left = time.monotonic()

    def publish(self, document: Any) -> None:
        """The document, plain as JSON has it, is this one from now on."""
        found = changes(self._document, document)
        if not found:
            return
        self._version += 1
        if self._document is not None:
            told = json.dumps(found, allow_nan=False, separators=(",", ":"))
            self._changes.append((self._version, told))
            self._kept += len(told)
            while self._kept > REMEMBERED:
                self._kept -= len(self._changes.popleft()[1])
        self._document = document
        self._news.set()
        self._news = asyncio.Event()

    def end(self) -> None:
        """Let nobody wait any more."""
        self._news.set()

    def forget(self) -> None:
        """Let go of the document; the next reader waits for the next one."""
        self._document = None
        self._changes.clear()
        self._kept = 0

    def since(self, last: str) -> list[Event]:
        """What a reader lacks whose last event had this id: changes, or the whole document."""
        if self._document is None or last == self._id(self._version):
            return []
        epoch, _, version = last.partition("-")
        if epoch == self._epoch and version.isdecimal() and len(version) < 12:
            missing = [one for one in self._changes if one[0] > int(version)]
            if missing and missing[0][0] == int(version) + 1:
                return [Event(self._id(number), "changes", told) for number, told in missing]
        whole = json.dumps(self._document, allow_nan=False, separators=(",", ":"))
        return [Event(self._id(self._version), "document", whole)]

    async def news(self, seconds: float) -> None:
        """Wait until there is another version, or for so many seconds."""
        try:
            await asyncio.wait_for(self._news.wait(), seconds)
        except TimeoutError:
            return

    def _id(self, version: int) -> str:
        return f"{self._epoch}-{version}"
