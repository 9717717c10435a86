"""Models behind an API, by the real SDKs, against a server on this machine."""

import asyncio
import json
import threading

import pytest

from srl_agents.errors import BackendError, PolicyError
from srl_agents.event_loop import run, together
from srl_agents.llm.backends.anthropic import AnthropicModel
from srl_agents.llm.backends.chat_backend import ChatRequest
from srl_agents.llm.backends.openai import OpenAIModel, arguments
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.sampling import Sampling

BOTH = ("openai:m", "anthropic:m")
PLAIN = Sampling(max_new_tokens=5)


def asking(words, sampling=PLAIN, seed=None):
    return ChatRequest(
        ({"role": "system", "content": "Rules."}, {"role": "user", "content": words}),
        sampling,
        seed,
    )


def ask(model, *requests):
    return run(together(*map(model.answer, requests)))


def impatient(name, **settings):
    return type(api_model(name))("m", max_retries=2, **settings)


def words_of(body):
    return body["messages"][-1]["content"]


def test_request_to_openai(server):
    sampling = Sampling(temperature=0.5, top_p=0.9, max_new_tokens=5)
    [answer] = ask(api_model("openai:m"), asking("Now?", sampling, seed=3))
    [body] = server.bodies
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Rules."},
            {"role": "user", "content": "Now?"},
        ],
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 5,
        "seed": 3,
    }
    assert server.headers[0]["authorization"] == "Bearer a key"
    assert (answer.text, answer.finish_reason, answer.ended) == ("cooperate", "stop", True)


def test_default_settings_are_not_sent_to_openai():
    for host in ("api.openai.com", "eu.api.openai.com"):
        assert arguments(Sampling(max_new_tokens=5), host) == {"max_completion_tokens": 5}
    for host in ("localhost", "openrouter.ai"):
        asked = arguments(Sampling(temperature=0.0, max_new_tokens=5), host)
        assert asked == {"max_tokens": 5, "temperature": 0.0, "top_p": 1.0}


def test_request_to_anthropic(server):
    said = ("Rules.", "First.", "", "Now?")
    roles = ("system", "user", "assistant", "user")
    messages = [{"role": r, "content": w} for r, w in zip(roles, said, strict=True)]
    [answer] = ask(api_model("anthropic:m"), ChatRequest(tuple(messages), PLAIN))
    # An empty answer cannot be sent; the API reads the turns around it as one.
    assert server.bodies == [
        {"model": "m", "system": "Rules.", "messages": [messages[1], messages[3]], "max_tokens": 5}
    ]
    assert server.headers[0]["authorization"] == "Bearer a key"
    assert (answer.text, answer.finish_reason, answer.ended) == ("cooperate", "end_turn", True)


@pytest.mark.parametrize("name", BOTH)
def test_transient_failures_are_retried(server, name):
    server.trouble = [429]
    server.faults.script.extend([None, "cut"])
    model = impatient(name)
    [answer] = ask(model, asking("Now?"))
    assert answer.text == "cooperate" and len(server.bodies) == 3
    assert model.usage.answers == 1


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    ("status", "tried_again"), [(429, True), (500, True), (401, False), (400, False), (404, False)]
)
def test_permanent_failures_are_raised_with_their_cause(server, name, status, tried_again):
    model = impatient(name)
    server.trouble = [status] * 9
    with pytest.raises(BackendError, match=rf"^{name}: .*{status}.*no: {status}"):
        ask(model, asking("Now?"))
    assert len(server.bodies) == (3 if tried_again else 1)


