"""Log-probabilities of the tokens that a model chose.

At a large vocabulary the output head costs more than all layers below it. It therefore computes
only the logits of chosen tokens, and for choices among few ids only those of these ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from srl_train.samples import TokenSample

Allowed = tuple[int, ...] | None
"""Ids that a token was chosen from; None for the whole vocabulary."""
Choices = Sequence[tuple[int, int, Allowed]]
"""Row and column of each token that the model chose, and its allowed ids."""


class LogProbs(NamedTuple):
    """Log-probabilities and entropies of the tokens that a model chose.

    The shape is (N,) for N chosen tokens, or (B, T) with 0 for all other tokens.
    """

    logps: Tensor
    entropies: Tensor | None
    """None if the fused head returned no entropies, as in a reference model."""
    aux_loss: Tensor | None
    """Load-balancing loss of a mixture of experts; None if not requested."""


def choices_of(sample: TokenSample) -> list[tuple[int, Allowed]]:
    """Return (index in the completion, allowed ids or None for all) of each token with mask 1."""
    allowed = sample.allowed or (None,) * len(sample.mask)
    return [(t, ids) for t, ids in enumerate(allowed) if sample.mask[t]]


def answer_log_probs(
    model: Any,
    unwrapped: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    samples: Sequence[TokenSample],
    *,
    length: int,
    pad_id: int,
    rows_at_once: int,
    temperature: float,
    aux_loss: bool,
) -> LogProbs:
    """Return LogProbs (B, T) of the completions.

    The probability of a token that was chosen among some ids is normalized over these ids.

    Args:
        model: Wrapped or plain model, with TRL's fused head for `temperature`.
        unwrapped: The PreTrainedModel in it.
        input_ids: Prompts, padded on the left, and completions of the samples (B, P + T).
        attention_mask: 0 for padding, else 1 (B, P + T).
        samples: B samples.
        length: T.
        pad_id: Id for padding, used if samples have `contexts`.
        rows_at_once: Number of answers in a forward pass, if samples have `contexts`.
        temperature: Divisor of the logits.
        aux_loss: True to request the load-balancing loss.
    """
    places = [(row, t, ids) for row, one in enumerate(samples) for t, ids in choices_of(one)]
    compute = partial(
        _chosen_log_probs, model, unwrapped, temperature=temperature, aux_loss=aux_loss
    )
    if samples[0].contexts is None:
        before = input_ids.size(1) - length
        choices = [(row, before + t, ids) for row, t, ids in places]
        found = compute(input_ids, attention_mask, choices)
    else:
        found = _in_contexts(compute, input_ids[:, -length:], samples, pad_id, rows_at_once)
    rows = input_ids.new_tensor([row for row, _, _ in places])
    columns = input_ids.new_tensor([t for _, t, _ in places])

    def at_places(values: Tensor) -> Tensor:
        return values.new_zeros(len(samples), length).index_put((rows, columns), values)

    return LogProbs(
        at_places(found.logps),
        None if found.entropies is None else at_places(found.entropies),
        found.aux_loss,
    )


def _chosen_log_probs(
    model: Any,
    unwrapped: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    choices: Choices,
    *,
    temperature: float,
    aux_loss: bool,
) -> LogProbs:
    rows = input_ids.new_tensor([row for row, _, _ in choices])
    columns = input_ids.new_tensor([column for _, column, _ in choices])
    allowed = [ids for _, _, ids in choices]
    targets = input_ids[rows, columns]
    inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
    if aux_loss:
        inputs["output_router_logits"] = True
    with _select_states(unwrapped.base_model, rows, columns - 1):  # the state before each token
        if all(ids is None for ids in allowed):
            output = model(**inputs, shift_labels=targets[None], fused_lm_head=True)
            logps, entropies = output.log_probs[0], output.entropy
            entropies = None if entropies is None else entropies[0]
        else:
            ids = _needed_ids(unwrapped.get_output_embeddings(), targets, allowed)
            with _narrow_head(unwrapped.get_output_embeddings(), ids):
                output = model(**inputs, use_cache=False)
            logits = output.logits[0].float() / temperature
            logps, entropies = _among(allowed, logits, ids, targets)
    return LogProbs(logps, entropies, output.aux_loss if aux_loss else None)


def _in_contexts(
    compute: Callable[[Tensor, Tensor, Choices], LogProbs],
    completion_ids: Tensor,
    samples: Sequence[TokenSample],
    pad_id: int,
    rows_at_once: int,
) -> LogProbs:
    answers = []
    for row, sample in enumerate(samples):
        choices = choices_of(sample)
        for (start, stop), context in zip(sample.turns, sample.contexts or (), strict=True):
            chosen = [(t - start, ids) for t, ids in choices if start <= t < stop]
            if chosen:
                answers.append((context, completion_ids[row, start:stop], chosen))
    parts = []
    for first in range(0, len(answers), rows_at_once):
        part = answers[first : first + rows_at_once]
        before = max(len(context) for context, _, _ in part)
        length = max(len(answer) for _, answer, _ in part)
        ids = completion_ids.new_full((len(part), before + length), pad_id)
        mask = torch.zeros_like(ids)
        for row, (context, answer, _) in enumerate(part):
            span = slice(before - len(context), before + len(answer))
            ids[row, span] = torch.cat([ids.new_tensor(context), answer])
            mask[row, span] = 1
        places = [(row, before + t, of) for row, (*_, own) in enumerate(part) for t, of in own]
        parts.append(checkpoint(compute, ids, mask, places, use_reentrant=False))
    if not parts:
        nothing = torch.zeros(0, device=completion_ids.device)
        return LogProbs(nothing, nothing, None)
    logps, entropies, aux_losses = zip(*parts, strict=True)
    return LogProbs(
        torch.cat(logps),
        None if any(one is None for one in entropies) else torch.cat(entropies),
        None if any(one is None for one in aux_losses) else torch.stack(aux_losses).mean(),
    )


@contextmanager
def _select_states(backbone: Any, rows: Tensor, columns: Tensor) -> Iterator[None]:

    def pick(module: Any, inputs: Any, output: Any) -> Any:
        return replace(output, last_hidden_state=output.last_hidden_state[rows, columns][None])

    handle = backbone.register_forward_hook(pick)
    try:
        yield
    finally:
        handle.remove()


def _needed_ids(head: Any, targets: Tensor, allowed: Sequence[Allowed]) -> Tensor | None:
    if None in allowed or type(head) is not nn.Linear or "forward" in vars(head):
        return None
    found = set(targets.tolist()).union(*(ids for ids in allowed if ids is not None))
    return targets.new_tensor(sorted(found))


@contextmanager
def _narrow_head(head: Any, ids: Tensor | None) -> Iterator[None]:
    if ids is None:
        yield
        return

    def forward(hidden: Tensor) -> Tensor:
        bias = None if head.bias is None else head.bias[ids]
        return nn.functional.linear(hidden, head.weight[ids], bias)

    head.forward = forward
    try:
        yield
    finally:
        del head.forward  # makes the method of the class visible again


def _among(
    allowed: Sequence[Allowed], logits: Tensor, ids: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    def column(wanted: Tensor) -> Tensor:
        return wanted if ids is None else torch.searchsorted(ids, wanted)

    forbidden = targets.new_tensor([some is not None for some in allowed], dtype=torch.bool)
    forbidden = forbidden[:, None].repeat(1, logits.size(1))
    choices = targets.new_tensor([n for n, some in enumerate(allowed) for _ in some or ()])
    legal = targets.new_tensor([one for some in allowed for one in some or ()])
    forbidden[choices, column(legal)] = False
    logps = logits.masked_fill(forbidden, torch.finfo(logits.dtype).min).log_softmax(-1)
    entropies = -(logps.exp() * logps.masked_fill(forbidden, 0.0)).sum(-1)  # 0 log 0 is 0
    return logps.gather(1, column(targets)[:, None])[:, 0], entropies
