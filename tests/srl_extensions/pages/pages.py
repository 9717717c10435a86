"""Pages read back: the document inside, and what a browser makes of it."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

_DATA = re.compile(r'<script type="application/json" id="document">(.*?)</script>', re.S)


def document(path: Path) -> dict:
    """The document of a page."""
    [data] = _DATA.findall(path.read_text("utf-8"))
    return json.loads(data)


def words(value: object) -> str:
    """Every text of (a part of) a document, in order, spaces folded."""
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
    """Every block of a kind, wherever it stands."""
    if isinstance(value, list):
        for entry in value:
            yield from blocks(entry, kind)
    elif isinstance(value, dict):
        if value.get("kind") == kind:
            yield value
        for entry in value.values():
            yield from blocks(entry, kind)


class Drawn(HTMLParser):
    """The page as a browser has drawn it: its elements, attributes and text."""

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
    """(what Chromium draws, what its console says), without any network."""
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
