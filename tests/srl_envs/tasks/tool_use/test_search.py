"""Search: BM25 on one's own documents, and a live server behind the same call."""

import contextlib
import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

import pytest

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use.env import parallel_env
from srl_envs.tasks.tool_use.generators import asked, towns
from srl_envs.tasks.tool_use.parsing import ToolCall
from srl_envs.tasks.tool_use.search import (
    EXCERPT,
    LARGEST_REPLY,
    BM25Search,
    Document,
    SearxngSearch,
    as_text,
    load_documents,
    shipped,
)
from srl_envs.tasks.tool_use.tools import ToolError

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
    assert load_documents(path) == (Document("a", "b"),)
    path.write_text('{"title": "a"}\n')
    with pytest.raises(EnvConfigError, match="line 1"):
        load_documents(path)
    with pytest.raises(EnvConfigError, match="at least one"):
        BM25Search([])


RESULTS = [{"title": "T", "content": "about it", "url": "http://x/"}] * 5
REPLIES = {  # what is asked -> status, headers, pieces of the body
    "html": (200, {}, [b"<html>"]),
    "nested": (200, {}, [b'{"results": ' + b"[" * 100_000]),
    "deep": (200, {}, [b'{"results": ' + b"[" * 300 + b"]" * 300 + b"}"]),
    "number": (200, {}, [b"3"]),
    "null": (200, {}, [b'{"results": null}']),
    "mapping": (200, {}, [b'{"results": {"0": "x"}}']),
    "text": (200, {}, [b'{"results": "many"}']),
    "latin": (200, {}, [b'{"results": "\xff"}']),
    "digits": (200, {}, [b'{"results": ' + b"9" * 5000 + b"}"]),
    "huge": (200, {}, [b'{"results": [' + b" " * 2**21 + b"]}"]),
    "short": (200, {"Content-Length": "999"}, [b"{"]),
    "long": (200, {"Content-Length": "-7"}, [b"{"]),
    "endless chunk": (
        200,
        {"Transfer-Encoding": "chunked"},
        itertools.chain([b"-1\r\n"], itertools.repeat(b" " * 2**20)),
    ),
    "chunks": (200, {"Transfer-Encoding": "chunked"}, [b"zz\r\n{}"]),
    "elsewhere": (302, {"Location": "/search?q=towns"}, []),
    "file": (302, {"Location": "file:///etc/passwd"}, []),
    "gone": (500, {}, [b"<html>"]),
    "nothing": (None, {}, []),
    "noise": (None, {}, [b"\x00\xff" * 99]),
    "drip": (200, {}, itertools.repeat(b" ")),
    "drip of headers": (
        None,
        {},
        itertools.chain([b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"a")),
    ),
}


sent = {}  # bytes of each reply that went out


@pytest.fixture
def server():
    """A search server that finds five results, or answers what REPLIES has for the query."""
    over = threading.Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            query = parse_qs(urlparse(self.path).query)["q"][0]
            results = json.dumps({"results": RESULTS}).encode()
            status, headers, body = REPLIES.get(query, (200, {}, [results]))
            if status is not None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
            with contextlib.suppress(OSError):  # whoever asked has hung up
                for piece in body:
                    self.wfile.write(piece)
                    sent[query] = sent.get(query, 0) + len(piece)
                    if not isinstance(body, list) and over.wait(0.01):
                        break

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        over.set()
        server.shutdown()
        thread.join()


def test_a_live_server_is_asked(server):
    for address in (server, f"{server}/"):
        found = SearxngSearch(address).search("towns & rivers", 2)
        assert found == [Document("T", "about it", "http://x/")] * 2


@pytest.mark.parametrize("query", REPLIES)
def test_nonsense_of_a_live_server_is_an_error_of_the_tool(server, query):
    with pytest.raises(ToolError, match="the search server"):
        SearxngSearch(server, timeout=0.2 if "drip" in query else 10.0).search(query, 2)


def test_no_more_is_read_than_is_kept(server):
    with pytest.raises(ToolError, match="cannot be read"):
        SearxngSearch(server, timeout=2.0).search("endless chunk", 2)
    assert sent["endless chunk"] < 32 * LARGEST_REPLY  # what buffers take included


def test_results_that_are_none_are_passed_over(server, monkeypatch):
    none = [3, None, [], "x", {}, {"title": 3}, {"title": "T", "content": ["x"]}, {"url": "u"}]
    odd = [*none, {"title": None, "content": "only text"}, {"title": "a\nb " * 300, "url": None}]
    monkeypatch.setitem(REPLIES, "odd", (200, {}, [json.dumps({"results": odd}).encode()]))
    one, other = SearxngSearch(server).search("odd", 9)
    assert one == Document("", "only text") and "\n" not in other.title
    assert len(other.title) <= EXCERPT


def test_a_run_goes_on_when_the_search_server_answers_nonsense(server):
    problem = asked("Where?", "there", required_tools=["search"])
    env = parallel_env(problems=[problem], search=SearxngSearch(server))
    env.reset(seed=0)
    for query in ("nested", "short", "elsewhere"):
        seen, _, _, _, infos = env.step({"agent_0": ToolCall("search", {"query": query}).written()})
        assert "Error: the search server" in seen["agent_0"]["text"]
    assert infos["agent_0"]["failed_calls"] == 3


def test_a_missing_server_is_an_error():
    with pytest.raises(ToolError, match="cannot be reached"):
        SearxngSearch("http://127.0.0.1:1", timeout=1.0).search("x", 1)


@pytest.mark.parametrize("address", ["file:///etc/passwd", "http://", "http://x:y", "localhost"])
def test_an_address_is_one_of_a_web_server(address):
    with pytest.raises(EnvConfigError, match="a search server's address"):
        SearxngSearch(address)
