"""Policy on a chat backend: same prompts and same parsing as the text policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srl_agents.episode import Decision
from srl_agents.event_loop import together
from srl_agents.llm.backends.chat_backend import ChatModel, ChatRequest, Message, seed_from
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import decided, rules_for, situation
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView


@dataclass(frozen=True, eq=False)
class ChatConversation:
    """Memory of one agent in one episode."""

    rng: np.random.Generator
    messages: tuple[Message, ...] = ()
    failure: ParseFailure | None = None
    """Reason why the last answer was unreadable, added to the next prompt."""


class ChatPolicy:
    """Policy that plays environments with a TextView with a ChatModel.

    Decisions have text and no tokens. The rules are the system message, each situation is a user
    message.
    """

    def __init__(
        self,
        model: ChatModel,
        view: TextView,
        *,
        sampling: Sampling | None = None,
        per_agent: Mapping[str, Sampling] | None = None,
        name: str | None = None,
    ) -> None:
        """Create a policy; `sampling` is for agents not in `per_agent`.

        Raises PolicyError for sampling settings that the API does not support.
        """
        self.name = name or model.name
        self._model, self._view = model, view
        self._sampling, self._per_agent = sampling or Sampling(), dict(per_agent or {})
        for settings in (self._sampling, *self._per_agent.values()):
            model.check(settings)

    def start(self, seed: int) -> ChatConversation:
        return ChatConversation(np.random.default_rng(seed))

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[ChatConversation]
    ) -> tuple[list[Decision], list[ChatConversation]]:
        conversations = [
            (*state.messages, *self._said(one, state))
            for one, state in zip(seen, states, strict=True)
        ]
        requests = [
            ChatRequest(
                messages,
                self._per_agent.get(one.agent, self._sampling),
                seed_from(state.rng) if self._model.takes_seed else None,
            )
            for one, state, messages in zip(seen, states, conversations, strict=True)
        ]
        answers = await together(*map(self._model.answer, requests))
        decisions, memories = [], []
        for one, state, messages, answer in zip(seen, states, conversations, answers, strict=True):
            ending = "" if answer.ended else f" (it ended by {answer.finish_reason!r})"
            decision, failure = decided(self._view, one, answer.text, ending=ending)
            decisions.append(decision)
            said = (*messages, {"role": "assistant", "content": answer.text})
            memories.append(replace(state, messages=said, failure=failure))
        return decisions, memories

    def leave(self, state: ChatConversation) -> None:
        """The episode is over; nothing was kept for it."""

    def _said(self, seen: AgentObservation, state: ChatConversation) -> list[Message]:
        words = situation(self._view, seen, state.failure)
        turn = {"role": "user", "content": words.strip()}
        if state.messages:
            return [turn]
        return [{"role": "system", "content": rules_for(self._view, seen).strip()}, turn]
