"""Training on constrained choices with the masking they were sampled under.

A choice among legal answers is drawn from the softmax over the ids that continue one of them.
Its log-probability, and the gradient, must be taken under the same renormalised distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from srl_train.samples import TokenSample


def mask_logits(logits: Tensor, allowed: Sequence[Sequence[tuple[int, ...] | None]]) -> Tensor:
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


class ConstrainedLogProbs:
    """Mixin over TRL's GRPOTrainer: token log-probabilities under the sampling constraint.

    TRL's fused head never forms the logits that a mask could be put on, so for constrained
    samples they are computed in full: (B, T, V) floats at once.
    """

    def allow(self, samples: Sequence[TokenSample]) -> None:
        """Remember which ids each sample's tokens were chosen from.

        TRL shuffles and splits the rows, so they are found again by their own tokens.
        """
        self._allowed = {
            s.prompt_ids + s.completion_ids: s.allowed for s in samples if s.allowed is not None
        }

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        if not self._allowed:
            free: tuple[Tensor, Tensor | None, Tensor | None] = (
                super()._get_per_token_logps_and_entropies(  # type: ignore[misc]
                    model, input_ids, attention_mask, logits_to_keep, *args, **kwargs
                )
            )
            return free
        rows = [
            tuple(ids[mask.bool()].tolist())
            for ids, mask in zip(input_ids, attention_mask, strict=True)
        ]
        output = model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            logits_to_keep=logits_to_keep + 1,
            use_cache=False,
        )
        logits = output.logits[:, :-1].float() / self.temperature  # type: ignore[attr-defined]
        logits = mask_logits(logits, [self._allowed.get(row, ()) for row in rows])
        logps = logits.log_softmax(-1)
        entropies = -(logps.exp() * logps).sum(-1)
        targets = input_ids[:, -logits_to_keep:]
        return logps.gather(-1, targets.unsqueeze(-1)).squeeze(-1), entropies, None
