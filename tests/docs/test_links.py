"""Every link between pages leads to a page that is there, and to a heading that it has."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted(DOCS.rglob("*.md")),
]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def prose(page):
    """A page without its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def headings(page):
    """The anchors of a page, as its readers' tools make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for path, heading in LINK.findall(prose(page)):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: {path} is not there"
        assert target.is_relative_to(ROOT), f"{name_of(page)}: {path} is outside the repository"
        if heading:
            assert heading in headings(target), f"{name_of(page)}: {path} has no #{heading}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_are_there(page):
    tops = r"srl_\w+|core_srl|benchmarks|examples|docs|tests|compat"
    named = re.findall(rf"`((?:{tops})/[\w/.*<>-]+)`", page.read_text(encoding="utf-8"))
    patterns = [re.sub(r"<\w+>", "*", name) for name in named]
    assert [name for name in patterns if not any(ROOT.glob(name))] == []


class Settings(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags name Python, as plain data."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, tag, node: None)


def places(tree):
    if isinstance(tree, str):
        yield tree
    else:
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from places(part)


def test_every_page_has_a_place_in_the_navigation():
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Settings)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert sorted(places(settings["nav"])) == sorted(pages)
