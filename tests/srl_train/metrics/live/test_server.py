"""The live page's server: what it gives to whom, and what it keeps to itself."""

import contextlib
import http.client
import json
import socket
import threading

import pytest
from starlette.testclient import TestClient

from srl_train.metrics.live import hub
from srl_train.metrics.live import server as live
from srl_train.metrics.live.server import ASSETS, server
from srl_train.metrics.sinks import JsonlSink
from tests.srl_train.metrics.report.pages import words
from tests.srl_train.metrics.report.synthetic_runs import row, write_run

TOKEN = "a-token-of-the-test"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(hub, "POLL", 0.05)
    monkeypatch.setattr(hub, "LOOK", 0.1)


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
    assert page.text.count("<script") == page.text.count("<script src=") == 4
    for name in ASSETS:
        kind = "css" if name.endswith("css") else "javascript"
        asset = client.get(f"/assets/{name}")
        assert f'"/assets/{name}"' in page.text
        assert asset.status_code == 200 and kind in asset.headers["content-type"]
        assert asset.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2fpage.py", "/assets/%2e%2e/page.py", "/config.yaml",
        "/events?run=two", "/events?run=../runs/one", "/events?run=/etc",
        "/game?run=one&file=../config.yaml", "/game?run=one&file=../metrics.jsonl",
        "/game?run=two&file=round_00000.jsonl", "/game?run=one&file=round_00000.jsonl&number=-1",
        "/game?run=one&file=round_00000.jsonl&number=x", "/game",
    ],
)  # fmt: skip
def test_what_is_not_served_is_not_found(client, path):
    assert client.get(path).status_code == 404


def test_a_sample_episode_is_given_as_the_report_shows_it(client):
    found = client.get("/game?run=one&file=round_00000.jsonl").json()
    assert found["count"] == 1
    [transcript] = found["blocks"]
    assert transcript["kind"] == "transcript"
    assert "agent_3" in words(transcript) and "cooperate" in words(transcript)
    missing = client.get("/game?run=one&file=round_00000.jsonl&number=7").json()
    assert "cannot be read" in words(missing["blocks"])


def test_a_sample_episode_beyond_the_limit_is_not_parsed(client, monkeypatch):
    monkeypatch.setattr(live, "LARGEST_EPISODE", 100)
    monkeypatch.setattr(live, "from_json", lambda text: pytest.fail("it was parsed"))
    found = client.get("/game?run=one&file=round_00000.jsonl").json()
    assert "must be at most 100 bytes" in words(found["blocks"])


def test_a_number_of_many_digits_is_no_games(client):
    path = f"/game?run=one&file=round_00000.jsonl&number={'0' * 4}{'9' * 5000}"
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_is_read_only(client, method):
    assert client.request(method, "/").status_code == 405


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
    [
        ("http://127.0.0.1:8421", 200),
        ("http://127.0.0.1:3000", 421),
        ("http://evil.example", 421),
        ("null", 421),
        ("http://[::1", 421),
    ],
)
def test_requests_from_other_sites_are_refused(client, origin, code):
    assert client.get("/", headers={"origin": origin}).status_code == code


def test_the_token_opens_the_page_and_leaves_the_address(runs):
    client = TestClient(server([runs], token=TOKEN).config.app, base_url="http://127.0.0.1")
    for path in ("/", "/assets/page.js", "/events", "/game", f"/events?token={TOKEN}", "/?token=x"):
        assert client.get(path).status_code == 401
    for headers in (
        {"authorization": "Bearer x"},
        {"cookie": "srl_watch_80=x"},
        {"cookie": "\xff;="},
    ):
        raw = {name: value.encode("latin-1") for name, value in headers.items()}
        assert client.get("/", headers=raw).status_code == 401
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/", headers=bearer).status_code == 200
    welcome = client.get(f"/?token={TOKEN}", follow_redirects=False)
    assert welcome.status_code == 303 and welcome.headers["location"] == "/"
    assert "httponly" in welcome.headers["set-cookie"].lower()
    assert client.get("/").status_code == 200  # by the cookie


