"""Functions that `benchmarks.costs` runs in separate processes.

python -m benchmarks.child FUNCTION ARGUMENT ...

Arguments are JSON, and the last line of output is the result as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from benchmarks.bare_trl import HEAD, BareTrainer, memory_now, now, peak_memory, random_model
from benchmarks.runs import build_env
from srl_agents.llm import tiny
from srl_train.config import yaml_file
from srl_train.config.learning.learners import GrpoConfig
from srl_train.config.models import AdapterConfig
from srl_train.learners.lora import adapter_models
from srl_train.learners.trl_grpo import GrpoLearner
from srl_train.samples import TokenSample
from srl_train.trainer import Trainer

Side = Literal["ours", "ours, constrained", "TRL"]
SAMPLES = 4
"""Samples of the timed update, which are one group."""
PROMPT, OBSERVED, CHOSEN, TURNS = 48, 20, 4, 4
"""Tokens of the first prompt, between two answers and of an answer; number of answers."""
WORDS = 40
"""Ids that occur; constrained choices are among eight of them."""


def round_seconds(settings: Mapping[str, Any]) -> list[float]:
    """Train a run with these settings; return its CPU-seconds by round, without the first round."""
    with tempfile.TemporaryDirectory(prefix="round-seconds-") as folder:
        config = yaml_file.from_tree({}, settings)
        trainer = Trainer(config, folder, record_metrics=False)
        ends = []
        for _ in range(config.rounds):
            trainer.train_round()
            ends.append(time.process_time())
    return [end - began for began, end in itertools.pairwise(ends)]


def random_qwen2(folder: str, layers: int, width: int, settings: Mapping[str, Any]) -> int:
    """Save a random Qwen2 to `folder`, and return its number of parameters.

    The tokenizer is that of the embedded model for the environment in `settings`.
    """
    own = tiny.folder(partial(build_env, yaml_file.from_tree({}, settings)))
    tokenizer = AutoTokenizer.from_pretrained(own, trust_remote_code=False)
    model = random_model(
        layers, width, vocab_size=len(tokenizer), intermediate_size=width * 8 // 3,
        num_key_value_heads=max(1, width // HEAD // 4), max_position_embeddings=4096,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model.save_pretrained(Path(folder))
    tokenizer.save_pretrained(Path(folder))
    return sum(parameter.numel() for parameter in model.parameters())


def update_cost(side: Side, vocabulary: int, width: int, layers: int) -> dict[str, float]:
    """Time an update of adapters of rank 8 on a random Qwen2.

    Returns:
        "token_seconds": seconds (see `bare_trl.now`) per trained token; "grown": bytes by which the
        memory grew at most; "trained" and "read": tokens; "parameters": of the model.
    """
    base = random_model(
        layers, width, vocab_size=vocabulary, intermediate_size=width * 8, num_key_value_heads=1,
        eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = adapter_models(base.to(device), ["model_0"], AdapterConfig(rank=8), 0)["model_0"]
    words = {f"w{number}": number for number in range(WORDS)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(tokenizer_models.WordLevel(words, unk_token="w0")),
        pad_token="w0", eos_token="w0", unk_token="w0",
    )  # fmt: skip
    constrained = side == "ours, constrained"
    samples = [_sample(number, constrained=constrained) for number in range(SAMPLES)]
    trained = sum(sum(one.mask) for one in samples)
    before = memory_now()
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
        "grown": peak_memory() - before,
        "trained": trained,
        "read": sum(len(one.prompt_ids) + len(one.completion_ids) for one in samples),
        "parameters": sum(p.numel() for p in base.parameters()),
    }


def _sample(number: int, *, constrained: bool) -> TokenSample:
    """Return sample `number`: several turns, most of whose tokens the environment wrote.

    If `constrained`, each answer token was chosen among up to eight.
    """
    rng = np.random.default_rng(number)
    length = TURNS * (CHOSEN + OBSERVED)
    mask = (1,) * CHOSEN + (0,) * OBSERVED
    ids = tuple(rng.integers(1, WORDS, size=PROMPT + length).tolist())
    among = tuple(tuple({*range(1, 8), one}) for one in ids[PROMPT:])
    paid = (0.0,) * (TURNS - 1) + (float(rng.normal()),)
    return TokenSample(
        prompt_ids=ids[:PROMPT], completion_ids=ids[PROMPT:], mask=mask * TURNS,
        logprobs=(-1.0,) * length, allowed=among if constrained else None,
        turns=tuple((start, start + CHOSEN) for start in range(0, length, len(mask))),
        elapsed=(1,) * TURNS, rewards=paid, episode_return=sum(paid),
        group=(0, 0, "agent_0"), version=0,
    )  # fmt: skip


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one for one in (round_seconds, random_qwen2, update_cost)
}


def main(words: Sequence[str]) -> None:
    """Call the function that `words` name, with their JSON arguments, and print its result."""
    name, *arguments = words
    print(json.dumps(FUNCTIONS[name](*map(json.loads, arguments))))


if __name__ == "__main__":
    main(sys.argv[1:])
