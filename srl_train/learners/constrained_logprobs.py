"""Log-probabilities of constrained choices, under the mask they were sampled with.

A choice among legal answers is drawn from the softmax over the ids that continue one of them.
Its log-probability, and the gradient, must be taken under the same renormalised distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Allowed = Sequence[tuple[int, ...] | None]
"""Per completion token of one row, the ids it was chosen from; None where sampling was free."""


def mask_logits(logits: Tensor, allowed: Sequence[Allowed]) -> Tensor:
    """Logits (B, T, V) with everything but `allowed[b][t]` pushed to the dtype's minimum.

    Where `allowed[b][t]` is None, or t lies beyond the row's length, nothing changes.
    """
    forbidden = torch.zeros(logits.shape, dtype=torch.bool)
    for row, positions in enumerate(allowed):
        for position, ids in enumerate(positions):
            if ids is not None:
                forbidden[row, position] = True
                forbidden[row, position, list(ids)] = False
    # The minimum, not -inf: the entropy's 0 * log 0 stays 0.
    return logits.masked_fill(forbidden.to(logits.device), torch.finfo(logits.dtype).min)


def constrained_log_probs(
    model: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    logits_to_keep: int,
    allowed: Sequence[Allowed],
    temperature: float,
) -> tuple[Tensor, Tensor]:
    """(log-probabilities, entropies), each (B, T), of the last `logits_to_keep` tokens.

    TRL's fused head never forms the logits that a mask could be put on, so they are computed in
    full: (B, T, V) floats at once.
    """
    output = model(
        input_ids=input_ids,
        attention_mask=attention_mask,
        logits_to_keep=logits_to_keep + 1,
        use_cache=False,
    )
    logits = mask_logits(output.logits[:, :-1].float() / temperature, allowed)
    logps = logits.log_softmax(-1)
    entropies = -(logps.exp() * logps).sum(-1)
    targets = input_ids[:, -logits_to_keep:]
    return logps.gather(-1, targets.unsqueeze(-1)).squeeze(-1), entropies
