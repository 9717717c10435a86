"""Log-probabilities of the tokens that a model chose, and importance weights of samplers.

Most of a completion is text of the environment, and at a large vocabulary the output head costs
more than all layers below it. Therefore the hidden states of the chosen tokens are selected before
the head, and for choices among few ids the head computes only the logits of these ids. Both happen
inside the model's forward: its logit scaling applies, and DDP and FSDP see one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from srl_train.samples import TokenSample

Allowed = tuple[int, ...] | None
"""Ids that a token was chosen from; None for the whole vocabulary."""
Choices = Sequence[tuple[int, Allowed]]
"""Position in the completion of each token that the model chose in a row, and its allowed ids."""


class AnswerLogProbs(NamedTuple):
    """Values per completion token (B, T); 0 for tokens that the model did not choose."""

    logps: Tensor
    entropies: Tensor | None
    """None for a reference model with free choices, whose head returns no entropies."""
    aux_loss: Tensor | None
    """Load-balancing loss of a mixture of experts, if requested."""


def choices_of(sample: TokenSample) -> Choices:
    """Return the positions of the sample's tokens with mask 1, with their allowed ids."""
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
    """Compute the log-probabilities of the chosen tokens.

    `input_ids` (B, P + T) are prompts and completions of `length` T. `model` has TRL's fused head
    for `temperature` and contains the PreTrainedModel `unwrapped`. The probability of a token that
    was chosen among some ids is normalized over these ids.
    """
    rows = input_ids.new_tensor([row for row, chosen in enumerate(choices) for _ in chosen])
    places = input_ids.new_tensor([place for chosen in choices for place, _ in chosen])
    allowed = [ids for chosen in choices for _, ids in chosen]
    columns = places + input_ids.size(1) - length
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

    def at_places(values: Tensor) -> Tensor:
        return values.new_zeros(len(choices), length).index_put((rows, places), values)

    return AnswerLogProbs(
        at_places(logps),
        None if entropies is None else at_places(entropies),
        output.aux_loss if aux_loss else None,
    )


Contexts = Sequence[tuple[int, int, tuple[int, ...]]] | None
"""Per answer of a row: its first and last + 1 position in the completion, and all token ids before
it. None for a row whose prompt and completion are one conversation."""


def contexts_of(sample: TokenSample) -> Contexts:
    """Return the contexts of the sample's answers, or None."""
    if sample.contexts is None:
        return None
    turns = zip(sample.turns, sample.contexts, strict=True)
    return [(start, stop, context) for (start, stop), context in turns]


def context_log_probs(
    model: Any,
    unwrapped: Any,
    completion_ids: Tensor,
    choices: Sequence[Choices],
    contexts: Sequence[Contexts],
    *,
    pad_id: int,
    rows_at_once: int,
    **settings: Any,
) -> AnswerLogProbs:
    """Compute the log-probabilities of answers with separate contexts.

    Every answer is a separate row: its context, then its tokens. The rows are read in parts of
    `rows_at_once`, and again in the backward pass, so that memory does not grow with the number of
    steps of an episode.

    Args:
        model: As in `answer_log_probs`, also `unwrapped` and the other settings.
        unwrapped: PreTrainedModel in `model`.
        completion_ids: Answers of each episode, one after the other (B, T).
        choices: Chosen tokens of each episode.
        contexts: Contexts of each episode's answers.
        pad_id: Token id for padding.
        rows_at_once: Number of answers in a forward pass.
        **settings: `temperature` and `aux_loss`.
    """
    answers = [
        (row, start, stop, context, [(t - start, ids) for t, ids in chosen if start <= t < stop])
        for row, (chosen, own) in enumerate(zip(choices, contexts, strict=True))
        for start, stop, context in own or ()
    ]
    answers = [answer for answer in answers if answer[-1]]
    logps = completion_ids.new_zeros(completion_ids.shape, dtype=torch.float32)
    entropies: Tensor | None = torch.zeros_like(logps)
    aux_losses = []
    for first in range(0, len(answers), rows_at_once):
        part = answers[first : first + rows_at_once]
        before = max(len(context) for *_, context, _ in part)
        length = max(stop - start for _, start, stop, *_ in part)
        ids = completion_ids.new_full((len(part), before + length), pad_id)
        mask = torch.zeros_like(ids)
        for place, (row, start, stop, context, _) in enumerate(part):
            end = before + stop - start
            ids[place, before - len(context) : before] = ids.new_tensor(context)
            ids[place, before:end] = completion_ids[row, start:stop]
            mask[place, before - len(context) : end] = 1
        found = checkpoint(
            partial(answer_log_probs, length=length, **settings),
            model,
            unwrapped,
            ids,
            mask,
            [chosen for *_, chosen in part],
            use_reentrant=False,
        )
        rows, columns = _places(ids, [(row, start, stop) for row, start, stop, *_ in part])
        inside = mask[:, before:].bool()
        logps = logps.index_put((rows, columns), found.logps[inside].to(logps.dtype))
        if found.entropies is None:
            entropies = None
        elif entropies is not None:
            values = found.entropies[inside].to(logps.dtype)
            entropies = entropies.index_put((rows, columns), values)
        if found.aux_loss is not None:
            aux_losses.append(found.aux_loss)
    return AnswerLogProbs(logps, entropies, torch.stack(aux_losses).mean() if aux_losses else None)