@pytest.mark.parametrize("name", BOTH)
def test_cancelled_requests_are_not_sent(server, name):
    over = threading.Event()

    def held(body):
        if "Now?" in str(body):
            over.wait(20)
        return 0.0

    server.delay = held
    model = type(api_model(name))("m", concurrency=1)

    async def asked():
        requests = [asyncio.ensure_future(model.answer(asking("Now?"))) for _ in range(5)]
        await asyncio.sleep(0.1)
        for one in reversed(
            requests
        ):  # The running request is cancelled last, so that no other starts.
            one.cancel()
        return await asyncio.gather(*requests, return_exceptions=True)

    assert all(isinstance(one, asyncio.CancelledError) for one in run(asked()))
    [answer] = ask(model, asking("Still there?"))
    over.set()
    assert answer.text == "cooperate" and len(server.bodies) <= 2 and model.usage.answers == 1


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(
    "raw",
    [
        "{}",
        "[]",
        '{"error": "busy"}',
        "not JSON at all",
        '{"choices": [], "content": null}',
        '{"choices": [{}], "content": [{}]}',
        '{"choices": ["cooperate"], "content": "cooperate"}',
        '{"choices": [{"message": {"content": [1]}}], "content": [{"type": "text"}]}',
    ],
)
def test_a_reply_without_an_answer_is_an_error(server, name, raw):
    server.raw = raw
    with pytest.raises(BackendError, match=rf"{name}: .*(reply contains no answer|JSON)"):
        ask(impatient(name), asking("Now?"))
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("name", "said", "text", "reason"),
    [
        ("openai:m", ("", "length"), "", "length"),
        ("openai:m", (None, "content_filter"), "", "content_filter"),
        ("openai:m", ("I will not.", "refusal"), "I will not.", "stop"),
        ("anthropic:m", ("", "max_tokens"), "", "max_tokens"),
        ("anthropic:m", ("I", "refusal"), "I", "refusal"),
    ],
)
def test_refusals_and_cut_answers_are_returned(server, name, said, text, reason):
    server.answer = lambda body: said
    [answer] = ask(api_model(name), asking("Now?"))
    assert (answer.text, answer.finish_reason, answer.ended) == (text, reason, False)


@pytest.mark.parametrize("name", BOTH)
def test_invented_names_do_not_fill_the_usage(server, name):
    def invent(body):
        server.raw = json.dumps(
            {
                "model": (label := f"{len(server.bodies)}\x1b[2J" + "x" * 10_000),
                "choices": [{"message": {"content": "yes"}, "finish_reason": label}],
                "content": [{"type": "text", "text": "yes"}],
                "stop_reason": label,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        )
        return 0.0

    server.delay = invent
    server.raw = ""
    model = impatient(name, concurrency=1)
    ask(model, *[asking("Now?")] * 3)
    for counts in (model.usage.models, model.usage.finish_reasons):
        assert sum(counts.values()) == len(counts) == 3
        assert all(len(label) <= 200 and label.isprintable() for label in counts)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("openai:m", {"top_k": 5}, "top_k must be 0, .*5"),
        ("openai:m", {"temperature": 2.5}, "temperature must be .*2.5"),
        ("anthropic:m", {"top_k": 5}, "top_k must be 0, .*5"),
        ("anthropic:m", {"top_p": 0.9}, "top_p must be 1, .*0.9"),
        ("anthropic:m", {"temperature": 0.0}, "temperature must be 1, .*0.0"),
    ],
)
def test_unsupported_sampling_settings_are_rejected(server, name, settings, said):
    model = api_model(name)
    for refuse in (model.check, lambda given: ask(model, asking("Now?", given))):
        with pytest.raises(PolicyError, match=said):
            refuse(Sampling(**settings))
    assert server.bodies == []


@pytest.mark.parametrize(
    ("name", "variable"), [("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named(name, variable, monkeypatch, tmp_path):
    for one in (variable, "OPENAI_ADMIN_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(one, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # where the SDK may find a profile
    with pytest.raises(BackendError, match=variable):
        api_model(name)


@pytest.mark.parametrize("model", [OpenAIModel, AnthropicModel])
@pytest.mark.parametrize("key", ["secret\n", " secret", "sec\x00ret", "secr\u00e9t"])
def test_an_invalid_key_is_rejected_and_not_quoted(model, key):
    with pytest.raises(BackendError, match=r"the key of .*:m must be printable ASCII") as refused:
        model("m", api_key=key)
    assert "sec" not in str(refused.value)


@pytest.mark.parametrize("model", [OpenAIModel, AnthropicModel])
@pytest.mark.parametrize(
    "url",
    ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://[::1", "http://127.0.0.1:99999",
     "http://127.0.0.1:8000\n"],
)  # fmt: skip
def test_an_invalid_address_is_rejected_before_any_request(model, url):
    with pytest.raises(BackendError, match="the address of a server must be such as http://"):
        model("m", api_key="any", base_url=url)
