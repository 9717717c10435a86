"""Key-value caches of conversations, kept from turn to turn, and their attention masks."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from srl_agents.episode import ModelVersion

FULL, WINDOWED = "full_attention", "sliding_attention"
"""Kinds of layers, as transformers' configurations name them."""
_TAKES_A_MAPPING = "isinstance(causal_mask_mapping := attention_mask, dict)"
"""Code of models that accept a mask for each kind of layer."""


@dataclass(frozen=True)
class AttentionMasks:
    """Additive attention masks, made once for all layers.

    Windows count tokens of the conversation, not slots of the cache with padding.
    """

    dtype: torch.dtype
    windows: Mapping[str, int | None]
    """Kind of layer -> window in tokens; None for all."""
    mapping: bool
    """True if the model accepts one mask per kind."""

    def __call__(self, real: Tensor, positions: Tensor, width: int) -> Tensor | dict[str, Tensor]:
        """Return masks of shape (rows, 1, width, slots) for the newest `width` slots.

        `real` and `positions` (rows, slots): 1 for a token, and its position in the
        conversation.
        """
        visible = real.bool()[:, None, None]
        if width > 1:
            slots = torch.arange(real.shape[1], device=real.device)
            visible = visible & (slots <= slots[-width:, None])
        masks = {}
        for kind, window in self.windows.items():
            near = visible
            if window is not None:
                first = positions[:, None, -width:, None] - window
                near = visible & (positions[:, None, None] > first)
            mask = torch.zeros(near.shape, dtype=self.dtype, device=real.device)
            masks[kind] = mask.masked_fill_(~near, torch.finfo(self.dtype).min)
        return masks if self.mapping else next(iter(masks.values()))


def masks_for(model: Any) -> AttentionMasks | None:
    """Return the masks that `model` accepts, or None if the model must make its own.

    The model must use transformers' `create_causal_mask`, and no position biases such as ALiBi.
    """
    whole = model.get_base_model() if hasattr(model, "get_base_model") else model
    written_in = sys.modules[type(whole).__module__]
    if (
        not hasattr(written_in, "create_causal_mask")
        or hasattr(written_in, "build_alibi_tensor")
        or whole.config._attn_implementation not in ("sdpa", "eager")
    ):
        return None
    config = whole.config.get_text_config()
    layers = DynamicCache(config=config).layers
    kinds = {type(layer) for layer in layers}
    if DynamicSlidingWindowLayer not in kinds:
        return AttentionMasks(model.dtype, {FULL: None}, mapping=False)
    widths = {getattr(layer, "sliding_window", None) for layer in layers} - {None}
    if not kinds <= {DynamicLayer, DynamicSlidingWindowLayer} or len(widths) > 1:
        return None
    windows = {FULL: None, WINDOWED: widths.pop()}
    named = set(getattr(config, "layer_types", None) or ())
    if named and named <= set(windows) and _TAKES_A_MAPPING in inspect.getsource(written_in):
        return AttentionMasks(model.dtype, {kind: windows[kind] for kind in named}, mapping=True)
    if kinds == {DynamicSlidingWindowLayer}:
        return AttentionMasks(model.dtype, {WINDOWED: windows[WINDOWED]}, mapping=False)
    return None


@dataclass(frozen=True, eq=False)
class CacheHandle:
    """Row of a conversation in a cache."""

    kept: KeptCache
    row: int
    turn: int


class KeptCache:
    """Key-value cache of a batch of conversations.

    Rows are padded on the left of each piece, so the tokens of a row need not be adjacent.
    """

    def __init__(
        self,
        config: Any,
        models: Sequence[ModelVersion],
        device: torch.device,
        masks: AttentionMasks | None = None,
    ):
        """Create one empty row per entry of `models`."""
        self._config, self._device, self._masks = config, device, masks
        self.models = list(models)
        """Weights that read each row."""
        self.turn = 0
        """Number of uses; older handles are invalid."""
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
        """Number of slots, with padding."""
        return self._mask.numel()

    def select(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order, with repetition."""
        if list(rows) == list(range(len(self.read))):
            return
        index = torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._mask, self._positions = self._mask[index], self._positions[index]
        self.read = [list(self.read[row]) for row in rows]
        self.models = [self.models[row] for row in rows]

    def inputs(self, feeds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return the arguments of a forward pass that reads `feeds`, one list per row.

        The last column contains the last token of every row with a feed.
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
    """Return the cache that contains a prefix of every context, with rows in order, or None."""
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


class KeptCaches:
    """Caches of conversations, least recently used first.

    Conversations of one batch share a cache, which is dropped as a whole.
    """

    def __init__(self) -> None:
        self.most_tokens: int | None = None
        """Limit in slots, with padding, or None."""
        self.reused = 0
        """Number of tokens found in a cache so far."""
        self.dropped = 0
        """Number of conversations dropped because of the limit."""
        self._handles: dict[int, CacheHandle] = {}

    def __len__(self) -> int:
        return len(self._handles)

    @property
    def tokens(self) -> int:
        """Number of slots, with padding."""
        # A conversation may be released in another thread meanwhile: hence the copy.
        caches = {id(handle.kept): handle.kept for handle in list(self._handles.values())}
        return sum(cache.tokens for cache in caches.values())

    def of(self, conversation: int | None) -> CacheHandle | None:
        return None if conversation is None else self._handles.get(conversation)

    def keep(self, conversations: Sequence[int | None], kept: KeptCache) -> None:
        """Store the new handles, then drop caches beyond the limit."""
        for row, conversation in enumerate(conversations):
            if conversation is not None:
                self._handles.pop(conversation, None)
                self._handles[conversation] = CacheHandle(kept, row, kept.turn)
        while self.most_tokens is not None and self._handles and self.tokens > self.most_tokens:
            there = list(self._handles.items())
            gone = [one for one, handle in there if handle.kept is there[0][1].kept]
            for one in gone:
                self.release(one)
            self.dropped += len(gone)

    def release(self, conversation: int) -> None:
        self._handles.pop(conversation, None)

    def clear(self) -> None:
        self._handles.clear()
