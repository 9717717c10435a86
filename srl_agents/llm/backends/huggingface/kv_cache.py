"""Key-value caches of conversations, kept between answers, and their attention masks."""

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
"""Names of the kinds of layers in the configurations of transformers."""
_TAKES_A_MAPPING = "isinstance(causal_mask_mapping := attention_mask, dict)"
"""Code of models in transformers that accept one mask per kind of layer."""


@dataclass(frozen=True)
class AttentionMasks:
    """Additive attention masks, computed once for all layers.

    A slot of a row contains a token or padding. Windows are measured in tokens, without padding.
    """

    dtype: torch.dtype
    windows: Mapping[str, int | None]
    """Kind of layer -> window in tokens; None for no window."""
    mapping: bool
    """True if the model accepts one mask per kind."""

    def __call__(self, real: Tensor, positions: Tensor, width: int) -> Tensor | dict[str, Tensor]:
        """Return the mask (rows, 1, width, slots) of the last `width` slots, or a mask per kind.

        Tokens up to a slot and in its window are 0, all other slots the dtype's minimum. `real`
        (rows, slots) is 1 for a token, 0 for padding; `positions` (rows, slots) are those of the
        tokens in their conversations.
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
    """Return the masks that a model accepts, or None if the model must compute its own.

    Supported are most models with sdpa or eager attention that use transformers'
    `create_causal_mask`, without ALiBi, and with windows of one length.
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
    """Row of a conversation in a cache, valid while `turn` equals `kept.turn`."""

    kept: KeptCache
    row: int
    turn: int


class KeptCache:
    """Key-value cache of a batch of conversations.

    Each forward pass appends slots to all rows, with padding on the left of shorter inputs. `keeps`
    is False if a layer supports padding only in the first pass; the cache is then not reused.
    """

    def __init__(
        self,
        config: Any,
        models: Sequence[ModelVersion],
        device: torch.device,
        masks: AttentionMasks | None = None,
    ):
        """Create a cache with one empty row per entry of `models`, the row's weights.

        `config` is the model's configuration, `masks` the result of `masks_for(model)`. If `masks`
        is None, the model computes its own masks; `keeps` is then False with windowed layers.
        """
        self._config, self._device, self._masks = config, device, masks
        self.models = list(models)
        """Version of the weights of each row."""
        self.turn = 0
        """Number of batches that used the cache; handles of earlier ones are invalid."""
        self.forget()
        # Recurrent layers do not support padding inside a conversation.
        self.keeps = all(type(layer) is DynamicLayer for layer in self._cache.layers)

    def forget(self) -> None:
        """Remove all slots and tokens of all rows; the rows remain."""
        self._cache = DynamicCache(config=self._config)
        if self._masks is not None:
            # A windowed layer would drop slots. All are kept, and its mask hides the old ones.
            self._cache.layers = [
                DynamicLayer() if type(layer) is DynamicSlidingWindowLayer else layer
                for layer in self._cache.layers
            ]
        self._mask = torch.ones((len(self.models), 0), dtype=torch.long, device=self._device)
        self._positions = self._mask
        self.read: list[list[int]] = [[] for _ in self.models]
        """Token ids in the cache, per row."""

    @property
    def tokens(self) -> int:
        """Number of slots of all rows, with padding."""
        return self._mask.numel()

    def select(self, rows: Sequence[int]) -> None:
        """Replace the rows by the rows with these indices, which may be repeated."""
        if list(rows) == list(range(len(self.read))):
            return
        index = torch.tensor(rows, device=self._device)
        self._cache.batch_select_indices(index)
        self._mask, self._positions = self._mask[index], self._positions[index]
        self.read = [list(self.read[row]) for row in rows]
        self.models = [self.models[row] for row in rows]

    def inputs(self, feeds: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Append `feeds`, one list of token ids per row, and return arguments of the forward pass.

        The pass returns logits of the last column only, which contains the last token of each row
        whose feed is not empty.
        """
        width = max(len(feed) for feed in feeds)
        ids = np.zeros((len(feeds), width), dtype=np.int64)  # Padding may have any valid id.
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
    """Return a cache for a batch if the requests can continue it, otherwise None.

    All handles must refer to different rows of one cache, with the same weights, that contain
    proper prefixes of the contexts. The rows of the cache become those of the batch, in its order;
    other rows are dropped, and earlier handles of the cache become invalid.
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


class KeptCaches:
    """Caches of conversations, with an optional limit on their size, `most_tokens`.

    The conversations of a batch share a cache, and are dropped together.
    """

    def __init__(self) -> None:
        self.most_tokens: int | None = None
        """Maximum number of slots, with padding; None for no limit."""
        self.reused = 0
        """Number of tokens that were found in a cache so far."""
        self.dropped = 0
        """Number of conversations that were dropped because of the limit."""
        self._handles: dict[int, CacheHandle] = {}

    @property
    def tokens(self) -> int:
        """Number of slots of all caches, with padding."""
        # The copy is necessary because other threads may release conversations.
        caches = {id(handle.kept): handle.kept for handle in list(self._handles.values())}
        return sum(cache.tokens for cache in caches.values())

    def of(self, conversation: int | None) -> CacheHandle | None:
        """Return the last handle of a conversation, which may be invalid; None without one."""
        return None if conversation is None else self._handles.get(conversation)

    def keep(self, conversations: Sequence[int | None], kept: KeptCache) -> None:
        """Store `kept`; `conversations` has the id of each row, or None for a row to ignore.

        Above `most_tokens` slots, the least recently used caches are dropped, `kept` last.
        """
        for row, conversation in enumerate(conversations):
            if conversation is not None:
                self._handles.pop(conversation, None)
                self._handles[conversation] = CacheHandle(kept, row, kept.turn)
        while self.most_tokens is not None and self._handles and self.tokens > self.most_tokens:
            handles = list(self._handles.items())
            for one, handle in handles:
                if handle.kept is handles[0][1].kept:
                    self.release(one)
                    self.dropped += 1

    def release(self, conversation: int) -> None:
        """Remove a conversation, if known; the last one of a cache also frees the cache."""
        self._handles.pop(conversation, None)