def _places(like: Tensor, spans: Sequence[tuple[int, int, int]]) -> tuple[Tensor, Tensor]:
    """Return rows and columns of (row, start, stop) spans, as index tensors."""
    rows = [row for row, start, stop in spans for _ in range(start, stop)]
    columns = [column for _, start, stop in spans for column in range(start, stop)]
    return like.new_tensor(rows), like.new_tensor(columns)


@contextmanager
def _select_states(backbone: Any, rows: Tensor, columns: Tensor) -> Iterator[None]:
    """Make the backbone return only the hidden states (1, N, H) at N places of its batch."""

    def pick(module: Any, inputs: Any, output: Any) -> Any:
        return replace(output, last_hidden_state=output.last_hidden_state[rows, columns][None])

    handle = backbone.register_forward_hook(pick)
    try:
        yield
    finally:
        handle.remove()


def _needed_ids(head: Any, targets: Tensor, allowed: Sequence[Allowed]) -> Tensor | None:
    """Return all allowed ids (V'), ascending, or None if the head must compute all logits."""
    if None in allowed or type(head) is not nn.Linear or "forward" in vars(head):
        return None
    found = set(targets.tolist()).union(*(ids for ids in allowed if ids is not None))
    return targets.new_tensor(sorted(found))


@contextmanager
def _narrow_head(head: Any, ids: Tensor | None) -> Iterator[None]:
    """Make the head compute only the logits of these ids, in their order."""
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
    """Return log-probabilities of `targets` and entropies, each (N,), over `ids` (None: all)."""

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


def sampler_weights(
    trainer_logps: Tensor,
    sampler_logps: Tensor,
    mask: Tensor,
    correction: Literal["none", "tis", "mis"],
    cap: float,
) -> Tensor:
    """Return loss weights (B, T): ratios trainer / sampler, truncated or masked at `cap`.

    `tis` truncates ratios (Yao et al. 2025), `mis` sets those above `cap` to 0. The formulas are
    those of TRL's `vllm_importance_sampling_mode`. Tokens that are masked, or have no
    log-probability (NaN), have ratio 1.
    """
    apart = ((trainer_logps - sampler_logps) * mask).nan_to_num(nan=0.0)
    ratio = apart.exp()
    if correction == "tis":
        return ratio.clamp(max=cap)
    return ratio.masked_fill(ratio > cap, 0.0)


class Divergence(NamedTuple):
    """Absolute differences in log-probability, over tokens that the model chose."""

    total: float
    largest: float
    tokens: float


def divergence(trainer_logps: Tensor, sampler_logps: Tensor, mask: Tensor) -> Divergence:
    """Compare log-probabilities (B, T) where the mask is 1."""
    ratio = (trainer_logps - sampler_logps)[mask.bool()].float()
    if not len(ratio):
        return Divergence(0.0, 0.0, 0.0)
    return Divergence(ratio.abs().sum().item(), ratio.abs().max().item(), float(len(ratio)))
