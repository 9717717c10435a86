"""Key-value cache of a batch of conversations, kept from turn to turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from srl_agents.episode import ModelVersion
from srl_agents.llm.backends.huggingface.attention_masks import AttentionMasks


@dataclass(frozen=True, eq=False)
class CacheHandle:
    """One conversation's place in a kept cache."""

    kept: KeptCache
    row: int
    turn: int


class KeptCache:
    """What a model has read of each conversation of a batch.

    Rows are padded on the left of every piece they read, so a row's tokens need not be adjacent:
    the mask says which slots are real, and positions are counted per row.
    """

    def __init__(
        self,
        config: Any,
        models: Sequence[ModelVersion],
        device: torch.device,
        masks: AttentionMasks | None = None,
    ):
        """One empty row per entry of `models`; `masks` are those that the model takes."""
        self._config, self._device, self._masks = config, device, masks
        self.models = list(models)
        """Per row, the weights that read it."""
        self.turn = 0
        """Raised at every use: an older handle no longer describes the cache."""
        self.forget()
        # Recurrent layers do not survive padding inside a conversation.
        self.keeps = all(type(layer) is DynamicLayer for layer in self._cache.layers)

    def forget(self) -> None:
        """Empty the cache; the rows stay."""
        self._cache = DynamicCache(config=self._config)
        if self._masks is not None:
            # A windowed layer would drop slots; all are kept, and its mask hides what is too old.
            self._cache.layers = [
                DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer
                for layer in self._cache.layers
            ]
        self._mask = torch.ones((len(self.models), 0), dtype=torch.long, device=self._device)
        self._positions = self._mask
        self.read: list[list[int]] = [[] for _ in self.models]
        """Per row, the token ids in the cache."""

    @property
    def tokens(self) -> int:
        """Places that it holds, padding included."""
        return self._mask.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of its keys and values."""
        layers = (layer for layer in self._cache.layers if layer.is_initialized)
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)

    def handles(self) -> list[CacheHandle]:
        """One per row, good until the cache is used again."""
        return [CacheHandle(self, row, self.turn) for row in range(len(self.models))]

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order; a row that is named twice goes on as two."""
        if list(rows) == list(range(len(self.read))):
            return
        index = torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._mask, self._positions = self._mask[index], self._positions[index]
        self.read = [list(self.read[row]) for row in rows]
        self.models = [self.models[row] for row in rows]

    def inputs(self, feeds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Arguments of a forward pass that reads `feeds` (one list per row; empty = wait).

        The last column holds the last token of every row that reads something.
        """
        width = max(len(feed) for feed in feeds)
        ids = np.zeros((len(feeds), width), dtype=np.int64)  # id 0 where masked: any valid id does
        mask = np.zeros_like(ids)
        positions = np.zeros_like(ids)
        for row, feed in enumerate(feeds):
            if feed:
                start, done = width - len(feed), len(self.read[row])
                ids[row, start:] = feed
                mask[row, start:] = 1
                positions[row, start:] = np.arange(done, done + len(feed))
                self.read[row].extend(feed)
        newest = self._tensor(positions)
        self._mask = torch.cat([self._mask, self._tensor(mask)], dim=1)
        self._positions = torch.cat([self._positions, newest], dim=1)
        ready = None if self._masks is None or not self.keeps else self._masks
        return {
            "input_ids": self._tensor(ids),
            "attention_mask": ready(self._mask, self._positions, width) if ready else self._mask,
            "position_ids": newest,
            "past_key_values": self._cache,
            "use_cache": True,
            "logits_to_keep": 1,
        }

    def _tensor(self, values: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)


def reusable(
    contexts: Sequence[Sequence[int]],
    models: Sequence[ModelVersion],
    handles: Sequence[CacheHandle | None],
) -> KeptCache | None:
    """The one cache in which every context has been begun by the model that goes on, else None.

    Its rows are brought into the order of `contexts`; rows that nobody asks for are dropped.
    """
    if not handles or handles[0] is None:
        return None
    kept, rows = handles[0].kept, []
    for context, model, handle in zip(contexts, models, handles, strict=True):
        if (
            handle is None
            or handle.kept is not kept
            or handle.turn != kept.turn
            or kept.models[handle.row] != model
        ):
            return None
        read = kept.read[handle.row]
        if len(read) >= len(context) or list(context[: len(read)]) != read:
            return None
        rows.append(handle.row)
    if len(set(rows)) < len(rows):
        return None
    kept.turn += 1
    kept.select(rows)
    return kept
