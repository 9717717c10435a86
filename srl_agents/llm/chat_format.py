"""Conversations as append-only tokens; sampled answers are never tokenized again.

A chat template renders whole conversations. ChatFormat renders it once with markers as contents, to
find the text around the contents. Each turn then appends tokens only. A tokenizer without a
template, as of base models, receives one of TEMPLATES or one from a file.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle
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
    """Return the chat template (Jinja source) of this name in TEMPLATES, or from the file `name`.

    Raises BackendError if the file cannot be read, is empty, or is not UTF-8 text.
    """
    if name in TEMPLATES:
        return TEMPLATES[name]
    try:
        text = read_bytes(Path(os.path.expanduser(name))).decode("utf-8-sig")
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
    """Set the chat template of a tokenizer that has none to `template_of(name)`, in place.

    An existing template is kept, with a warning in the log if it differs. Does nothing if `name` is
    None. The errors of `template_of` are raised even for a tokenizer that has a template.
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


_PROGRAM_ERRORS = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Errors that the code of a template may raise, in addition to Jinja's."""
CACHED = 8192
"""Maximum number of cached tokenizations; prompts of a few hundred tokens take about 20 MB."""

Messages = Sequence[tuple[str, str]]
"""(role, content) of each message of a conversation."""


@dataclass(frozen=True)
class ChatTurn:
    """User message of one turn, with the rules in the first."""

    words: str
    """User message."""
    rules: str | None = None
    """System message of the first turn, empty to send none; None in later turns."""
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
            BackendError: No end token, no template, or one that fails or is not append-only.
        """
        if not tokenizer.chat_template:
            raise BackendError(
                "the tokenizer has no chat template, as most base models: set models.chat_template "
                f"to {', '.join(TEMPLATES)} or a file, or write chat_template.jinja into the "
                "model's folder"
            )
        self._tokenizer = tokenizer
        self._known: dict[tuple[str, ...], tuple[int, ...]] = {}
        self._template_kwargs = dict(template_kwargs or {})
        opening, (self._between, self._next_tail) = _constant_texts(self.render)
        self._head, self._joint, self._tail = opening
        added = tokenizer.added_tokens_decoder
        self._special = {token for token, entry in added.items() if entry.special}
        stops = {int(token) for token in stop_ids}
        if tokenizer.eos_token_id is not None:
            stops.add(tokenizer.eos_token_id)
        [between] = self._encode([self._between])
        closing = [token for token in between if token in stops or token in self._special]
        if not closing and tokenizer.eos_token_id is None:
            raise BackendError(
                "neither the chat template nor the tokenizer names an end-of-turn token; set "
                "tokenizer.eos_token"
            )
        self.end_of_turn: int = closing[0] if closing else int(tokenizer.eos_token_id or 0)
        """Token id that ends an answer in the template."""
        self.stop_ids: frozenset[int] = frozenset(stops | {self.end_of_turn})
        """All token ids that end an answer."""

    def render(self, messages: Messages) -> str:
        """Render (role, content) messages up to the next answer; BackendError if this fails."""
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
        """Return, for each turn, the token ids that it appends up to the model's next answer.

        Later turns begin with the end of the previous turn, unless `last` is `end_of_turn`.
        """
        prompts = []
        for turn in turns:
            ids = self._ids(self._pieces(turn))
            if turn.last == self.end_of_turn and turn.last in ids:
                ids = ids[ids.index(turn.last) + 1 :]
            prompts.append(ids)
        return prompts

    def answer(self, text: str) -> tuple[int, ...]:
        """Return an answer's token ids without end of turn; control tokens become plain text."""
        return self._ids(("", text))

    def answers(self, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the token ids of each answer, in the order of `texts`, without ends of turn.

        Raises PolicyError if an answer has no tokens, or two answers have the same tokens.
        """
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
        """Return the text of an answer's token ids, with special tokens but no final stop token."""
        content = ids[:-1] if ids and ids[-1] in self.stop_ids else ids
        text = self._tokenizer.decode(
            list(content), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return str(text)

    def _pieces(self, turn: ChatTurn) -> tuple[str, ...]:
        words = turn.words.strip()
        if turn.rules is None:
            return self._between, words, self._next_tail
        if not turn.rules:
            head, _, tail = self.render([("user", _CONTENTS[1])]).partition(_CONTENTS[1])
            return head, words, tail
        return self._head, turn.rules.strip(), self._joint, words, self._tail

    def _ids(self, pieces: tuple[str, ...]) -> tuple[int, ...]:
        if pieces not in self._known:
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[pieces] = tuple(self._tokenized(pieces))
        return self._known[pieces]

    def _tokenized(self, pieces: tuple[str, ...]) -> list[int]:
        joined, *apart = self._encode(["".join(pieces), *pieces])
        controls, *numbers = (
            sum(token in self._special for token in ids) for ids in (joined, *apart)
        )
        # A content may contain a control token and, at the same time, break one of the template, so
        # that the total number is unchanged.
        if controls == sum(numbers[::2]) and not any(numbers[1::2]):
            return joined
        contents = self._encode(list(pieces[1::2]), split_special_tokens=True)
        # A vocabulary may contain the text of a control token as an ordinary piece.
        apart[1::2] = [[token for token in ids if token not in self._special] for ids in contents]
        return list(chain.from_iterable(apart))

    def _encode(self, texts: list[str], **settings: Any) -> list[list[int]]:
        whole = [text.encode("utf-8", "backslashreplace").decode() for text in texts]
        encoded = self._tokenizer(  # Lone surrogates, now escapes, are not text.
            whole, add_special_tokens=False, return_attention_mask=False, **settings
        )
        ids: list[list[int]] = encoded["input_ids"]
        return ids


# Contents of an example conversation: rules, message, answer, message, answer, message. They are
# plain letters and digits, which no template trims, escapes or splits.
_CONTENTS = tuple(f"marker{name}Z" for name in ("Rules", "W0", "A0", "W1", "A1", "W2"))
_ANY_CONTENT = re.compile("|".join(_CONTENTS))


def _constant_texts(render: Callable[[Messages], str]) -> tuple[list[str], list[str]]:
    """Return the template's texts around the contents of a first turn, and of a later turn.

    Raises BackendError if the template is not append-only.
    """
    try:
        # Some templates move the system message to the newest turn, which is not append-only.
        _texts_around(render, 4, has_system=True)
        has_system = True
    except BackendError:
        has_system = False
    opening, longer, longest = (_texts_around(render, n, has_system=has_system) for n in (2, 4, 6))
    for before, after in ((opening[:2], longer[:2]), (longer[3:], longest[5:])):
        if before != after:
            raise BackendError(
                "the chat template rewrites earlier turns, so a conversation cannot be continued "
                f"by appending: {before!r} becomes {after!r} in a longer conversation"
            )
    return opening, longer[3:]


def _texts_around(render: Callable[[Messages], str], count: int, *, has_system: bool) -> list[str]:
    rules, first, *later = _CONTENTS[:count]
    messages = [("system", rules), ("user", first)]
    if not has_system:
        messages = [("user", f"{rules}\n\n{first}")]
    text = render([*messages, *zip(cycle(("assistant", "user")), later)])
    if tuple(_ANY_CONTENT.findall(text)) != _CONTENTS[:count]:
        raise BackendError(
            "the chat template must contain each message once and in order, so that a conversation "
            f"can be continued by appending, got {text!r}"
        )
    return _ANY_CONTENT.split(text)
