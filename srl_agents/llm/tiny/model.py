"""Tiny language model: an ordinary causal transformer small enough for a laptop's CPU.

It is built from a configuration (nothing is downloaded), with a tokenizer made from the
environment's own texts and a supervised warm start on random legal play, so that it answers
legally and without preference. What comes out is an ordinary Hugging Face folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.evaluation.progress import LongWork, watched
from srl_agents.llm.answer_trie import answer_trie
from srl_agents.llm.cache_folder import cache_folder
from srl_agents.llm.chat_format import ChatFormat, Turn
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_agents.llm.tiny.dialogues import Dialogue, random_dialogues
from srl_envs.loading import needed_by

with needed_by("the embedded model"):
    import tokenizers
    import torch
    import transformers
    from transformers import LlamaConfig, LlamaForCausalLM

from srl_agents.llm.backends.huggingface.progress import no_bars
from srl_agents.llm.tiny.tokenizer import build_tokenizer

FORMAT_VERSION = 1  # raise it whenever the same texts and settings would give another folder
GAMES = 32  # episodes of random play the warm start learns from
LINES_PER_STEP = 48  # answers in one optimizer step, in few long or many short dialogues
ILLEGAL_SHARE = 0.004  # of answers that would not be legal: below it the model is ready
ROUNDS = 4  # of warm start at most; one is usually enough

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TinySize:
    """The model's shape. The default has about 100,000 parameters."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    key_value_heads: int = 2
    intermediate: int = 128
    positions: int = 4096
    """Longest context in tokens (rotary positions: length costs no parameters)."""


SERVABLE = TinySize(heads=2, key_value_heads=1)
"""Heads of 32, the smallest that vLLM's attention takes on CPUs; the same count of parameters."""


def folder(
    make_env: Callable[[], Any],
    *,
    seed: int = 0,
    turns: int = 16,
    steps: int = 80,
    learning_rate: float = 8e-3,
    size: TinySize | None = None,
    notes: PartnerNotes | None = None,
) -> Path:
    """A folder with a model that plays the environment legally and uniformly at random.

    `make_env` gives a fresh ParallelEnv with a text view; `turns` is the longest conversation the
    model is shown, `steps` the optimizer steps of the warm start (for each of the environments of
    multitask_v0). A model that is to be told `notes` is shown them here too: otherwise it forgets
    how to end an answer as it learns. The folder is made once and then found again under the
    user's cache folder ($CORE_SRL_CACHE, else the platform's): the same texts, settings and library
    versions give the same weights.

    Raises PolicyError for an environment without a text view or answers to learn from.
    """
    size = size or TinySize()
    # Of several environments in one (multitask_v0), each is shown as much as if it were alone.
    several = len(getattr(make_env().unwrapped, "environments", ())) or 1
    steps *= several
    dialogues = random_dialogues(make_env, several * GAMES, turns, seed, notes)
    recipe = {
        "format": FORMAT_VERSION,
        "seed": seed,
        "steps": steps,
        "learning_rate": learning_rate,
        "size": asdict(size),
        "dialogues": [asdict(dialogue) for dialogue in dialogues],
        "versions": [torch.__version__, transformers.__version__, tokenizers.__version__],
    }
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:20]
    target = cache_folder() / "tiny" / digest
    if not target.is_dir():
        with _alone_on_one_thread(seed):
            model, tokenizer = _build(dialogues, size, seed, steps, learning_rate)
            _save(target, model, tokenizer)
    return target


def _build(
    dialogues: Sequence[Dialogue], size: TinySize, seed: int, steps: int, learning_rate: float
) -> tuple[Any, Any]:
    tokenizer = build_tokenizer(dialogues)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_value_heads,
        max_position_embeddings=size.positions,
        # At this width the usual 0.02 makes all embeddings nearly alike, and learning crawls.
        initializer_range=size.hidden**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    chat = ChatFormat(tokenizer)
    lessons = [
        _lesson(dialogue, chat)
        for dialogue in watched("embedded model, preparing its games", dialogues)
    ]
    rng = np.random.default_rng(seed)
    for number in range(ROUNDS):
        work = LongWork(f"embedded model, warm start {number + 1} of at most {ROUNDS}")
        illegal = _warm_start(model, lessons, rng, steps, learning_rate, work)
        if illegal < ILLEGAL_SHARE:
            break
    else:
        log.warning(
            "after %d rounds of warm start %.1f%% of the embedded model's answers are illegal: "
            "it has this to learn in training too, or, with constrained set to true (in models), "
            "chooses among legal answers only",
            ROUNDS,
            100 * min(illegal, 1.0),
        )
    return model.eval(), tokenizer


