"""Token backend on another framework's inference engine: one agent's conversation in one game."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.llm.backends.token_backend import Completion, Request
from srl_agents.llm.chat_format import ChatFormat


@dataclass(frozen=True)
class EngineAnswer:
    """What an engine sampled."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None
    """Natural log-probability of each token; None where the engine gives none."""
    versions: tuple[int, ...] = ()
    """Of the weights that sampled: each token's, or the oldest and the newest; none where the
    engine does not tell."""


Generate = Callable[[Sequence[int], int], Awaitable[EngineAnswer]]
"""(all the model reads, tokens it may write) -> its answer. Sampling is the framework's."""


class EngineBackend:
    """What an engine answers to one agent in one game; its answers are kept in order."""

    def __init__(
        self, name: str, chat: ChatFormat, generate: Generate, room: Callable[[int], int]
    ) -> None:
        """`room`: tokens of the first prompt -> tokens that the conversation may have after it."""
        self.name, self.chat = name, chat
        self.answers: list[EngineAnswer] = []
        self.full = False
        """An answer was asked for that had no room: the game ended there."""
        self._generate, self._room = generate, room
        self._opening: int | None = None

    async def complete(self, request: Request) -> Completion:
        """The engine's answer; what the engine raises goes through.

        Raises BackendError where the conversation has no room for another answer, and where the
        engine gives no token.
        """
        length = len(request.context)
        if self._opening is None:
            self._opening = length
        room = self._room(self._opening) - (length - self._opening)
        if request.longest > room:
            self.full = True
            raise BackendError(
                f"a conversation of {length} tokens has room for {max(room, 0)} more, and an "
                f"answer may take {request.longest}: lower max_new_tokens, play fewer turns, or "
                f"give {self.name} longer sequences"
            )
        answer = await self._generate(request.context, request.longest)
        if not answer.ids:
            raise BackendError(f"{self.name} gave an answer without a token: was it aborted?")
        if answer.logprobs is not None and len(answer.logprobs) != len(answer.ids):
            raise BackendError(
                f"{self.name} gave {len(answer.ids)} tokens and {len(answer.logprobs)} "
                "log-probabilities"
            )
        self.answers.append(answer)
        return Completion(
            answer.ids,
            (math.nan,) * len(answer.ids) if answer.logprobs is None else answer.logprobs,
            ended=answer.ids[-1] in self.chat.stop_ids,
            model=ModelVersion(self.name, min(answer.versions, default=0)),
        )

    def release(self, conversation: int) -> None:
        """Nothing is kept beside the answers."""
