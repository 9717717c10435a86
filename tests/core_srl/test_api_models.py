"""Managers of models behind an API, by the real SDKs, against a server on this machine."""

import importlib

import pytest

from core_srl import (
    LLMBackend,
    LLMConfig,
    SharedLLMManager,
    create_claude_manager,
    create_openai_manager,
)
from srl_agents.errors import BackendError, PolicyError
from srl_train.errors import UpdateError
from tests.servers.chat_server import chat_server


@pytest.fixture
def server(monkeypatch):
    with chat_server() as running:
        for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(proxy, "http://127.0.0.1:9")  # leads nowhere, and not to here
        for proxy in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(proxy, raising=False)
        running.port = int(running.url.rpartition(":")[2])
        yield running


def vllm(server, **settings):
    return SharedLLMManager(
        LLMConfig(backend="vllm", model_name="base", port=server.port, **settings)
    )


@pytest.mark.parametrize("create", [create_openai_manager, create_claude_manager])
def test_documented_functions_ask_the_api(create, server):
    manager = create("m", api_key="the key")
    manager.register_node("a", {"system_prompt": "Be brief.", "max_new_tokens": 5})
    response = manager.generate_for_node("a", "Now?")
    assert (response.text, response.model, response.ended) == ("cooperate", "m-2026", True)
    assert (response.prompt_tokens, response.completion_tokens) == (10, 2)
    assert response.tokens is None
    assert "the key" in " ".join(server.headers[0].values())
    with pytest.raises(UpdateError, match="out of reach"):
        manager.update_shared_parameters({"weight": [1.0]}, learning_rate=0.1)
    stats = manager.get_global_stats()
    assert (stats["total_updates"], stats["weights_version"]) == (0, None)
    assert (stats["total_prompt_tokens"], stats["total_completion_tokens"]) == (10, 2)


def test_whole_conversation_is_sent_with_the_nodes_settings(server):
    manager = create_openai_manager("m")
    manager.register_node("a", {"system_prompt": "Be brief.", "top_p": 0.9, "seed": 1})
    manager.register_node("b", {"temperature": 0.0})
    for words in ("First?", "Then?"):
        manager.generate_for_node("a", words)
        manager.generate_for_node("b", words, max_new_tokens=3)
    first, other, body, _ = server.bodies
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "First?"},
        {"role": "assistant", "content": "cooperate"},
        {"role": "user", "content": "Then?"},
    ]
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.9, 2048)
    assert other["messages"] == [{"role": "user", "content": "First?"}]
    assert (other["temperature"], other["max_tokens"]) == (0.0, 3)
    seeds = [first["seed"], body["seed"]]
    assert seeds[0] != seeds[1]
    manager.register_node("a", {"seed": 1})
    manager.generate_for_node("a", "First?")
    assert server.bodies[-1]["seed"] == seeds[0]
    assert server.bodies[-1]["messages"] == [{"role": "user", "content": "First?"}], "begins anew"


def test_vllm_requests_use_the_port_and_no_openai_key(server):
    manager = vllm(server)
    manager.register_node("b")
    assert manager.generate_for_node("b", "Now?").model == "base-2026"
    assert {headers["authorization"] for headers in server.headers} == {"Bearer none"}
    own = vllm(server, api_key="its own")
    own.register_node("a")
    own.generate_for_node("a", "Now?")
    assert server.headers[-1]["authorization"] == "Bearer its own"


@pytest.mark.parametrize(
    ("create", "package"), [(create_openai_manager, "openai"), (create_claude_manager, "anthropic")]
)
def test_api_error_is_a_backend_error_and_an_sdk_error(create, package, server):
    package = importlib.import_module(package)  # seconds, which only who runs this has to wait
    manager = create("m")
    manager.register_node("a")
    server.trouble = [400]
    with pytest.raises(package.APIError, match=r"API error: .*:m: BadRequest.*no: 400") as caught:
        manager.generate_for_node("a", "Now?")
    error = caught.value
    assert isinstance(error, BackendError)
    assert isinstance(error, RuntimeError)
    assert isinstance(error, package.BadRequestError)
    assert error.status_code == 400
    assert error.response.status_code == 400
    assert manager.get_global_stats()["total_requests"] == 0
    manager.generate_for_node("a", "Now?")
    assert len(server.bodies[-1]["messages"]) == 1, "the conversation is as before the failure"


def test_unsupported_api_settings_are_refused_before_a_request(server, monkeypatch):
    with pytest.raises(PolicyError, match=r"temperature must be 1"):
        SharedLLMManager(LLMConfig(backend=LLMBackend.ANTHROPIC, model_name="m"))
    manager = create_claude_manager("m")
    with pytest.raises(PolicyError, match="top_k must be 0"):
        manager.register_node("a", {"top_k": 3})
    manager.register_node("a")
    with pytest.raises(PolicyError, match=r"temperature must be 1"):
        manager.generate_for_node("a", "Now?", temperature=0.5)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BackendError, match="openai:m needs a key"):
        create_openai_manager("m")
    assert not server.bodies
