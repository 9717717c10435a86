"""Log-probabilities of the tokens that a model chose, computed at their places alone.

Most of a completion is what the environment wrote, and at a large vocabulary the head costs more
than all layers below it. So the hidden states at the chosen tokens are picked before the head sees
them, and where tokens were chosen among few ids, the head computes the logits of these and no
others. Both happen inside the model's own forward: how it scales or caps its logits stays its own
affair, and DDP and FSDP see one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from srl_train.samples import TokenSample

Allowed = tuple[int, ...] | None
"""The ids that a token was chosen from; None where all were open to it."""
Choices = Sequence[tuple[int, Allowed]]
"""Of one row: the place in the completion of each token that the model chose, and its ids."""


class AnswerLogProbs(NamedTuple):
    """Of each completion token (B, T); 0 where the model did not choose it."""

    logps: Tensor
    entropies: Tensor | None
    """None of a reference on free choices: its head gives none."""
    aux_loss: Tensor | None
    """The load-balancing loss of a mixture of experts, where it was asked for."""


def choices_of(sample: TokenSample) -> Choices:
    """Those of the sample's tokens whose mask is 1."""
    allowed = sample.allowed or (None,) * len(sample.mask)
    return [(t, ids) for t, ids in enumerate(allowed) if sample.mask[t]]


def answer_log_probs(
    model: Any,
    unwrapped: Any,
    input_ids: Tensor,
    attention_mask: Tensor,
    choices: Sequence[Choices],
    *,
    length: int,
    temperature: float,
    aux_loss: bool,
) -> AnswerLogProbs:
    """Log-probabilities of the chosen tokens, which are among the last `length` (T) of each row.

    `model` carries TRL's fused head for `temperature`, `unwrapped` is the PreTrainedModel in it.
    What was chosen from some ids has its probability among these.
    """
    rows = input_ids.new_tensor([row for row, own in enumerate(choices) for _ in own])
    places = input_ids.new_tensor([place for own in choices for place, _ in own])
    allowed = [ids for own in choices for _, ids in own]
    columns = places + input_ids.size(1) - length
    targets = input_ids[rows, columns]
    inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
    if aux_loss:
        inputs["output_router_logits"] = True
    with _only_places(unwrapped.base_model, rows, columns - 1):  # the state before predicts a token
        if all(ids is None for ids in allowed):
            output = model(**inputs, shift_labels=targets[None], fused_lm_head=True)
            logps, entropies = output.log_probs[0], output.entropy
            entropies = None if entropies is None else entropies[0]
        else:
            ids = _ids_needed(unwrapped.get_output_embeddings(), targets, allowed)
            with _only_ids(unwrapped.get_output_embeddings(), ids):
                output = model(**inputs, use_cache=False)
            logits = output.logits[0].float() / temperature
            logps, entropies = _among(allowed, logits, ids, targets)

    def at_places(values: Tensor) -> Tensor:
        return values.new_zeros(len(choices), length).index_put((rows, places), values)

    return AnswerLogProbs(
        at_places(logps),
        None if entropies is None else at_places(entropies),
        output.aux_loss if aux_loss else None,
    )


@contextmanager
def _only_places(backbone: Any, rows: Tensor, columns: Tensor) -> Iterator[None]:
    """Inside, the backbone gives the hidden states (1, N, H) of N places of its batch alone."""

    def pick(module: Any, inputs: Any, output: Any) -> Any:
        return replace(output, last_hidden_state=output.last_hidden_state[rows, columns][None])

    handle = backbone.register_forward_hook(pick)
    try:
        yield
    finally:
        handle.remove()


def _ids_needed(head: Any, targets: Tensor, allowed: Sequence[Allowed]) -> Tensor | None:
    """All ids (V') that any choice allows, ascending; None where some choice is free, or the head
    is more than one matrix: then it takes the whole vocabulary."""
    if None in allowed or type(head) is not nn.Linear or "forward" in vars(head):
        return None
    found = set(targets.tolist()).union(*(ids for ids in allowed if ids is not None))
    return targets.new_tensor(sorted(found))


@contextmanager
def _only_ids(head: Any, ids: Tensor | None) -> Iterator[None]:
    """Inside, the head computes the logits of these ids alone, in their order."""
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
        del head.forward  # the instance's own: the class's is seen again


def _among(
    allowed: Sequence[Allowed], logits: Tensor, ids: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """(log-probabilities of `targets`, entropies), each (N,), with logits (N, V') renormalised over
    what each choice allows. `ids` (V') are the logits' own; None where they are of all."""

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
