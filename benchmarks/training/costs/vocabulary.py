"""Update at a large vocabulary: our learner's, and bare TRL's on the same samples."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from benchmarks.training.costs.bare_trl import BareTrainer
from benchmarks.training.costs.usage import held_now, largest, now, place
from srl_train.config import yaml_file
from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.models import AdapterConfig
from srl_train.samples import TokenSample
from srl_train.learners.lora import adapter_models
from srl_train.learners.trl_grpo import GrpoLearner

Side = Literal["ours", "ours, constrained", "TRL"]
SAMPLES = 4
"""In the update, which are one group."""
PROMPT, TOLD, CHOSEN, TURNS = 48, 20, 4, 4
"""Tokens of the first prompt, of what is told between two answers, and of an answer."""
WORDS = 40
"""Ids that occur: a choice is free among the whole vocabulary, or constrained to eight of them."""
HEAD = 64  # width of an attention head


def update_cost(side: Side, vocabulary: int, width: int, layers: int) -> dict[str, float]:
    """CPU seconds per trained token of an update of adapters of rank 8 on a random Qwen2, and the
    bytes by which this process grew at most.

    Where torch finds an accelerator the update is done there, as TRL does it: the time is the
    wall's then, and the bytes are the accelerator's.
    """
    base = random_qwen2(
        layers, width, vocab_size=vocabulary, intermediate_size=width * 8, num_key_value_heads=1,
        eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model = adapter_models(base.to(place()), ["model_0"], AdapterConfig(rank=8), 0)["model_0"]
    words = {f"w{number}": number for number in range(WORDS)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(tokenizer_models.WordLevel(words, unk_token="w0")),
        pad_token="w0", eos_token="w0", unk_token="w0",
    )  # fmt: skip
    samples = [
        _sample(number, constrained=side == "ours, constrained") for number in range(SAMPLES)
    ]
    trained = sum(sum(one.mask) for one in samples)
    before = held_now()
    if side == "TRL":
        config = yaml_file.from_tree({}, {"rollout.group_size": SAMPLES})
        trainer = BareTrainer(model, tokenizer, config, [(samples, 0)])
        trainer.train()
        seconds = trainer.loop_seconds
    else:
        learner = GrpoLearner(
            "model_0", model, tokenizer, GrpoConfig(),
            group_size=SAMPLES, temperature=1.0, planned_updates=1,
        )  # fmt: skip
        began = now()
        learner.learn(samples, 0, 0)
        seconds = now() - began
    return {
        "token_seconds": seconds / trained,
        "grown": largest() - before,
        "trained": trained,
        "read": sum(len(one.prompt_ids) + len(one.completion_ids) for one in samples),
        "parameters": sum(p.numel() for p in base.parameters()),
    }


def random_qwen2(layers: int, width: int, **settings: Any) -> Qwen2ForCausalLM:
    """A Qwen2 with random weights, the same every time, on the CPU."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Qwen2ForCausalLM(
            Qwen2Config(
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=width // HEAD,
                tie_word_embeddings=True,
                bos_token_id=None,
                **settings,
            )
        )


def _sample(number: int, *, constrained: bool) -> TokenSample:
    """A game of several turns, most of whose words the environment wrote."""
    rng = np.random.default_rng(number)
    length = TURNS * (CHOSEN + TOLD)
    mask = (1,) * CHOSEN + (0,) * TOLD
    ids = tuple(rng.integers(1, WORDS, size=PROMPT + length).tolist())
    among = [tuple({*range(1, 8), one}) for one in ids[PROMPT:]]
    paid = (0.0,) * (TURNS - 1) + (float(rng.normal()),)
    starts = range(0, length, len(mask))
    return TokenSample(
        prompt_ids=ids[:PROMPT],
        completion_ids=ids[PROMPT:],
        mask=mask * TURNS,
        logprobs=(-1.0,) * length,
        allowed=tuple(among) if constrained else None,
        turns=tuple((start, start + CHOSEN) for start in starts),
        elapsed=(1,) * TURNS,
        rewards=paid,
        episode_return=sum(paid),
        group=(0, 0, "agent_0"),
        version=0,
    )
