"""Conversations as tokens: append-only, sampled answers never tokenized again.

A chat template renders whole conversations. The format renders markers instead of contents once,
to find the text around them; each turn then only appends tokens. A tokenizer without a template,
as of base models, receives one of TEMPLATES or of a file.
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
    # Plain paragraphs: for a model that has read texts and no conversations.
    "plain": (
        "{{ bos_token }}"
        "{% for m in messages %}"
        "{% if m['role'] == 'assistant' %}Answer:\n{{ m['content'] }}{{ eos_token }}\n\n"
        "{% elif m['role'] == 'system' %}{{ m['content'] }}\n\n"
        "{% else %}{{ m['content'] }}\n{% endif %}"
        "{% endfor %}"
        "{% if add_generation_prompt %}Answer:\n{% endif %}"
    ),
    # ChatML, as Qwen's: control tokens around messages.
    "chatml": (
        "{% for m in messages %}"
        "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    # Gemma's, without a system role: the rules open the first user message.
    "gemma": (
        "{{ bos_token }}"
        "{% for m in messages %}"
        "{% if m['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}"
        "{% endif %}"
        "<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
        "{{ m['content'] }}<end_of_turn>\n"
        "{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    ),
}
"""Name -> the template, in Jinja."""

log = logging.getLogger(__name__)


def template_of(name: str) -> str:
    """Return the template of TEMPLATES or of a file; raise BackendError for an unreadable file."""
    if name in TEMPLATES:
        return TEMPLATES[name]
    try:
        text = read_bytes(Path(name).expanduser()).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is no text"
        raise BackendError(
            f"the chat template {name!r} is none of ours ({', '.join(TEMPLATES)}), and no file "
            f"that can be read ({reason})"
        ) from error
    if not text.strip():
        raise BackendError(f"the chat template {name} is an empty file")
    return text


def fill_in(tokenizer: Any, name: str | None) -> None:
    """Give a tokenizer without a chat template the template `name`. Raises as `template_of`."""
    if name is None:
        return
    template, own = template_of(name), tokenizer.chat_template
    if not own:
        tokenizer.chat_template = template
    elif not isinstance(own, str) or own.strip() != template.strip():  # some have several by name
        log.warning(
            "%s: the tokenizer has a chat template of its own, which is kept in place of %r",
            getattr(tokenizer, "name_or_path", "") or "a model", name,
        )  # fmt: skip


# Plain letters and digits: no template trims, escapes or splits them.
_RULES, _WORDS, _ANSWER, _MORE, _AGAIN = (f"marker{n}Z" for n in ("Rules", "W0", "A0", "W1", "A1"))

_OF_PROGRAMS = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Errors that a template may raise, next to those of Jinja."""

REMEMBERED_ANSWERS = 8192  # cached legal answers
REMEMBERED_PROMPTS = 8192  # situations come back; at a few hundred tokens each, some 20 MB at most


Render = Callable[[Sequence[tuple[str, str]]], str]
"""(role, content) messages -> the template's text, up to where the model answers."""


@dataclass(frozen=True)
class ChatTurn:
    """Next message to the model."""

    words: str
    rules: str | None = None
    """System message, only at the beginning of a conversation; may be empty."""
    last: int | None = None
    """Last token of the previous answer; None at the beginning of a conversation."""


