"""Publication of new weights to the backends that sample from a model."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

DIGESTED_BYTES = 1 << 30
"""Weights of more bytes have no digest: reading them all would take longer than an update."""


class WeightPublisher(ABC):
    """Publishes weights to the samplers of a model."""

    @abstractmethod
    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Sample new answers of `name`, a model or an opponent pool, from these weights, and mark
        them with the version. `tensors` are all weights that train, by parameter name."""

    def publish_update(
        self,
        name: str,
        version: int,
        publish: Callable[[], None],
        mean_reward: Callable[[int], float | None],
    ) -> None:
        """Publish the weights of an update, if this publisher publishes every update.

        Args:
            name: Model.
            version: Number of the model's updates.
            publish: Publishes the newest weights.
            mean_reward: Evaluates the sampler in a number of episodes.
        """
        publish()


@dataclass(frozen=True)
class InProcessPublisher(WeightPublisher):
    """Publishes to backends that sample from modules of this process."""

    backends: Mapping[str, HuggingFaceBackend]
    """Model or pool -> what samples for it."""
    snapshots: Mapping[str, Any]
    """Pool, or model that is played while it learns -> its module, which takes copies of the
    weights. Another model in training has none: its backend samples from the very module that its
    learner trains."""
    adapters: frozenset[str]
    """Those that are adapters of their backend's model, by their own name."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """See WeightPublisher. Waits for a batch that is being sampled."""
        backend, adapter = self.backends[name], name if name in self.adapters else None
        digest = weights_digest(tensors)
        with backend.lock:
            if name in self.snapshots:
                held = dict(self.snapshots[name].named_parameters())
                with torch.no_grad():
                    for parameter in held.keys() & tensors.keys():  # a critic does not play
                        held[parameter].copy_(tensors[parameter])
            if adapter is None:
                backend.weights_version = version
            else:
                backend.adapter_versions[adapter] = version
            if digest is None:
                backend.digests.pop(adapter, None)
            else:
                backend.digests[adapter] = digest


def weights_digest(weights: Mapping[str, Tensor]) -> str | None:
    """BLAKE2b of names and values, in hexadecimal; None for weights that are sharded over processes
    and for more than DIGESTED_BYTES."""
    held = weights.values()
    if (
        any(isinstance(own, DTensor) for own in held)
        or sum(own.nbytes for own in held) > DIGESTED_BYTES
    ):
        return None
    digest = hashlib.blake2b(digest_size=16)
    for name, own in sorted(weights.items()):
        digest.update(f"{name} {own.dtype} {tuple(own.shape)}".encode())
        digest.update(own.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
