"""Attention masks of padded conversations, made once for all layers of a kind."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

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