class ChatFormat:
    """Chat format of one tokenizer.

    The chat template must be append-only. Without a system role, the rules open the first user
    message.
    """

    def __init__(
        self,
        tokenizer: Any,
        stop_ids: Iterable[int] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ):
        """Read the template of a Hugging Face `tokenizer`; raise BackendError if that is missing.

        `stop_ids` are more ids that end an answer; `template_kwargs` are passed to the template.
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
        self._own_controls: dict[str, int] = {}
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
        """Token that ends an answer in the template."""
        self.stop_ids: frozenset[int] = frozenset(stops | {self.end_of_turn})
        """All tokens that end an answer."""

    def render(self, messages: Sequence[tuple[str, str]]) -> str:
        """Render (role, content) messages up to the next answer; raise BackendError on failure."""
        from jinja2.exceptions import TemplateError, UndefinedError  # not in the base install

        try:
            rendered = self._tokenizer.apply_chat_template(
                [{"role": role, "content": content} for role, content in messages],
                tokenize=False,
                add_generation_prompt=True,
                **self._template_kwargs,
            )
        except UndefinedError as error:  # a special token that the tokenizer has not, most often
            raise BackendError(
                f"the chat template uses an undefined name: {error}. Set tokens in "
                "tokenizer_config.json, and other names in models.chat_template_kwargs"
            ) from error
        except (TemplateError, *_OF_PROGRAMS) as error:
            roles = ", ".join(role for role, _ in messages)
            message = f"the chat template fails on messages of {roles}: {error}"
            raise BackendError(message) from error
        return str(rendered)

    def prompts(self, turns: Sequence[ChatTurn]) -> list[tuple[int, ...]]:
        """Return the tokens that each turn appends, up to the next answer.

        They begin with the end of the previous answer if the model did not write it.
        """
        encoded = self._encode_pieces([self._pieces(turn) for turn in turns])
        return [
            tuple(self._without_closing(ids, turn.last))
            for ids, turn in zip(encoded, turns, strict=True)
        ]

    def answer(self, text: str) -> tuple[int, ...]:
        """Return the tokens of an answer without its end of turn."""
        if text not in self._known_answers:
            if len(self._known_answers) >= REMEMBERED_ANSWERS:
                self._known_answers.clear()
            [ids] = self._encode([text])
            self._known_answers[text] = tuple(ids)
        return self._known_answers[text]

    def answers(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the tokens of each answer; raise PolicyError for no tokens, or the same."""
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
        """Return the text of an answer without its end of turn; other special tokens stay
        visible."""
        said = ids[:-1] if ids and ids[-1] in self.stop_ids else ids
        return str(
            self._tokenizer.decode(
                list(said), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def _pieces(self, turn: ChatTurn) -> tuple[str, ...]:
        words = turn.words.strip()
        if turn.rules is None:
            return self._between, words, self._next_tail
        if not turn.rules:
            head, _, tail = self.render([("user", _WORDS)]).partition(_WORDS)
            return head, words, tail
        return self._head, turn.rules.strip(), self._joint, words, self._tail

    def _encode_pieces(self, rows: Sequence[tuple[str, ...]]) -> list[list[int]]:
        if len(self._known) > REMEMBERED_PROMPTS:
            self._known.clear()
        missing = [pieces for pieces in dict.fromkeys(rows) if pieces not in self._known]
        if missing:
            # Each content by itself too: it may hold a control token, and keep one of the
            # template's from being one, so that there are no more of them than there should be.
            contents = [piece for pieces in missing for piece in pieces[1::2]]
            encoded = self._encode(["".join(pieces) for pieces in missing] + contents)
            alone = map(self._controls, encoded[len(missing) :])
            for pieces, ids in zip(missing, encoded, strict=False):
                held = sum(next(alone) for _ in pieces[1::2])
                self._known[pieces] = self._spelled_out(pieces, ids, held)
        return [self._known[pieces] for pieces in rows]

    def _spelled_out(self, pieces: tuple[str, ...], ids: list[int], held: int) -> list[int]:
        self._count(pieces[::2])
        own = sum(self._own_controls[piece] for piece in pieces[::2])
        if self._controls(ids) == own and not held:
            return ids
        return [
            token
            for place, piece in enumerate(pieces)
            for token in self._encode([piece], split_special_tokens=place % 2 == 1)[0]
            if place % 2 == 0 or token not in self._special  # a vocabulary may have it as a piece
        ]

    def _count(self, template_texts: Iterable[str]) -> None:
        missing = [text for text in template_texts if text not in self._own_controls]
        if missing:
            counts = map(self._controls, self._encode(missing))
            self._own_controls.update(zip(missing, counts, strict=True))

    def _controls(self, ids: list[int]) -> int:
        return sum(token in self._special for token in ids)

    def _encode(self, texts: list[str], **settings: Any) -> list[list[int]]:
        encoded = self._tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False, **settings
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def _without_closing(self, ids: list[int], last: int | None) -> list[int]:
        if last is None or last != self.end_of_turn or last not in ids:
            return ids
        return ids[ids.index(last) + 1 :]


_START = [("system", _RULES), ("user", _WORDS)]
_START_WITHOUT_SYSTEM = [("user", f"{_RULES}\n\n{_WORDS}")]


def _opening(render: Render) -> tuple[bool, tuple[str, str, str]]:
    try:
        text = render(_START)
        rendered = render([*_START, ("assistant", _ANSWER), ("user", _MORE)])
        # Some templates move the system message to the newest turn: that is not append-only.
        has_system = 0 <= rendered.find(_RULES) < rendered.find(_WORDS)
    except BackendError:
        has_system = False
    if not has_system:
        text = render(_START_WITHOUT_SYSTEM)
    head, _, rest = text.partition(_RULES)
    joint, found, tail = rest.partition(_WORDS)
    if not found or _WORDS in tail:
        raise BackendError(f"the chat template does not show the messages' text once: {text!r}")
    return has_system, (head, joint, tail)


def _continuation(render: Render, has_system: bool, opening: str) -> tuple[str, str]:
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