@dataclass(frozen=True)
class _Lesson:
    """A dialogue as tokens: which positions write an answer, and what should be written there."""

    ids: list[int]
    ends: list[int]
    """Length of `ids` after each turn."""
    targets: list[list[tuple[int, dict[int, float]]]]
    """Per turn, (position whose logits choose the next token, token -> probability)."""


def _lesson(dialogue: Dialogue, chat: ChatFormat) -> _Lesson:
    """Targets are the uniform distribution itself, which teaches faster than draws from it."""
    lesson = _Lesson([], [], [])
    for line in dialogue.lines:
        turn = Turn(
            line.words,
            rules=None if lesson.ids else dialogue.rules,
            last=lesson.ids[-1] if lesson.ids else None,
        )
        lesson.ids.extend(chat.prompts([turn])[0])
        wanted: list[tuple[int, dict[int, float]]] = []
        tree = answer_trie(chat.answers(line.legal), chat.end_of_turn)
        for token in (*chat.answer(line.answer), chat.end_of_turn):
            if line.readable:
                shares = {t: child.answers / tree.answers for t, child in tree.children.items()}
                wanted.append((len(lesson.ids) - 1, shares))
                tree = tree.children[token]
            lesson.ids.append(token)
        lesson.targets.append(wanted)
        lesson.ends.append(len(lesson.ids))
    return lesson


def _warm_start(
    model: Any,
    lessons: Sequence[_Lesson],
    rng: np.random.Generator,
    steps: int,
    rate: float,
    work: LongWork,
) -> float:
    """Train in place; returns the share of answers that are not legal at the end."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )
    longest = max(len(lesson.ends) for lesson in lessons)
    lengths = [length for length in (2, 4, 8, 16) if length < longest] + [longest]
    illegal: list[float] = []
    for step in range(steps):
        turns = lengths[step % len(lengths)]
        chosen = rng.integers(len(lessons), size=max(1, LINES_PER_STEP // turns))
        loss, share = _loss(model, [lessons[index] for index in chosen], turns)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        illegal.append(share)
        work.at(f"{(step + 1) / steps:.0%}")
    return float(np.mean(illegal[-2 * len(lengths) :]))


def _loss(model: Any, lessons: Sequence[_Lesson], turns: int) -> tuple[torch.Tensor, float]:
    """Cross-entropy to the wanted distributions in the first `turns` turns, and the share of
    answers that would not be legal."""
    rows = [lesson.ids[: lesson.ends[min(turns, len(lesson.ends)) - 1]] for lesson in lessons]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    places: list[int] = []
    columns: list[int] = []
    tokens: list[int] = []
    shares: list[float] = []
    answers = 0
    for row, lesson in enumerate(lessons):
        for wanted in lesson.targets[:turns]:
            answers += bool(wanted)
            for position, distribution in wanted:
                for token, share in distribution.items():
                    columns.append(len(places))
                    tokens.append(token)
                    shares.append(share)
                places.append(row * width + position)
    hidden = model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    logprobs = model.lm_head(hidden.flatten(0, 1)[places]).log_softmax(-1)
    chosen = logprobs[columns, tokens]
    loss = -(chosen * torch.tensor(shares)).sum() / len(places)
    return loss, (len(places) - float(chosen.detach().exp().sum())) / answers


@contextmanager
def _alone_on_one_thread(seed: int) -> Iterator[None]:
    """Own global generator state, and one thread: more only get in each other's way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def _save(target: Path, model: Any, tokenizer: Any) -> None:
    """Write the folder whole or not at all; another process may win the race with the same."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=target.name + ".partial-", dir=target.parent))
    try:
        with no_bars():
            model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        for path in partial.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        partial.rename(target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
