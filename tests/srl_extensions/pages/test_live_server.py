"""The live page's server: access, and documents with an ETag."""

import http.client
import json
import re
import socket
import threading
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from srl_extensions.pages import live_server
from srl_extensions.pages.live_server import server
from srl_train.cli import main
from srl_train.metrics.sinks import JsonlSink
from tests.srl_extensions.pages.pages import words
from tests.srl_extensions.pages.synthetic_runs import row, write_run


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path / "runs" / "one", rows=[row(number) for number in range(3)])
    return tmp_path / "runs"


@pytest.fixture
def client(runs):
    with TestClient(server([runs]).config.app, base_url="http://127.0.0.1:8421") as found:
        yield found


def test_the_page_loads_its_own_scripts_and_nothing_else(client):
    page = client.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert page.text.count("<script") == page.text.count("<script src=") == 3
    paths = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(paths) == 6
    for path in paths:
        kind = "css" if path.endswith("css") else "javascript"
        asset = client.get(path)
        assert asset.status_code == 200 and kind in asset.headers["content-type"]
        assert asset.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2freport.py", "/assets/%2e%2e/report.py", "/config.yaml",
        "/document?run=two", "/document?run=../runs/one", "/document?run=/etc",
    ],
)  # fmt: skip
def test_other_paths_are_not_found(client, path):
    assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("request_settings", "code"),
    [({"url": "/document"}, 200), ({"url": "/x"}, 404),
     ({"url": "/", "headers": {"host": "x"}}, 421)],
)  # fmt: skip
def test_answers_have_the_security_headers(client, request_settings, code):
    answer = client.get(**request_settings)
    assert answer.status_code == code
    for name, value in live_server.HEADERS.items():
        assert answer.headers[name] == value


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_server_is_read_only(client, method):
    assert client.request(method, "/document").status_code == 405


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("127.0.0.1:8421", 200), ("localhost:8421", 200), ("[::1]:8421", 200), ("192.168.1.5", 200),
        ("box.lan:8421", 200), ("evil.example", 421), ("evil.example:8421", 421), ("", 421),
        ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("[::1", 421),
        ("evil@localhost", 200),
    ],
)  # fmt: skip
def test_other_names_of_this_host_are_refused(runs, host, code):
    client = TestClient(server([runs], names=["Box.lan"]).config.app)
    assert client.get("/", headers={"host": host}).status_code == code


@pytest.mark.parametrize(
    ("origin", "code"),
    [("http://127.0.0.1:8421", 200), ("http://127.0.0.1:3000", 421), ("http://evil.example", 421),
     ("null", 421), ("", 421), ("http://[::1", 421)],
)  # fmt: skip
def test_requests_from_other_sites_are_refused(client, origin, code):
    assert client.get("/document", headers={"origin": origin}).status_code == code


def test_a_document_is_sent_again_only_if_it_changed(client, runs):
    first = client.get("/document?run=one")
    assert "round 3 of 40" in words(first.json())
    known = {"if-none-match": first.headers["etag"]}
    same = client.get("/document?run=one", headers=known)
    assert same.status_code == 304 and same.content == b""
    sink = JsonlSink(runs / "one" / "metrics.jsonl")
    sink.write(row(3))
    sink.close()
    second = client.get("/document?run=one", headers=known)
    assert second.status_code == 200 and "round 4 of 40" in words(second.json())
    assert second.headers["etag"] != first.headers["etag"]


def test_the_overview_shows_runs_that_appear(client, runs):
    document = client.get("/document").json()
    assert "One run" in words(document) and "one" in words(document["blocks"])
    write_run(runs / "late")
    document = client.get("/document").json()
    assert "2 runs" in words(document) and "late" in words(document)


# The process


@contextmanager
def serving(folders):
    """Serve at a free port in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    served = server(folders)
    thread = threading.Thread(target=served.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        served.should_exit = True
        thread.join()
        listener.close()


def test_the_server_ends_while_a_page_is_open(runs, capfd):
    with serving([runs]) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/document?run=one")
        assert "round 3 of 40" in words(json.loads(connection.getresponse().read()))
    connection.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_port_in_use_is_refused(tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        assert main(["watch", str(tmp_path), "--port", port]) == 2
    assert "--port" in capsys.readouterr().err
