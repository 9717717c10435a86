"""Language-model policy on a chat backend, with the prompts and the parsing of TextPolicy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srl_agents.episode import Decision
from srl_agents.event_loop import together
from srl_agents.llm.backends.chat_backend import ChatModel, ChatRequest, Message, seed_from
from srl_agents.llm.context import ContextFunction, select
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import decided, messages_until
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView


@dataclass(frozen=True, eq=False)
class ChatConversation:
    """Memory of an agent that a ChatPolicy plays, in one episode."""

    rng: np.random.Generator
    """Generator of the seeds of requests."""
    messages: tuple[Message, ...] = ()
    failure: ParseFailure | None = None
    """Parse failure of the last answer, or None."""


class ChatPolicy:
    """Language model that plays environments with a TextView, through a ChatModel.

    Prompts and parsing are those of TextPolicy. Decisions contain text and no tokens.
    """

    def __init__(
        self,
        model: ChatModel,
        view: TextView,
        *,
        sampling: Sampling | None = None,
        per_agent: Mapping[str, Sampling] | None = None,
        context: ContextFunction | None = None,
        name: str | None = None,
    ) -> None:
        """Create a policy.

        Args:
            model: Model that answers.
            view: Text view of the environment.
            sampling: Settings of agents that are not in `per_agent`; None selects Sampling().
            per_agent: Agent -> sampling settings.
            context: Function that selects the messages of each request; None selects all.
            name: Name in records; by default the model's.

        Raises:
            PolicyError: The API does not support a sampling setting.
        """
        self.name = name or model.name
        self._context = context
        self._model, self._view = model, view
        self._sampling, self._per_agent = sampling or Sampling(), dict(per_agent or {})
        for settings in (self._sampling, *self._per_agent.values()):
            model.check(settings)

    def start(self, seed: int) -> ChatConversation:
        return ChatConversation(np.random.default_rng(seed))

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[ChatConversation]
    ) -> tuple[list[Decision], list[ChatConversation]]:
        conversations, requests = [], []
        for one, state in zip(seen, states, strict=True):
            messages = messages_until(self._view, one, state.messages, state.failure)
            conversations.append(messages)
            copies: list[Message] = [dict(one) for one in messages]  # A function may change them.
            requests.append(
                ChatRequest(
                    tuple(select(self._context, copies)) if self._context else messages,
                    self._per_agent.get(one.agent, self._sampling),
                    seed_from(state.rng) if self._model.takes_seed else None,
                )
            )
        answers = await together(*map(self._model.answer, requests))
        decisions, memories = [], []
        for one, state, messages, answer in zip(seen, states, conversations, answers, strict=True):
            ending = "" if answer.ended else f" (it ended by {answer.finish_reason!r})"
            decision, failure = decided(self._view, one, answer.text, ending=ending)
            decisions.append(decision)
            whole = (*messages, {"role": "assistant", "content": answer.text})
            memories.append(replace(state, messages=whole, failure=failure))
        return decisions, memories

    def leave(self, state: ChatConversation) -> None:
        pass  # A conversation has no resources.
