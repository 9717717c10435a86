"""Managers on shared weights: nodes converse, updates reach all of them, nothing is mixed up."""

import pytest
import torch

from core_srl import (
    create_llama3_manager,
    create_qwen3_manager,
    create_qwen_coder_manager,
    create_qwen_math_manager,
)
from core_srl.errors import as_documented
from srl_agents.errors import BackendError
from srl_train.errors import ConfigError
from tests.core_srl.weights import logprobs_of

pytestmark = pytest.mark.usefixtures("one_thread")

BRIEF = {"max_new_tokens": 6, "temperature": 1.5}


@pytest.mark.parametrize(
    ("create", "length", "temperature"),
    [
        (create_qwen3_manager, 32768, 0.7),
        (create_qwen_coder_manager, 16384, 0.3),
        (create_qwen_math_manager, 8192, 0.2),
        (create_llama3_manager, 131072, 0.7),
    ],
)
def test_documented_functions_open_a_manager(create, length, temperature, tiny_folder):
    manager = create(model_name=tiny_folder, device="cpu")
    assert (manager.config.max_length, manager.config.temperature) == (length, temperature)
    manager.register_node("a", {"max_new_tokens": 4})
    response = manager.generate_for_node("a", "Round 1. Your choice?")
    assert response.tokens.completion_ids
    assert response.model.endswith("@0")


def test_node_keeps_its_history_and_settings(opened):
    manager = opened(temperature=1.5)
    chat = manager.backend.chat
    manager.register_node("a", {"system_prompt": "You are agent_0.", "max_new_tokens": 6})
    manager.register_node("b", {"max_new_tokens": 2, "temperature": 0.0})
    context = ()
    for turn in range(3):
        response = manager.generate_for_node("a", f"Round {turn}.")
        other = manager.generate_for_node("b", f"Round {turn}.")
        tokens = response.tokens
        context += tokens.prompt_ids
        assert response.prompt_tokens == len(context), "all of its own conversation, and no other's"
        assert response.completion_tokens == len(tokens.completion_ids) <= 6
        assert len(other.tokens.completion_ids) <= 2
        assert set(other.tokens.logprobs) == {0.0}, "temperature 0 takes the likeliest"
        expected = logprobs_of(manager.backend.model, context, tokens.completion_ids)
        torch.testing.assert_close(
            expected, torch.tensor(tokens.logprobs, dtype=expected.dtype), atol=1e-4, rtol=0
        )
        assert response.finish_reason == ("stop" if response.ended else "length")
        context += tokens.completion_ids
    assert "You are agent_0." in chat.text(context)
    assert all(f"Round {turn}." in chat.text(context) for turn in range(3))
    manager.register_node("a")
    again = manager.generate_for_node("a", "Round 0.")
    assert "agent_0" not in chat.text(again.tokens.prompt_ids), "begins anew"
    assert again.prompt_tokens == len(again.tokens.prompt_ids)


def test_max_length_limits_prompt_plus_answer(opened):
    manager = opened(max_length=40, temperature=1.5)
    manager.register_node("a")
    length = 0
    with pytest.raises(BackendError, match=r"max_length or the model allow 40"):
        for turn in range(40):
            response = manager.generate_for_node("a", f"Round {turn}.")
            length = response.prompt_tokens + response.completion_tokens
            assert length <= 40
    assert length > 20
    usage = manager.get_global_stats()["node_usage_stats"]["a"]
    assert usage["requests"] == turn, "what failed is not counted"


def test_unknown_node_or_empty_prompt_is_refused(opened):
    manager = opened()
    with pytest.raises(ValueError, match="node 'a' is not registered: there is none yet"):
        manager.generate_for_node("a", "Hello")
    manager.register_node("a")
    with pytest.raises(ConfigError, match="node 'b' is not registered: there is a"):
        manager.generate_for_node("b", "Hello")
    for wrong in ({"temprature": 1.0}, {"seed": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            manager.register_node("a", wrong)


def test_stats_count_requests_and_tokens(opened):
    manager = opened()
    manager.register_node("a", BRIEF)
    manager.register_node("b", BRIEF)
    responses = [manager.generate_for_node(name, "Round.") for name in "aab"]
    stats = manager.get_global_stats()
    assert stats["llm_backend"] == "huggingface"
    assert stats["registered_nodes_count"] == 2
    assert (stats["total_requests"], stats["total_updates"], stats["weights_version"]) == (3, 0, 0)
    assert stats["total_prompt_tokens"] == sum(one.prompt_tokens for one in responses)
    assert stats["node_usage_stats"]["a"]["completion_tokens"] == sum(
        one.completion_tokens for one in responses[:2]
    )


def test_insufficient_gpu_memory_raises_the_documented_error(opened, monkeypatch):
    manager = opened()
    manager.register_node("a")
    lack = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    def fail(*_, **__):
        raise lack

    monkeypatch.setattr(manager.backend.model, "forward", fail)
    with pytest.raises(RuntimeError, match="GPU memory insufficient: CUDA out of memory") as caught:
        manager.generate_for_node("a", "Hello")
    assert isinstance(caught.value, BackendError)
    assert "memory" in str(caught.value).lower()  # what the documented recovery looks for
    with pytest.raises(BackendError, match="GPU memory insufficient") as caught, as_documented():
        raise lack
    assert caught.value.__cause__ is lack
    with pytest.raises(RuntimeError, match=r"^something else$"), as_documented():
        raise RuntimeError("something else")
