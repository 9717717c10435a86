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
"""How transformers' models ask whether they are handed a mask for each kind of layer."""


@dataclass(frozen=True)
class AttentionMasks:
    """The masks that a model takes ready to be added to its scores.

    That is faster than having every layer make its own. And a window is counted in the tokens of
    the conversation, where a model counts the slots of its cache, padding included.
    """

    dtype: torch.dtype
    windows: Mapping[str, int | None]
    """Kind of layer -> how many tokens it looks back, its own included; None for all."""
    mapping: bool
    """Whether the model takes one mask per kind, by name; else it has one kind."""

    def __call__(self, real: Tensor, positions: Tensor, width: int) -> Tensor | dict[str, Tensor]:
        """What the newest `width` slots may look at: all that is real and not after them.

        `real` and `positions` (rows, slots): whether a slot holds a token, and which one of its
        conversation. Masks have the shape (rows, 1, width, slots).
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
    """The masks that `model` takes; None for one that makes its own out of what is no padding.

    It takes them where it makes its masks with transformers' own `create_causal_mask` and nothing
    else in it looks at the mask, as position biases (ALiBi) would.
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


@dataclass(frozen=True)
class CacheUse:
    """What is kept now, and what keeping it saved so far."""

    conversations: int
    """Whose caches are kept."""
    tokens: int
    """Places that are kept, padding of the batches included."""
    nbytes: int
    """Bytes of the keys and values."""
    asked: int
    """Tokens of all contexts so far."""
    reused: int
    """Of these, how many were in a kept cache and not read again."""
    dropped: int
    """Conversations whose cache went because too much was kept."""


class KeptCaches:
    """Which conversation has which row of which cache, the longest unused first.

    Conversations that were answered in one batch share a cache, which goes as a whole: what was
    dropped is read again at the conversation's next turn.
    """

    def __init__(self) -> None:
        self.most_tokens: int | None = None
        """Places that are kept at most; None keeps all that is in play."""
        self.most_bytes: int | None = None
        """The same in bytes."""
        self._handles: dict[int, CacheHandle] = {}
        self._asked = self._reused = self._dropped = 0

    def of(self, conversation: int | None) -> CacheHandle | None:
        """The conversation's place; None where nothing of it is kept."""
        return None if conversation is None else self._handles.get(conversation)

    def count(self, contexts: Sequence[Sequence[int]], kept: KeptCache | None) -> None:
        """A batch with these contexts is answered, going on from `kept` where there is one."""
        self._asked += sum(map(len, contexts))
        self._reused += 0 if kept is None else sum(map(len, kept.read))

    def keep(self, conversations: Sequence[int | None], kept: KeptCache) -> None:
        """The conversations' newest places; then the longest unused go while it is too much."""
        for conversation, handle in zip(conversations, kept.handles(), strict=True):
            if conversation is not None:
                self._handles.pop(conversation, None)
                self._handles[conversation] = handle
        while self._too_much():
            there = list(self._handles.items())
            gone = [one for one, handle in there if handle.kept is there[0][1].kept]
            for one in gone:
                self.release(one)
            self._dropped += len(gone)

    def release(self, conversation: int) -> None:
        """Its place may go."""
        self._handles.pop(conversation, None)

    def clear(self) -> None:
        """Nothing is kept any more."""
        self._handles.clear()

    def use(self) -> CacheUse:
        """What is kept, and what it saved."""
        # A conversation may be released in another thread meanwhile: hence the copy.
        handles = list(self._handles.values())
        caches = {id(handle.kept): handle.kept for handle in handles}.values()
        return CacheUse(
            len(handles),
            sum(cache.tokens for cache in caches),
            sum(cache.nbytes for cache in caches),
            self._asked,
            self._reused,
            self._dropped,
        )

    def _too_much(self) -> bool:
        if self.most_tokens is None and self.most_bytes is None:
            return False
        use = self.use()
        limits = ((use.tokens, self.most_tokens), (use.nbytes, self.most_bytes))
        return use.conversations > 0 and any(most is not None and n > most for n, most in limits)
