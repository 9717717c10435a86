"""Search over documents by BM25."""

import pytest

from srl_envs.tasks.tool_use.builtin_tools import BM25Search, SearchDocument, Toolbox, shipped
from srl_envs.tasks.tool_use.generators import towns
from srl_envs.tasks.tool_use.tools import ToolError

DOCUMENTS = (
    SearchDocument("Cats", "A cat sleeps. The cat eats."),
    SearchDocument("Dogs", "A dog barks at the cat."),
    SearchDocument("Trees", "A tree grows."),
)


def test_best_documents_come_first():
    search = BM25Search(DOCUMENTS)
    assert [document.title for document in search.search("CAT", 3)] == ["Cats", "Dogs"]
    assert Toolbox(["search"], search=search).search("zebra \ud800") == "Nothing was found."
    with pytest.raises(ToolError, match="no word"):
        search.search("?!", 3)


def test_every_shipped_town_is_found_by_its_name():
    assert len(towns()) == 40
    for town in towns():
        [first] = shipped().search(town, 1)
        assert first.title == town and town in first.text
