"""A client reads this machine's certificates where it may need them."""

from types import SimpleNamespace

import pytest

from srl_agents.llm.backends.http_client import http_client

SDK = SimpleNamespace(DefaultAsyncHttpxClient=lambda **settings: settings)


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("", True),  # the SDK's own
        ("https://models.example/v1", True),
        ("https://127.0.0.1:8000/v1", True),
        ("HTTPS://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_certificates_are_checked_wherever_there_are_any(url, checked):
    assert http_client(SDK, url)["verify"] is checked
