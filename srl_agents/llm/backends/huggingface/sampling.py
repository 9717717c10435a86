"""Sampling of one token per row from logits, each row with its own settings and random number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from srl_agents.errors import BackendError
from srl_agents.llm.sampling import Sampling


class TokenDraw:
    """Sampling settings of a batch's rows as tensors."""

    def __init__(self, rows: Sequence[Sampling], device: torch.device):
        temperatures = [row.temperature or 1.0 for row in rows]
        # Temperature 0 is the single most likely token.
        counts = [row.top_k if row.temperature else 1 for row in rows]
        shares = [row.top_p for row in rows]
        self._temperatures = _column(temperatures, device) if set(temperatures) != {1.0} else None
        self._narrowed = any(counts) or any(share < 1 for share in shares)
        most = torch.iinfo(torch.int64).max
        self._counts = _column([min(count, most) or most for count in counts], device)
        self._shares = _column(shares, device)
        # Cumulative sums over a large vocabulary want double precision; Apple's GPUs have none.
        self._wide = torch.float32 if device.type == "mps" else torch.float64

    def __call__(
        self,
        logits: Tensor,
        uniforms: Sequence[float],
        allowed: Sequence[tuple[int, ...] | None],
        rows: Sequence[int],
    ) -> tuple[list[int], list[float]]:
        """Return tokens and their log-probabilities for `rows` of the batch.

        Inverse transform sampling: the same uniform and the same distribution give the same token.
        `logits` have the shape (batch, vocabulary); the other arguments have one entry per row of
        `rows`. Raises BackendError if logits are not finite.
        """
        everyone = len(rows) == len(logits)
        scores = logits.float() if everyone else logits[list(rows)].float()
        if any(ids is not None for ids in allowed):
            scores = scores.masked_fill(_blocked(scores, allowed), -torch.inf)
        if self._temperatures is not None:
            scores = scores / (self._temperatures if everyone else self._temperatures[list(rows)])
        if self._narrowed:
            counts = self._counts if everyone else self._counts[list(rows)]
            shares = self._shares if everyone else self._shares[list(rows)]
            scores = _narrow(scores, counts, shares)
        logprobs = scores.log_softmax(-1)
        mass = logprobs.exp().to(self._wide).cumsum(-1)
        total = mass[:, -1:]
        if not bool(total.isfinite().all()):
            raise BackendError(
                "the model's output is not finite: its weights have diverged (was the learning "
                "rate too high?) or are damaged"
            )
        point = torch.tensor(uniforms, dtype=self._wide, device=mass.device)[:, None] * total
        # Rounding must not lift the point onto the total: past it there are only impossible tokens.
        point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))
        tokens = torch.searchsorted(mass, point, right=True)
        return tokens[:, 0].tolist(), logprobs.gather(1, tokens)[:, 0].tolist()


def _column(values: Sequence[float], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)[:, None]


def _blocked(scores: Tensor, allowed: Sequence[tuple[int, ...] | None]) -> Tensor:
    blocked = torch.ones(scores.shape, dtype=torch.bool)
    rows = [row for row, ids in enumerate(allowed) for _ in ids or ()]
    columns = [token for ids in allowed for token in ids or ()]
    blocked[rows, columns] = False
    blocked[[row for row, ids in enumerate(allowed) if ids is None]] = False
    return blocked.to(scores.device)


def _narrow(scores: Tensor, counts: Tensor, shares: Tensor) -> Tensor:
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(scores.shape[-1], device=scores.device)[None]
    ordered = ordered.masked_fill(ranks >= counts, -torch.inf)
    shares_so_far = ordered.softmax(-1).cumsum(-1)
    before = shares_so_far - ordered.softmax(-1)
    # The most likely token always stays, whatever rounding says.
    ordered = ordered.masked_fill((before >= shares) & (shares < 1) & (ranks > 0), -torch.inf)
    return torch.empty_like(scores).scatter_(1, order, ordered)


@contextmanager
def compact_head_input(model: Any) -> Iterator[None]:
    """Make the inputs of the head contiguous in the block.

    With a frozen head in half precision on a CPU, torch 2.13 copies the whole head for every row
    of a view: 53 s instead of 0.07 s per token, for 16 rows and a vocabulary of 262k.
    """
    head = model.get_output_embeddings()
    if head is None or model.device.type != "cpu" or model.dtype == torch.float32:
        yield
        return

    def compact(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        # `contiguous` leaves the strides of a single row as they are.
        return (inputs[0].clone(memory_format=torch.contiguous_format), *inputs[1:])

    handle = head.register_forward_pre_hook(compact)
    try:
        yield
    finally:
        handle.remove()
