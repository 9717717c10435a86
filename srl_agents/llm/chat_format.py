"""Conversations as append-only tokens; sampled answers are never tokenized again.

A chat template renders whole conversations. ChatFormat renders it once with markers as contents, to
find the text around the contents. Each turn then appends tokens only. A tokenizer without a
template, as of base models, receives one of TEMPLATES or one from a file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srl_agents.errors import BackendError, PolicyError
from srl_envs.untrusted import read_bytes

TEMPLATES = {
    name: (Path(__file__).parent / "chat_templates" / f"{name}.jinja").read_bytes().decode()
    for name in ("plain", "chatml", "gemma")
}
"""Name -> template: plain paragraphs, for base models; ChatML, similar to Qwen's; Gemma's, without
a system role, in which the rules are the beginning of the first user message."""

log = logging.getLogger(__name__)


def template_of(name: str) -> str:
    """Return the template of this name in TEMPLATES, or the content of the file `name`.

    Raises BackendError if the file cannot be read or is empty.
    """
    if name in TEMPLATES:
        return TEMPLATES[name]
    try:
        text = read_bytes(Path(name).expanduser()).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise BackendError(
            f"the chat template must be {', '.join(TEMPLATES)} or a readable file, got {name!r} "
            f"({reason})"
        ) from error
    if not text.strip():
        raise BackendError(f"the chat template {name} is an empty file")
    return text


def fill_in(tokenizer: Any, name: str | None) -> None:
    """Set the chat template of a tokenizer that has none to `template_of(name)`.

    The template of the tokenizer is kept if there is one, with a warning if it differs.
    """
    if name is None:
        return
    template, current = template_of(name), tokenizer.chat_template
    if not current:
        tokenizer.chat_template = template
    # Some tokenizers have a dictionary of named templates.
    elif not isinstance(current, str) or current.strip() != template.strip():
        log.warning(
            "%s: the tokenizer's chat template is used, %r is ignored",
            getattr(tokenizer, "name_or_path", "") or "a model", name,
        )  # fmt: skip


# Markers of plain letters and digits, which no template trims, escapes or splits.
_RULES, _WORDS, _ANSWER, _MORE, _AGAIN = (f"marker{n}Z" for n in ("Rules", "W0", "A0", "W1", "A1"))

_PROGRAM_ERRORS = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Errors that the code of a template may raise, in addition to Jinja's."""

CACHED_ANSWERS = 8192
CACHED_PROMPTS = 8192
"""Maximum numbers of cached tokenizations; prompts of a few hundred tokens take about 20 MB."""


Render = Callable[[Sequence[tuple[str, str]]], str]
"""Function from (role, content) messages to the template's text before the model's answer."""


@dataclass(frozen=True)
class ChatTurn:
    """Next message to the model."""

    words: str
    """User message."""
    rules: str | None = None
    """System message of the first turn, may be empty; None in later turns."""
    last: int | None = None
    """Last token id of the previous answer; None in the first turn."""


class ChatFormat:
    """Conversion between conversations and tokens, for one tokenizer.

    The chat template must be append-only: a new message must not change the text of earlier ones.
    In a template without a system role, the rules are the beginning of the first user message.
    """

    def __init__(
        self,
        tokenizer: Any,
        stop_ids: Iterable[int] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ):
        """Analyze the tokenizer's chat template.

        Args:
            tokenizer: Hugging Face tokenizer.
            stop_ids: Token ids that end an answer, in addition to the tokenizer's.
            template_kwargs: Arguments of the template.

        Raises:
            BackendError: The template is missing, fails, or is not append-only.
        """
        if not tokenizer.chat_template:
            raise BackendError(
                "the tokenizer has no chat template, as most base models: set models.chat_template "
                f"to {', '.join(TEMPLATES)} or a file, or write chat_template.jinja into the "
                "model's folder"
            )
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, ...], list[int]] = {}
        self._known_answers: dict[str, tuple[int, ...]] = {}
        self._template_kwargs = dict(template_kwargs or {})
        self._has_system, (self._head, self._joint, self._tail) = _opening(self.render)
        opening = self._head + _RULES + self._joint
        self._between, self._next_tail = _continuation(self.render, self._has_system, opening)
        added = tokenizer.added_tokens_decoder
        special = {token for token, entry in added.items() if entry.special}
        self._special = frozenset(special)
        self._controls_in: dict[str, int] = {}
        stops = {int(token) for token in stop_ids}
        if tokenizer.eos_token_id is not None:
            stops.add(tokenizer.eos_token_id)
        [between] = self._encode([self._between])
        closing = [token for token in between if token in stops or token in special]
        if not closing and tokenizer.eos_token_id is None:
            raise BackendError(
                "neither the chat template nor the tokenizer names an end-of-turn token; set "
                "tokenizer.eos_token"
            )
        self.end_of_turn: int = closing[0] if closing else int(tokenizer.eos_token_id or 0)
        """Token id that ends an answer in the template."""
        self.stop_ids: frozenset[int] = frozenset(stops | {self.end_of_turn})
        """All token ids that end an answer."""

    def render(self, messages: Sequence[tuple[str, str]]) -> str:
        """Return (role, content) messages as text up to the next answer, or raise BackendError."""
        from jinja2.exceptions import TemplateError, UndefinedError  # an optional dependency

        try:
            rendered = self._tokenizer.apply_chat_template(
                [{"role": role, "content": content} for role, content in messages],
                tokenize=False,
                add_generation_prompt=True,
                **self._template_kwargs,
            )
        except UndefinedError as error:  # most often a special token that the tokenizer lacks
            raise BackendError(
                f"the chat template uses an undefined name: {error}. Set tokens in "
                "tokenizer_config.json, and other names in models.chat_template_kwargs"
            ) from error
        except (TemplateError, *_PROGRAM_ERRORS) as error:
            roles = ", ".join(role for role, _ in messages)
            message = f"the chat template fails on messages of {roles}: {error}"
            raise BackendError(message) from error
        return str(rendered)

    def prompts(self, turns: Sequence[ChatTurn]) -> list[tuple[int, ...]]:
        """Return the token ids that each turn appends, up to the next answer.

        They begin with the end of the previous answer if the model did not sample it.
        """
        prompts = []
        encoded = self._encode_pieces([self._pieces(turn) for turn in turns])
        for ids, turn in zip(encoded, turns, strict=True):
            if turn.last == self.end_of_turn and turn.last in ids:
                ids = ids[ids.index(turn.last) + 1 :]
            prompts.append(tuple(ids))
        return prompts

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the token ids of an answer, without its end of turn."""
        if text not in self._known_answers:
            if len(self._known_answers) >= CACHED_ANSWERS:
                self._known_answers.clear()
            [ids] = self._encode([text])
            self._known_answers[text] = tuple(ids)
        return self._known_answers[text]

    def answers(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the token ids of answers; raise PolicyError if they are empty or not distinct."""
        known: dict[tuple[int, ...], str] = {}
        for text in texts:
            ids = self.answer(text)
            if not ids:
                raise PolicyError(
                    f"legal answers and sample_answers must contain words, got {text!r}"
                )
            if ids in known:
                raise PolicyError(
                    "legal answers and sample_answers must differ in tokens, got "
                    f"{known[ids]!r} and {text!r}"
                )
            known[ids] = text
        return tuple(known)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an answer, with special tokens except its end of turn."""
        content = ids[:-1] if ids and ids[-1] in self.stop_ids else ids
        text = self._tokenizer.decode(
            list(content), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)

    def _pieces(self, turn: ChatTurn) -> tuple[str, ...]:
        """Return the text of a turn as alternating pieces of the template and contents."""
        words = turn.words.strip()
        if turn.rules is None:
            return self._between, words, self._next_tail
        if not turn.rules:
            head, _, tail = self.render([("user", _WORDS)]).partition(_WORDS)
            return head, words, tail
        return self._head, turn.rules.strip(), self._joint, words, self._tail

    def _encode_pieces(self, rows: Sequence[tuple[str, ...]]) -> list[list[int]]:
        """Tokenize rows of pieces, so that contents cannot contain control tokens."""
        if len(self._known) > CACHED_PROMPTS:
            self._known.clear()
        missing = [pieces for pieces in dict.fromkeys(rows) if pieces not in self._known]
        if missing:
            # Contents are also tokenized alone. A content may contain a control token and, at the
            # same time, break one of the template, so that the total number is unchanged.
            contents = [piece for pieces in missing for piece in pieces[1::2]]
            encoded = self._encode(["".join(pieces) for pieces in missing] + contents)
            alone = map(self._count_controls, encoded[len(missing) :])
            for pieces, ids in zip(missing, encoded, strict=False):
                in_contents = sum(next(alone) for _ in pieces[1::2])
                in_template = sum(map(self._template_controls, pieces[::2]))
                if in_contents or self._count_controls(ids) != in_template:
                    ids = self._encode_apart(pieces)
                self._known[pieces] = ids
        return [self._known[pieces] for pieces in rows]

    def _encode_apart(self, pieces: tuple[str, ...]) -> list[int]:
        """Tokenize each piece alone, contents without control tokens."""
        return [
            token
            for place, piece in enumerate(pieces)
            for token in self._encode([piece], split_special_tokens=place % 2 == 1)[0]
            # A vocabulary may contain the text of a control token as an ordinary piece.
            if place % 2 == 0 or token not in self._special
        ]

    def _template_controls(self, text: str) -> int:
        """Return the number of control tokens in a piece of the template."""
        if text not in self._controls_in:
            self._controls_in[text] = self._count_controls(self._encode([text])[0])
        return self._controls_in[text]

    def _count_controls(self, ids: list[int]) -> int:
        return sum(token in self._special for token in ids)

    def _encode(self, texts: list[str], **settings: Any) -> list[list[int]]:
        encoded = self._tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False, **settings
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids


_START = [("system", _RULES), ("user", _WORDS)]
_START_WITHOUT_SYSTEM = [("user", f"{_RULES}\n\n{_WORDS}")]


def _opening(render: Render) -> tuple[bool, tuple[str, str, str]]:
    """Return whether there is a system role, and the texts around the first rules and message.

    The texts are before the rules, between rules and user message, and after the message. Raises
    BackendError if a message is missing or repeated.
    """
    try:
        text = render(_START)
        rendered = render([*_START, ("assistant", _ANSWER), ("user", _MORE)])
        # Some templates move the system message to the newest turn, which is not append-only.
        has_system = 0 <= rendered.find(_RULES) < rendered.find(_WORDS)
    except BackendError:
        has_system = False
    if not has_system:
        text = render(_START_WITHOUT_SYSTEM)
    head, _, rest = text.partition(_RULES)
    joint, found, tail = rest.partition(_WORDS)
    if not found or _WORDS in tail:
        raise BackendError(f"the chat template must contain each message once, got {text!r}")
    return has_system, (head, joint, tail)


def _continuation(render: Render, has_system: bool, opening: str) -> tuple[str, str]:
    """Return the template's texts before and after a user message that follows an answer.

    Raises BackendError if earlier turns are not the same in a longer conversation.
    """
    start = _START if has_system else _START_WITHOUT_SYSTEM
    more = [*start, ("assistant", _ANSWER), ("user", _MORE)]
    again = [*more, ("assistant", _AGAIN), ("user", _WORDS)]
    begun, _, rest = render(more).partition(_WORDS)
    if begun != opening:
        raise BackendError(
            "the chat template rewrites earlier turns, so a conversation cannot be continued by "
            f"appending: {opening!r} becomes {begun!r} after the first answer"
        )
    between, found, tail = rest.partition(_ANSWER)[2].partition(_MORE)
    later = render(again).partition(_AGAIN)[2].partition(_WORDS)
    if not found or later != (between, _WORDS, tail):
        raise BackendError(
            "the chat template rewrites earlier turns, so a conversation cannot be continued by "
            f"appending: {between + found + tail!r} after the first answer, "
            f"{''.join(later)!r} after the second"
        )
    return between, tail