def test_two_pages_of_one_host_are_open_in_one_browser(runs):
    jar = {}  # its cookies are by host, for all ports
    for port, token in ((8001, "one"), (8002, "two")):
        client = TestClient(
            server([runs], token=token).config.app, base_url=f"http://127.0.0.1:{port}"
        )
        assert client.get(f"/?token={token}", follow_redirects=False).status_code == 303
        jar.update(client.cookies)
    for port, token in ((8001, "one"), (8002, "two")):
        client = TestClient(
            server([runs], token=token).config.app, base_url=f"http://127.0.0.1:{port}"
        )
        client.cookies.update(jar)
        assert client.get("/").status_code == 200


@contextlib.contextmanager
def serving(folders, port=0, **settings):
    """A real server at a port, which is given back."""
    listener = socket.create_server(("127.0.0.1", port))
    served = server(folders, **settings)
    thread = threading.Thread(target=served.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        served.should_exit = True
        thread.join()
        listener.close()


class Reader:
    """Reads events as a browser does."""

    def __init__(self, port, path, last=""):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self._connection.request("GET", path, headers={"Last-Event-ID": last} if last else {})
        self._answer = self._connection.getresponse()
        assert self._answer.getheader("content-type").startswith("text/event-stream")

    def next(self, *names):
        """(id, name, data) of the next event of these names."""
        event = {}
        while True:
            line = self._answer.readline().decode().rstrip("\n")
            if line:
                key, _, value = line.partition(": ")
                event[key] = value
            elif event.get("event") in names:
                return event.get("id"), event["event"], json.loads(event["data"])
            else:
                event = {}

    def close(self):
        self._answer.close()
        self._connection.close()


def test_rounds_arrive_as_they_end_and_readers_go_on_where_they_were(runs):
    with serving([runs]) as port:
        reader = Reader(port, "/events?run=one")
        _, _, document = reader.next("document")
        assert "round 3 of 40" in words(document)
        sink = JsonlSink(runs / "one" / "metrics.jsonl")
        sink.write(row(3))
        last, _, changes = reader.next("changes")
        assert "round 4 of 40" in words(changes) and len(json.dumps(changes)) < len(
            json.dumps(document)
        )
        reader.close()
        sink.write(row(4))
        again = Reader(port, "/events?run=one", last)
        _, name, changes = again.next("changes", "document")
        assert name == "changes" and "round 5 of 40" in words(changes)
        again.close()
        sink.close()
    with serving([runs]) as port:  # started anew
        other = Reader(port, "/events?run=one", last)
        _, name, document = other.next("changes", "document")
        assert name == "document" and "round 5 of 40" in words(document)
        other.close()


def test_whether_there_are_events_is_answered_and_the_connection_goes_on(runs):
    with serving([runs]) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for method, path, code in (("HEAD", "/events?run=one", 200), ("GET", "/game", 404)):
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == code
        connection.close()


def test_of_readers_who_come_at_once_no_more_are_served(runs, monkeypatch):
    monkeypatch.setattr("srl_train.metrics.live.server.MOST_READERS", 3)
    asked = b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving([runs]) as port, contextlib.ExitStack() as ends:
        readers = [ends.enter_context(socket.create_connection(("127.0.0.1", port), 20))
                   for _ in range(40)]  # fmt: skip
        for reader in readers:
            reader.sendall(asked)
        served = 0
        for reader in readers:
            told, more = b"", b"something"
            while more and b"event: document" not in told:
                told += (more := reader.recv(2**16))
            served += b"event: document" in told
        assert served == 3


def test_an_open_page_does_not_make_the_end_of_the_server_an_error(runs, capfd):
    with serving([runs]) as port:
        reader = Reader(port, "/events?run=one")
        reader.next("document")
    reader.close()
    assert "Traceback" not in capfd.readouterr().err


def test_the_overview_shows_runs_that_appear(runs):
    with serving([runs]) as port:
        reader = Reader(port, "/events")
        _, _, document = reader.next("document")
        assert "One run" in words(document) and "one" in words(document["blocks"])
        write_run(runs / "late")
        _, _, changes = reader.next("changes")
        assert "2 runs" in words(changes) and "late" in words(changes)
        reader.close()


def test_a_run_that_was_given_alone_is_the_page(runs):
    with serving([runs / "one"]) as port:
        reader = Reader(port, "/events")
        _, _, document = reader.next("document")
        assert "round 3 of 40" in words(document)
        reader.close()
