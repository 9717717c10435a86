"""Search over documents by BM25."""

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.generators import towns
from srl_envs.tasks.tool_use.search import (
    BM25Search,
    SearchDocument,
    as_text,
    load_documents,
    shipped,
)
from srl_envs.tasks.tool_use.tools import ToolError

DOCUMENTS = (
    SearchDocument("Cats", "A cat sleeps. The cat eats."),
    SearchDocument("Dogs", "A dog barks at the cat."),
    SearchDocument("Trees", "A tree grows."),
)


def test_the_most_fitting_comes_first():
    found = BM25Search(DOCUMENTS).search("CAT", 3)
    assert [document.title for document in found] == ["Cats", "Dogs"]


@pytest.mark.parametrize("query", ["zebra", "zebra \ud800"])
def test_what_is_not_there_is_not_found(query):
    assert as_text(BM25Search(DOCUMENTS).search(query, 3)) == "Nothing was found."


def test_a_query_needs_words():
    with pytest.raises(ToolError, match="no word"):
        BM25Search(DOCUMENTS).search("?!", 3)


def test_every_shipped_town_is_found_by_its_name():
    assert len(towns()) == 40
    for town in towns():
        [first] = shipped().search(town, 1)
        assert first.title == town and town in first.text


def test_documents_from_a_file(tmp_path):
    path = tmp_path / "documents.jsonl"
    path.write_text('{"title": "a", "text": "b"}\n\n')
    assert load_documents(path) == (SearchDocument("a", "b"),)
    path.write_text('{"title": "a"}\n')
    with pytest.raises(EnvConfigError, match="line 1"):
        load_documents(path)
    with pytest.raises(EnvConfigError, match="at least one"):
        BM25Search([])
