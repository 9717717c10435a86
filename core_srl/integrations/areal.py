"""AReaL beside this library: its workflow of our games, its statistics, and our caches' bounds."""

from __future__ import annotations

from typing import Any

from core_srl.integrations.kv_cache import KVCacheManager
from srl_envs.loading import needed_by


class ArealIntegration:
    """What AReaL needs of ours, and bounds on the key-value caches of models of this process."""

    def __init__(self, cache_size: int = 10_000, max_memory_gb: float = 8.0) -> None:
        """`cache_size` is in tokens of each model. Raises ConfigError, as KVCacheManager does."""
        self._cache = KVCacheManager(cache_size, max_memory_gb=max_memory_gb)

    def get_cache(self) -> KVCacheManager:
        """The manager of caches; `manage` names the models."""
        return self._cache

    def get_stats(self) -> dict[str, Any]:
        """KVCacheManager.get_stats."""
        return self._cache.get_stats()

    def get_metrics(self) -> dict[str, float]:
        """What AReaL's workflows recorded in this process since the last call, by its own tracker:
        reward, num_turns and unreadable_answers of games. Raises ImportError without AReaL."""
        with needed_by("AReaL's statistics"):
            from areal.utils import stats_tracker
        metrics: dict[str, float] = stats_tracker.export_all()
        return metrics

    def workflow(self, gconfig: Any, tokenizer: Any, *, trusted: bool = False) -> Any:
        """The rollout workflow that plays our games (docs/verl_areal.md). Raises
        ImportError without AReaL."""
        from srl_agents.integrations.areal import SrlWorkflow

        return SrlWorkflow(gconfig, tokenizer, trusted)


def create_areal_integration(
    cache_size: int = 10_000, max_memory_gb: float = 8.0
) -> ArealIntegration:
    """See ArealIntegration."""
    return ArealIntegration(cache_size, max_memory_gb)
