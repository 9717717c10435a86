"""Embedded language model: a causal transformer small enough for the CPU of a laptop.

The tokenizer is trained on the texts of an environment, and the randomly initialized model is
fine-tuned on episodes of random legal actions. The result is an ordinary Hugging Face folder.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.errors import PolicyError
from srl_agents.evaluation.progress import LongWork
from srl_agents.llm.backends.token_backend import answer_trie
from srl_agents.llm.chat_format import TEMPLATES, ChatFormat, ChatTurn
from srl_agents.llm.model_folders import cache_folder
from srl_envs.loading import needed_by
from srl_envs.text import ParseFailure, TextView, feedback, read_answer, view_for
from srl_envs.wrappers import CustomRewards

with needed_by("the embedded model"):
    import tokenizers
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from srl_agents.llm.backends.huggingface.loading import no_bars

UNREADABLE = ("", "I am not sure.", "both", "1", "yes yes yes")
UNREADABLE_SHARE = 0.05  # share of answers that cannot be parsed, so that the model sees feedback
FREE_ANSWERS = 64  # number of sample answers per step in environments that accept any text
FREE_GAMES = 8  # factor of the number of episodes in these environments, whose questions differ
HEARD_SHARE = 0.1  # share of user messages that begin with a message of another agent


@dataclass(frozen=True)
class TextLine:
    """User message, legal answers and chosen answer of one step."""

    words: str
    legal: tuple[str, ...]
    answer: str
    readable: bool
    """False for an answer that cannot be parsed; the model does not learn it."""


@dataclass(frozen=True)
class Dialogue:
    """Conversation of one agent in one episode."""

    rules: str
    lines: tuple[TextLine, ...]


def random_dialogues(
    make_env: Callable[[], Any], games: int, turns: int, seed: int
) -> list[Dialogue]:
    """Play random episodes of at most `turns` steps; return the dialogues of agents that acted.

    There are `games` episodes, or FREE_GAMES times as many if any text is legal. Answers are drawn
    uniformly from the legal answers, or from `sample_answers` if any text is legal; a few are
    unreadable. Raises PolicyError without a text view, or without answers to draw from.
    """
    rng = np.random.default_rng(seed)
    dialogues, played = [], 0.0
    work = LongWork("embedded model, random episodes")
    while played < games:
        work.at(f"{played / games:.0%}")
        with closing(make_env()) as env:
            if isinstance(env, CustomRewards):
                env.reward_function = None  # Random answers need no rewards.
            view = getattr(env.unwrapped, "text_view", None)
            if view is None:
                raise PolicyError(f"{env} needs a text view to be played by a language model")
            dialogues += _play(env, view, turns, rng)
            played += 1 if view.answers(env.possible_agents[0]) else 1 / FREE_GAMES
    return dialogues


def _play(env: Any, view: TextView, turns: int, rng: np.random.Generator) -> list[Dialogue]:
    observations, infos = env.reset(seed=int(rng.integers(2**31)))
    rules: dict[str, str] = {}  # The rules of an agent that joins later are added then.
    lines: dict[str, list[TextLine]] = {agent: [] for agent in env.possible_agents}
    feedbacks = dict.fromkeys(env.possible_agents, "")
    for _ in range(turns):
        if not env.agents:
            break
        actions = {}
        for agent in env.agents:
            answers = view.answers(agent)
            free = not answers
            if free:
                answers = _samples(env, agent, rng)
            mask = infos.get(agent, {}).get("action_mask")
            legal = [i for i in range(len(answers)) if mask is None or mask[i]]
            chosen = int(rng.choice(legal))
            words = feedbacks[agent] + _message(env, view, agent, rng)
            words += view.describe(agent, observations[agent])
            answer, feedbacks[agent] = answers[chosen], ""
            actions[agent] = answer if free else chosen
            readable = True
            if rng.random() < UNREADABLE_SHARE:
                wrong = UNREADABLE[rng.integers(len(UNREADABLE))]
                read = read_answer(view, agent, observations[agent], wrong, mask)
                if isinstance(read, ParseFailure):
                    answer, actions[agent], readable = wrong, read.instead, False
                    own = view_for(view, observations[agent])
                    feedbacks[agent] = feedback(own, agent, read) + "\n"
            choices = tuple(answers[i] for i in legal)
            lines[agent].append(TextLine(words, choices, answer, readable))
        rules = {a: view_for(view, seen).rules(a) for a, seen in observations.items()} | rules
        observations, _, _, _, infos = env.step(actions)
    return [Dialogue(rules[agent], tuple(said)) for agent, said in lines.items() if said]


def _samples(env: Any, agent: str, rng: np.random.Generator) -> tuple[str, ...]:
    sample = getattr(env.unwrapped, "sample_answers", None)
    answers = None if sample is None else sample(agent, rng, FREE_ANSWERS)
    if not answers:
        raise PolicyError(
            f"{env.metadata['name']} accepts any text and must define sample_answers for the "
            "embedded model (docs/environments/tasks.md): define them, or use another model"
        )
    return tuple(answers)


def _message(env: Any, view: TextView, agent: str, rng: np.random.Generator) -> str:
    others = [other for other in env.agents if other != agent]
    if not others or rng.random() >= HEARD_SHARE:
        return ""
    speaker = others[rng.integers(len(others))]
    answers = view.answers(speaker)
    return f"{speaker} says: {answers[rng.integers(len(answers))]}\n" if answers else ""


START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
LONGEST_TOKEN = 24  # characters; tokens of whole phrases keep conversations short
LISTED_ANSWERS = 500  # maximum number of legal answers for which each answer becomes one token
VOCABULARY = 640  # maximum: 256 bytes, 3 special tokens, and words and phrases


def build_tokenizer(dialogues: Sequence[Dialogue]) -> Any:
    """Return a transformers tokenizer (byte-level BPE, single digits, ChatML) fit on dialogues."""
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
    # Legal answers are repeated most, so that each becomes one token before the vocabulary is full.
    # Of many different answers, only frequent parts become tokens.
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
    fast.chat_template = TEMPLATES["chatml"]
    return fast


FORMAT_VERSION = 1  # part of the cache key; increase it if the same settings give other weights
GAMES = 32  # number of random episodes
LEARNING_RATE = 8e-3  # maximum of the schedule
LINES_PER_STEP = 48  # number of answers per optimizer step
ILLEGAL_SHARE = 0.004  # probability of an illegal answer below which the warm start ends
ROUNDS = 4  # maximum number of repetitions of the warm start; one is usually enough

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TinySize:
    """Shape of the model; about 100,000 parameters by default."""

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    key_value_heads: int = 2
    intermediate: int = 128
    positions: int = 4096
    """Maximum length of the context in tokens."""


SERVABLE = TinySize(heads=2, key_value_heads=1)
"""Shape for vLLM, whose CPU attention requires heads of at least 32; as many parameters."""


def folder(
    make_env: Callable[[], Any],
    *,
    seed: int = 0,
    turns: int = 16,
    steps: int = 80,
    size: TinySize | None = None,
) -> Path:
    """Train a model, unless it is cached, to answer legally and uniformly at random.

    The folder is cached in `cache_folder()`. The same texts, settings and library versions give
    the same weights.

    Args:
        make_env: Constructor of an environment with a text view.
        seed: Seed of all randomness.
        turns: Maximum number of steps per training episode.
        steps: Optimizer steps, times the number of environments of multitask_v0. These steps run
            1 to ROUNDS times, until nearly all answers are legal; else a warning is logged.
        size: Shape of the model; by default TinySize().

    Returns:
        Folder with model and tokenizer in the format of transformers.

    Raises:
        PolicyError: The environment has no text view or no answers to learn from.
    """
    size = size or TinySize()
    # multitask_v0: each of its environments gets as many episodes and steps as a single one.
    environments = len(getattr(make_env().unwrapped, "environments", ())) or 1
    steps *= environments
    dialogues = random_dialogues(make_env, environments * GAMES, turns, seed)
    versions = torch.__version__, transformers.__version__, tokenizers.__version__
    recipe = FORMAT_VERSION, seed, steps, LEARNING_RATE, size, dialogues, *versions
    digest = hashlib.sha256(repr(recipe).encode()).hexdigest()[:20]
    target = cache_folder() / "tiny" / digest
    if not target.is_dir():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                _save(target, *_build(dialogues, size, seed, steps))
        finally:
            torch.set_num_threads(threads)
    return target


def _build(dialogues: Sequence[Dialogue], size: TinySize, seed: int, steps: int) -> tuple[Any, Any]:
    tokenizer = build_tokenizer(dialogues)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.key_value_heads,
        max_position_embeddings=size.positions,
        # At this width, the default of 0.02 makes embeddings too similar for fast learning.
        initializer_range=size.hidden**-0.5,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    chat = ChatFormat(tokenizer)
    lessons = [_lesson(dialogue, chat) for dialogue in dialogues]
    rng = np.random.default_rng(seed)
    for number in range(ROUNDS):
        work = LongWork(f"embedded model, warm start {number + 1} of at most {ROUNDS}")
        illegal = _warm_start(model, lessons, rng, steps, work)
        if illegal < ILLEGAL_SHARE:
            break
    else:
        log.warning(
            "%.1f%% of the embedded model's answers are illegal after its warm start: set "
            "models.constrained to true, or train the model to answer legally",
            100 * min(illegal, 1.0),
        )
    return model.eval(), tokenizer


@dataclass(frozen=True)
class _Lesson:
    ids: list[int]
    ends: list[int]
    """Length of `ids` after each step."""
    targets: list[list[tuple[int, dict[int, float]]]]
    """Per step: (position of the logits, next token id -> target probability)."""


def _lesson(dialogue: Dialogue, chat: ChatFormat) -> _Lesson:
    lesson = _Lesson([], [], [])
    for line in dialogue.lines:
        opening = ChatTurn(line.words, rules=dialogue.rules)
        turn = ChatTurn(line.words, last=lesson.ids[-1]) if lesson.ids else opening
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
    model: Any, lessons: Sequence[_Lesson], rng: np.random.Generator, steps: int, work: LongWork
) -> float:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, total_steps=steps, pct_start=0.1
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
    rows = [lesson.ids[: lesson.ends[min(turns, len(lesson.ends)) - 1]] for lesson in lessons]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    answers = 0
    places: list[int] = []
    columns: list[int] = []
    tokens: list[int] = []
    wanted_shares: list[float] = []
    for row, lesson in enumerate(lessons):
        for wanted in lesson.targets[:turns]:
            answers += bool(wanted)
            for position, shares in wanted:
                columns += [len(places)] * len(shares)
                places.append(row * width + position)
                tokens += shares.keys()
                wanted_shares += shares.values()
    hidden = model.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    logprobs = model.lm_head(hidden.flatten(0, 1)[places]).log_softmax(-1)
    chosen = logprobs[columns, tokens]
    loss = -(chosen * torch.tensor(wanted_shares)).sum() / len(places)
    return loss, (len(places) - float(chosen.detach().exp().sum())) / answers


def _save(target: Path, model: Any, tokenizer: Any) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as folder:
        partial = Path(folder) / "model"
        with no_bars():
            model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():
                raise
