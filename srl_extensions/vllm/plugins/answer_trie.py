"""Logits processor for vLLM that lets a model write listed token sequences only.

A request lists them as `vllm_xargs={"answers": "[[268, 2], [269, 2]]"}`: each sequence is a whole
answer with its stop token. At each position, tokens that continue a listed sequence keep their
logits, and all others get minus infinity, as in training.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

import torch
from annotated_types import MinLen
from pydantic import NonNegativeInt, TypeAdapter
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

ARGUMENT = "answers"
Trie = dict[int, "Trie"]
ANSWERS = TypeAdapter(Annotated[list[Annotated[list[NonNegativeInt], MinLen(1)]], MinLen(1)])


class AnswerTrie(AdapterLogitsProcessor):  # type: ignore[misc]
    """Logits processor that allows only listed answers (vLLM: `--logits-processors`)."""

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Raise ValueError if listed answers are malformed, before the engine is affected."""
        _trie_of(sampling_params)

    def is_argmax_invariant(self) -> bool:
        """Return False: the most likely token may not be allowed."""
        return False

    def new_req_logits_processor(
        self, params: SamplingParams
    ) -> Callable[[list[int], torch.Tensor], torch.Tensor] | None:
        """Return the function that masks a request's logits; None without listed answers."""
        trie = _trie_of(params)
        if trie is None:
            return None

        def mask(written: list[int], logits: torch.Tensor) -> torch.Tensor:
            node = trie
            for token in written:
                node = node.get(token, {})
            allowed = [token for token in node if token < logits.shape[-1]]
            if not allowed:  # After the end, or another vocabulary: the client rejects the answer.
                return logits
            masked = torch.full_like(logits, float("-inf"))
            masked[allowed] = logits[allowed]
            return masked

        return mask


def _trie_of(params: SamplingParams) -> Trie | None:
    text = (params.extra_args or {}).get(ARGUMENT)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{ARGUMENT} must be a string of JSON, got {type(text).__name__}")
    return _parsed(text)


@lru_cache(maxsize=256)  # Many requests of an environment list the same answers.
def _parsed(text: str) -> Trie:
    try:
        answers = ANSWERS.validate_json(text, strict=True)
    except ValueError as error:
        raise ValueError(f"{ARGUMENT} must be a JSON list of lists of token ids: {error}") from None
    root: Trie = {}
    for answer in answers:
        node = root
        for token in answer:
            node = node.setdefault(token, {})
    return root
