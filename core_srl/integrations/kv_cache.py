"""Manager of the key-value caches that models of this process keep of their conversations."""

from __future__ import annotations

from typing import Any

from core_srl.arguments import whole
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_train.errors import ConfigError

POLICIES = ("adaptive", "lru")
"""What goes first where too much is kept: both are the longest unused."""


class KVCacheManager:
    """Bounds, counts and clears what models keep of their conversations between turns.

    The bounds are each model's own. Answers do not depend on what is kept: a conversation that went
    is read again at its next turn.
    """

    def __init__(
        self,
        max_cache_size: int = 10_000,
        cache_policy: str = "adaptive",
        *,
        max_memory_gb: float | None = None,
    ) -> None:
        """`max_cache_size` is in tokens, `max_memory_gb` in 10**9 bytes. Raises ConfigError."""
        if max_memory_gb is not None and not max_memory_gb > 0:
            raise ConfigError(f"max_memory_gb is {max_memory_gb}: give more than 0, or None")
        if cache_policy not in POLICIES:
            raise ConfigError(
                f"cache_policy is {cache_policy!r}: give one of {', '.join(POLICIES)}; "
                "keys and values go by whole batches, the longest unused first"
            )
        self.max_cache_size = whole("max_cache_size", max_cache_size, 1)
        self.cache_policy = cache_policy
        self.max_memory_gb = max_memory_gb
        self._backends: list[HuggingFaceBackend] = []

    def manage(self, model: Any) -> None:
        """Bound the caches of `model` from its next answer on: a HuggingFaceBackend, or what has
        one as its `backend`, such as a SharedLLMManager or a LoRAManager.

        Raises ConfigError for others. A vLLM server sizes its cache when it starts, by
        `memory_utilization` and the like (docs/agents/serving.md).
        """
        backend = getattr(model, "backend", model)
        if not isinstance(backend, HuggingFaceBackend):
            raise ConfigError(
                f"{type(model).__name__} keeps no key-value cache in this process: give a "
                "HuggingFaceBackend, or a manager of a Hugging Face model"
            )
        gigabytes = self.max_memory_gb
        backend.caches.most_tokens = self.max_cache_size
        backend.caches.most_bytes = None if gigabytes is None else int(gigabytes * 1e9)
        if all(known is not backend for known in self._backends):
            self._backends.append(backend)

    def get_stats(self) -> dict[str, Any]:
        """What is kept and what it saved, in tokens, over all managed models.

        `hits` are tokens of contexts that were kept, `misses` those that were read, `size` what is
        kept now and `memory_usage` its bytes; `conversations` are kept, `evictions` were dropped.
        """
        uses = []
        for backend in self._backends:
            with backend.lock:
                uses.append(backend.caches.use())
        asked, hits = sum(use.asked for use in uses), sum(use.reused for use in uses)
        return {
            "models": [backend.name for backend in self._backends],
            "hits": hits,
            "misses": asked - hits,
            "hit_rate": hits / asked if asked else None,
            "size": sum(use.tokens for use in uses),
            "max_cache_size": self.max_cache_size,
            "memory_usage": sum(use.nbytes for use in uses),
            "conversations": sum(use.conversations for use in uses),
            "evictions": sum(use.dropped for use in uses),
        }

    def clear(self) -> None:
        """Keep nothing of what was said so far."""
        for backend in self._backends:
            with backend.lock:
                backend.caches.clear()


def create_kv_cache_manager(
    max_cache_size: int = 10_000, cache_policy: str = "adaptive"
) -> KVCacheManager:
    """A manager that keeps so many tokens of each model; `manage` names the models."""
    return KVCacheManager(max_cache_size, cache_policy)
