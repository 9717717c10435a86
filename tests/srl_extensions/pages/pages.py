"""Helpers to read pages: the document in a file, and the page as a browser draws it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

_DATA = re.compile(r'<script type="application/json" id="document">(.*?)</script>', re.S)


def document(path: Path) -> dict:
    """Return the document in an HTML file."""
    [data] = _DATA.findall(path.read_text("utf-8"))
    return json.loads(data)


def words(value: object) -> str:
    """Return all texts of (a part of) a document in order, joined by single spaces."""
    return " ".join(" ".join(_texts(value)).split())


def _texts(value: object):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key not in ("kind", "style", "frame"):
                yield from _texts(entry)


def blocks(value: object, kind: str):
    """Yield all blocks of a kind in (a part of) a document."""
    if isinstance(value, list):
        for entry in value:
            yield from blocks(entry, kind)
    elif isinstance(value, dict):
        if value.get("kind") == kind:
            yield value
        for entry in value.values():
            yield from blocks(entry, kind)


class Drawn(HTMLParser):
    """Parsed HTML: tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self._words, self._inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, data):
        if self._inside not in ("script", "style", "title"):
            self._words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())


def in_a_browser(path: Path, scratch: Path) -> tuple[Drawn, list[str]]:
    """Return the page as Chromium draws it, and the messages of its console."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}",
         "--enable-logging=stderr", "--virtual-time-budget=1000", "--dump-dom",
         path.resolve().as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Drawn(done.stdout), said
