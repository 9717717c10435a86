"""The site as `make docs` built it: links, what it loads, search, and pages on a phone."""

import functools
import json
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.site
SITE = Path(__file__).parents[2] / "site"
PHONE = 390  # pixels


class Document(HTMLParser):
    """What one page links to, loads and can be linked at."""

    def __init__(self, page):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        self.anchors |= {told[name] for name in ("id", "name") if told.get(name)}
        if tag == "a" and told.get("href"):
            self.links.append(told["href"])
        elif told.get("src") or (tag == "link" and told.get("rel") != "canonical"):
            self.loads.append(told.get("src") or told["href"])


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


def test_pages_load_nothing_from_elsewhere():
    for page in pages():
        for source in document(page).loads:
            assert not urlsplit(source).netloc, f"{page.relative_to(SITE)} loads {source}"
            assert (page.parent / urlsplit(source).path).exists(), f"{page}: no {source}"
    for sheet in SITE.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", sheet.read_text())


def in_browser(address, *options):
    """The page's HTML after its scripts have run; no name of the internet can be looked up."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    assert program, "no Chromium: apt-get install chromium, or CHROMIUM=/path/to/it"
    done = subprocess.run(
        [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--mute-audio",
            "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=60000", *options,
            "--dump-dom", address,
        ],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("federated", "training/updates.html"),
        ("WithPartners", "reference/srl_agents/rollout.html"),
        ("hunters", "tutorials/own_environment.html"),
    ],
)
def test_search_finds(words, found):
    asked = words.replace(" ", "%20")
    html = in_browser(f"{(SITE / 'index.html').as_uri()}?q={asked}")
    results = re.findall(r'<a href="([^"]*)" class="md-search-result__link"', html)
    assert any(found in result for result in results), results


def test_pages_fit_a_phone(tmp_path):
    """No page is wider than the screen; wide tables and code scroll within themselves."""
    addresses = [page.as_uri() for page in pages() if "reference" not in page.parts]
    frames = tmp_path / "frames.html"
    frames.write_text(
        f"""<body><script>
        (async () => {{
          const wide = []
          for (const address of {json.dumps(addresses)}) {{
            const frame = document.createElement("iframe")
            frame.style = "width: {PHONE}px; height: 800px"
            frame.src = address
            document.body.append(frame)
            await new Promise(loaded => frame.onload = loaded)
            const width = frame.contentDocument.documentElement.scrollWidth
            if (width > {PHONE}) wide.push(`${{address}} ${{width}}`)
            frame.remove()
          }}
          document.body.innerText = JSON.stringify(wide)
          document.body.id = "measured"
        }})()
        </script>""",
        encoding="utf-8",
    )
    html = in_browser(
        frames.as_uri(), "--disable-web-security", "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path}/profile",
    )  # fmt: skip
    measured = re.search(r'<body id="measured">(.*?)</body>', html, re.S)
    assert measured and json.loads(measured[1]) == [], html[:2000]
