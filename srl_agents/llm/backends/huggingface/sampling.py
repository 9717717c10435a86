"""Sampling of one token per row from logits, with settings and a random number per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from srl_agents.errors import BackendError
from srl_agents.llm.sampling import Sampling


class TokenDraw:
    """Sampler with one Sampling per row of a batch."""

    def __init__(self, rows: Sequence[Sampling], device: torch.device):
        temperatures = [row.temperature or 1.0 for row in rows]
        # Temperature 0 is replaced by top_k = 1, the single most likely token.
        counts = [row.top_k if row.temperature else 1 for row in rows]
        shares = [row.top_p for row in rows]
        self._temperatures = _column(temperatures, device) if set(temperatures) != {1.0} else None
        self._narrowed = any(counts) or any(share < 1 for share in shares)
        most = torch.iinfo(torch.int64).max
        self._counts = _column([min(count, most) or most for count in counts], device)
        self._shares = _column(shares, device)
        # Cumulative sums over a large vocabulary need double precision, which Apple's GPUs lack.
        self._wide = torch.float32 if device.type == "mps" else torch.float64

    def __call__(
        self,
        logits: Tensor,
        uniforms: Sequence[float],
        allowed: Sequence[tuple[int, ...] | None],
        rows: Sequence[int],
    ) -> tuple[list[int], list[float]]:
        """Sample one token for each row in `rows`; return token ids and sampling log-probabilities.

        `logits` have the shape (batch, vocabulary); `rows` are increasing indices into the batch.
        `uniforms` (in [0, 1)) and `allowed` (token ids; None for all) have one entry per entry
        of `rows`. Raises BackendError for non-finite logits.
        """
        all_rows = len(rows) == len(logits)
        scores = logits.float() if all_rows else logits[list(rows)].float()
        if any(ids is not None for ids in allowed):
            scores = scores.masked_fill(_blocked(scores, allowed), -torch.inf)
        if self._temperatures is not None:
            scores = scores / (self._temperatures if all_rows else self._temperatures[list(rows)])
        if self._narrowed:
            counts = self._counts if all_rows else self._counts[list(rows)]
            shares = self._shares if all_rows else self._shares[list(rows)]
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
        # A point rounded up to the total would select an impossible token.
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
    # The most likely token is kept in spite of rounding errors.
    ordered = ordered.masked_fill((before >= shares) & (shares < 1) & (ranks > 0), -torch.inf)
    return torch.empty_like(scores).scatter_(1, order, ordered)


@contextmanager
def compact_head_input(model: Any) -> Iterator[None]:
    """Make the output layer's inputs contiguous in the block; only for half precision on a CPU.

    Otherwise, torch 2.13 copies the whole layer for every row of an input that is a view.
    """
    head = model.get_output_embeddings()
    if head is None or model.device.type != "cpu" or model.dtype == torch.float32:
        yield
        return

    def compact(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        # `contiguous` would not change the strides of a single row.
        return (inputs[0].clone(memory_format=torch.contiguous_format), *inputs[1:])

    handle = head.register_forward_pre_hook(compact)
    try:
        yield
    finally:
        handle.remove()
