"""Tokenizer of the tiny model, built from an environment's own texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from srl_agents.llm.tiny.dialogues import Dialogue

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    + START
    + "{{ message['role'] }}\n{{ message['content'] }}"
    + END
    + "\n{% endfor %}{% if add_generation_prompt %}"
    + START
    + "assistant\n{% endif %}"
)
LONGEST_TOKEN = 24  # characters; frequent phrases become tokens, so conversations stay short
LISTED_ANSWERS = 500  # up to so many usual answers, each is to be one token
VOCABULARY = 640  # at most: 256 bytes, 3 special tokens, the rest words and phrases


def build_tokenizer(dialogues: Sequence[Dialogue]) -> Any:
    """A byte-level BPE tokenizer in which each usual answer is one token and digits stand alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    rules = {f"system\n{dialogue.rules}" for dialogue in dialogues}
    words = {f"user\n{line.words}" for dialogue in dialogues for line in dialogue.lines}
    answers = {text for dialogue in dialogues for line in dialogue.lines for text in line.legal}
    corpus = sorted(rules) * 5 + sorted(words) + ["assistant\n"] * 1000
    # As frequent as nothing else, so that they are whole before the budget is spent.
    # Of very many (texts written freely) what they share is frequent enough.
    corpus += sorted(answers) * (10_000 if len(answers) <= LISTED_ANSWERS else 50)
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            min_frequency=2,
            show_progress=False,
            special_tokens=[PAD, START, END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            max_token_length=LONGEST_TOKEN,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=[START],
        padding_side="left",
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast
