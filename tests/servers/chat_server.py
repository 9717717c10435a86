"""Local server with the endpoints of OpenAI's chat completions and Anthropic's messages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.servers.faulty_http import Body, Faults, serving


class ChatServer:
    """Server whose answers are `answer(body)`: a text, or (text or None, finish reason)."""

    def __init__(self) -> None:
        self.answer: Callable[[Body], Any] = lambda body: "cooperate"
        self.delay: Callable[[Body], float] = lambda body: 0.0
        self.trouble: list[int] = []
        """Error statuses of the next requests, which receive no answer."""
        self.raw: str | None = None
        """Body of every reply, if not None; its media type is `text_type`."""
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self.faults = Faults()
        self.text_type = "application/json"
        self.keeps_connections = False  # The clients under test do not close connections.
        self.url = ""
        self._now, self._lock = 0, threading.Lock()

    def struck_by_faults(self, path: str) -> bool:
        return True

    def reply(self, path: str, body: Body, headers: dict[str, str]) -> tuple[int, Any]:
        with self._lock:
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self.bodies.append(body)
            self.headers.append(headers)
            status = self.trouble.pop(0) if self.trouble else 200
        time.sleep(self.delay(body))
        with self._lock:
            self._now -= 1
        if status != 200:
            return status, {"error": {"type": "trouble", "message": f"no: {status}"}}
        if self.raw is not None:
            return 200, self.raw
        answered = self.answer(body)
        text, ending = answered if isinstance(answered, tuple) else (answered, None)
        shape = _as_openai if path.endswith("/chat/completions") else _as_anthropic
        assert shape is _as_openai or path.endswith("/v1/messages"), path
        answer = shape(body, text, ending)
        if body.get("stream"):
            self.text_type = "text/event-stream"
            return 200, _streamed(answer)
        return 200, answer


def _as_openai(body: Body, text: Any, ending: str | None) -> Body:
    refused = ending == "refusal"
    message = {"role": "assistant", "content": None if refused else text}
    return {
        "id": "1", "object": "chat.completion", "created": 0, "model": body["model"] + "-2026",
        "choices": [{
            "index": 0,
            "message": message | ({"refusal": text} if refused else {}),
            "finish_reason": "stop" if refused else ending or "stop",
        }],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    }  # fmt: skip


def _streamed(answer: Body) -> str:
    """Return an answer of OpenAI as a stream of two events: the whole text, and the end."""
    [choice] = answer["choices"]
    head = {**answer, "object": "chat.completion.chunk"}
    message = {**head, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    del message["usage"]
    return (
        "".join(f"data: {json.dumps(event)}\n\n" for event in (message, end)) + "data: [DONE]\n\n"
    )


def _as_anthropic(body: Body, text: Any, ending: str | None) -> Body:
    thought = {"type": "thinking", "thinking": "compete?", "signature": ""}
    return {
        "id": "1", "type": "message", "role": "assistant", "model": body["model"] + "-2026",
        "content": [thought, *([{"type": "text", "text": text}] if text else [])],
        "stop_reason": ending or "end_turn",
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 2},
    }  # fmt: skip


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Run the server; the SDKs find its address in their own environment variables."""
    server = ChatServer()
    with serving(server) as http, pytest.MonkeyPatch.context() as patch:
        server.url = f"http://127.0.0.1:{http.server_port}"
        patch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        patch.setenv("ANTHROPIC_BASE_URL", server.url)
        for api in ("OPENAI", "ANTHROPIC"):
            patch.setenv(f"{api}_API_KEY", "a key")
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1")
        yield server
