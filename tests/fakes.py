"""Stand-ins for tests: a backend with scripted answers, and a tokenizer of plain bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.chat_format import ChatFormat

START, END = 256, 257
_SPECIAL = {"<|im_start|>": START, "<|im_end|>": END}
_NAMES = {number: text for text, number in _SPECIAL.items()}


class _AddedToken(str):
    special = True


class ByteTokenizer:
    """Tokenizer of UTF-8 bytes and two control tokens, with a ChatML template."""

    chat_template = "built in"
    eos_token_id: int | None = END
    added_tokens_decoder: Mapping[int, Any] = {n: _AddedToken(text) for n, text in _NAMES.items()}

    def __call__(
        self, text: list[str], split_special_tokens: bool = False, **_: Any
    ) -> dict[str, list[list[int]]]:
        pattern = None if split_special_tokens else re.compile(r"(<\|im_start\|>|<\|im_end\|>)")
        return {"input_ids": [self._encode(one, pattern) for one in text]}

    def _encode(self, text: str, pattern: re.Pattern[str] | None) -> list[int]:
        pieces = [text] if pattern is None else pattern.split(text)
        return [
            token
            for piece in pieces
            for token in (
                [_SPECIAL[piece]]
                if pattern is not None and piece in _SPECIAL
                else piece.encode("utf-8", "surrogatepass")
            )
        ]

    def decode(self, token_ids: Sequence[int], **_: Any) -> str:
        data = b"".join(
            _NAMES[token].encode() if token in _NAMES else bytes([token]) for token in token_ids
        )
        return data.decode("utf-8", "surrogatepass")

    def apply_chat_template(
        self, conversation: list[dict[str, str]], add_generation_prompt: bool, **_: Any
    ) -> str:
        said = [f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in conversation]
        return "".join(said) + ("<|im_start|>assistant\n" if add_generation_prompt else "")


class ScriptedBackend:
    """Backend that answers with given texts in order, or `answers(request)`; records requests."""

    def __init__(self, answers: Iterable[str] | Callable[[Request], str]):
        self.name = "scripted"
        self.chat = ChatFormat(ByteTokenizer())
        self.requests: list[Request] = []
        self.released: list[int] = []
        self._answers = answers if callable(answers) else iter(answers)

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        text = self._answers(request) if callable(self._answers) else next(self._answers)
        ids = (*self.chat.answer(text), self.chat.end_of_turn)
        return Completion(ids, (-0.5,) * len(ids), ended=True, model=ModelVersion("scripted"))

    def release(self, conversation: int) -> None:
        self.released.append(conversation)

    def heard(self, index: int) -> str:
        """Return the whole conversation of request `index`."""
        return self.chat.text(self.requests[index].context)


class BrokenBackend(ScriptedBackend):
    """Backend that fails on every call."""

    def __init__(self) -> None:
        super().__init__([])

    async def complete(self, request: Request) -> Completion:
        raise BackendError("the machine is on fire")


@dataclass(frozen=True)
class Vote:
    """View of a game with three choices, whose observations are already text."""

    default_action: int = 2
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        return f"You are {agent}. Say stay, go or go home."

    def describe(self, agent: str, observation: Any) -> str:
        return f"You see {observation}."

    def answers(self, agent: str) -> tuple[str, ...]:
        return ("stay", "go", "go home")

    def parse(self, agent: str, answer: str) -> Any:
        from srl_envs.text import parse_choice

        return parse_choice(answer, self.answers(agent))
