"""Search: BM25 on one's own documents, and a live server behind the same call."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.tools.errors import ToolError
from srl_envs.tools.problems import towns
from srl_envs.tools.search import (
    BM25Search,
    Document,
    SearxngSearch,
    load_documents,
    shipped,
    told,
)

DOCUMENTS = (
    Document("Cats", "A cat sleeps. The cat eats."),
    Document("Dogs", "A dog barks at the cat."),
    Document("Trees", "A tree grows."),
)


def test_the_most_fitting_comes_first():
    found = BM25Search(DOCUMENTS).search("CAT", 3)
    assert [document.title for document in found] == ["Cats", "Dogs"]


@pytest.mark.parametrize("query", ["zebra", "zebra \ud800"])
def test_what_is_not_there_is_not_found(query):
    assert told(BM25Search(DOCUMENTS).search(query, 3)) == "Nothing was found."


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
    assert load_documents(path) == (Document("a", "b"),)
    path.write_text('{"title": "a"}\n')
    with pytest.raises(EnvConfigError, match="line 1"):
        load_documents(path)
    with pytest.raises(EnvConfigError, match="at least one"):
        BM25Search([])


@pytest.fixture
def server():
    """A search server that answers "broken" with nonsense."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            query = parse_qs(urlparse(self.path).query)["q"][0]
            results = [{"title": query, "content": f"about {query}", "url": "http://x/"}] * 5
            body = b"<html>" if query == "broken" else json.dumps({"results": results}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_live_server_is_asked(server):
    live = SearxngSearch(server)
    assert (
        live.search("towns & rivers", 2)
        == [Document("towns & rivers", "about towns & rivers", "http://x/")] * 2
    )
    with pytest.raises(ToolError, match="cannot be read"):
        live.search("broken", 2)


def test_a_server_that_is_not_there_is_told():
    with pytest.raises(ToolError, match="cannot be reached"):
        SearxngSearch("http://127.0.0.1:1", timeout=1.0).search("x", 1)
    with pytest.raises(EnvConfigError, match="begins with http"):
        SearxngSearch("file:///etc/passwd")
