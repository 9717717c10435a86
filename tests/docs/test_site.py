"""Links between the pages of the site that `make docs` built."""

import functools
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.site
SITE = Path(__file__).parents[2] / "site"


class Document(HTMLParser):
    """Links, loaded files and anchors of one page."""

    def __init__(self, page):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        if tag == "a" and attributes.get("href"):
            self.links.append(attributes["href"])
        elif attributes.get("src") or (tag == "link" and attributes.get("rel") != "canonical"):
            self.loads.append(attributes.get("src") or attributes["href"])


@functools.cache
def document(page):
    return Document(page)


def pages():
    # 404.html is for servers, and links from their root.
    found = sorted(page for page in SITE.rglob("*.html") if page.name != "404.html")
    assert len(found) > 60, "run `make docs` first"
    return found


def test_no_link_is_broken():
    broken = []
    for page in pages():
        for link in document(page).links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = target.is_file()
            if there and parts.fragment and target.suffix == ".html":
                there = unquote(parts.fragment) in document(target).anchors
            if not there:
                broken.append(f"{page.relative_to(SITE)}: {link}")
    assert not broken, "\n".join(broken)
