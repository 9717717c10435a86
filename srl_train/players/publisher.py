"""Publication of new weights to the backends that sample from a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend

DIGESTED_BYTES = 1 << 30
"""Weights of more bytes have no digest: reading them all would take longer than an update."""


class WeightPublisher(Protocol):
    """Brings weights to whoever samples from a model."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """From now on `name`, a model or an opponent pool, answers with these weights, and its
        answers are marked so. `tensors` are all its weights that train, by parameter name."""
        ...


@dataclass(frozen=True)
class InProcessPublisher:
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
