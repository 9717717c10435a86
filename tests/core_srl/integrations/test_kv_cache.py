"""The manager's numbers are those of real caches, and its bounds hold."""

import pytest

from core_srl import create_areal_integration, create_kv_cache_manager, create_qwen3_manager
from core_srl.integrations.kv_cache import KVCacheManager
from srl_train.errors import ConfigError


@pytest.fixture
def model(tiny_folder):
    manager = create_qwen3_manager(tiny_folder, device="cpu")
    for node in ("red", "blue"):
        manager.register_node(node, {"max_new_tokens": 4})
    return manager


def test_what_conversations_keep_is_counted_and_cleared(model):
    cache = create_kv_cache_manager()
    cache.manage(model)
    cache.manage(model.backend)  # the same one
    first = model.generate_for_node("red", "Round 1 of 3. What do you choose?")
    told = cache.get_stats()
    assert (told["conversations"], told["hits"], told["evictions"]) == (1, 0, 0)
    assert told["misses"] == first.prompt_tokens
    assert told["size"] > 0 and told["memory_usage"] > told["size"]
    model.generate_for_node("red", "Round 2 of 3. What do you choose?")
    again = cache.get_stats()
    assert again["hits"] >= first.prompt_tokens
    assert again["hit_rate"] == again["hits"] / (again["hits"] + again["misses"])
    cache.clear()
    assert (cache.get_stats()["size"], cache.get_stats()["conversations"]) == (0, 0)
    model.generate_for_node("red", "Round 3 of 3. What do you choose?")
    assert cache.get_stats()["hits"] == again["hits"], "it was all read again"


def test_no_more_is_kept_than_asked_for(model):
    cache = create_kv_cache_manager(max_cache_size=100)
    cache.manage(model)
    for turn in range(1, 4):
        for node in ("red", "blue"):
            model.generate_for_node(node, f"Round {turn} of 3. What do you choose?")
            assert cache.get_stats()["size"] <= 100
    assert cache.get_stats()["evictions"]


def test_bytes_are_a_bound_too(model):
    integration = create_areal_integration(max_memory_gb=1e-9)
    integration.get_cache().manage(model)
    model.generate_for_node("red", "Round 1 of 3. What do you choose?")
    assert integration.get_stats()["memory_usage"] == 0
    assert integration.get_stats()["evictions"] == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_cache_size": 0}, "max_cache_size is 0: give a whole number, 1 or more"),
        ({"max_cache_size": 1.5}, "max_cache_size is 1.5: give a whole number"),
        ({"max_memory_gb": 0}, "max_memory_gb is 0: give more than 0"),
        ({"cache_policy": "lfu"}, "cache_policy is 'lfu': give one of adaptive, lru"),
    ],
)
def test_settings_that_mean_nothing(settings, words):
    with pytest.raises(ConfigError, match=words):
        KVCacheManager(**settings)


def test_what_keeps_no_cache_here_is_refused():
    with pytest.raises(ConfigError, match="str keeps no key-value cache in this process"):
        KVCacheManager().manage("http://localhost:8000")
