"""Weights of tokens that another engine, or other weights, sampled: truncated or masked ratios."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from torch import Tensor

Correction = Literal["none", "tis", "mis"]
Level = Literal["token", "sequence"]


def sampler_weights(
    trainer_logps: Tensor,
    sampler_logps: Tensor,
    mask: Tensor,
    correction: Correction,
    level: Level,
    cap: float,
) -> Tensor:
    """What each token's loss is multiplied by: trainer's over sampler's probability (B, T), or of
    all a row's tokens together (B, 1).

    `tis` cuts ratios off at `cap` (truncated importance sampling: Yao et al. 2025), `mis` gives
    those above it a weight of 0 (masked). The formulas are TRL's, of its
    `vllm_importance_sampling_mode` `token_truncate`, `token_mask`, `sequence_truncate` and
    `sequence_mask`. Tokens that are masked, or have no log-probability (NaN), count as equal.
    """
    apart = ((trainer_logps - sampler_logps) * mask).nan_to_num(nan=0.0)
    ratio = (apart.sum(-1, keepdim=True) if level == "sequence" else apart).exp()
    if correction == "tis":
        return ratio.clamp(max=cap)
    return ratio.masked_fill(ratio > cap, 0.0)


class Divergence(NamedTuple):
    """Sampler and trainer compared, over tokens that the model chose."""

    absolute: float
    """Sum of the absolute differences in log-probability."""
    largest: float
    """The largest of them."""
    beyond: float
    """Tokens whose ratio, trainer over sampler, is above the cap."""
    kl: float
    """Sum of Schulman's k3 estimates of KL(sampler || trainer)."""
    tokens: float


def divergence(
    trainer_logps: Tensor, sampler_logps: Tensor, mask: Tensor, cap: float
) -> Divergence:
    """The comparison over the places (B, T) where the mask is 1."""
    ratio = (trainer_logps - sampler_logps)[mask.bool()].float()
    if not len(ratio):
        return Divergence(0.0, 0.0, 0.0, 0.0, 0.0)
    return Divergence(
        ratio.abs().sum().item(),
        ratio.abs().max().item(),
        (ratio > math.log(cap)).sum().item(),
        (ratio.expm1() - ratio).sum().item(),
        float(len(ratio)),
    )
