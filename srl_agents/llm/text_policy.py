"""Policy on a token backend: prompt, completion, parsed action."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from srl_agents.episode import Decision, Tokens
from srl_agents.errors import PolicyError
from srl_agents.event_loop import together
from srl_agents.llm.backends.token_backend import Backend, Completion, Request
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.opponent_notes import History, PartnerNotes
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView, feedback, read_answer, tells_time, view_for
from srl_envs.untrusted import printable


def rules_for(view: TextView, seen: AgentObservation) -> str:
    """Return the rules, which open an agent's conversation."""
    return view_for(view, seen.observation).rules(seen.agent)


def situation(
    view: TextView, seen: AgentObservation, failure: ParseFailure | None = None, note: str = ""
) -> str:
    """Return the prompt of a step: parse failure, messages, situation and note."""
    lines = []
    if failure is not None:
        lines.append(feedback(view, seen.agent, failure))
    # One line each, so that words cannot imitate a line of the situation or of another speaker.
    lines += [
        f"{speaker} says: {printable(words, multiline=False)}" for speaker, words in seen.messages
    ]
    lines.append(view.describe(seen.agent, seen.observation))
    if note:
        lines.append(note)
    return "\n".join(lines)


def read(view: TextView, seen: AgentObservation, text: str) -> Any | ParseFailure:
    """Return the action of an answer, or its parse failure."""
    return read_answer(view, seen.agent, seen.observation, text, seen.action_mask)


def decided(text: str, action: Any | ParseFailure, tokens: Tokens | None = None) -> Decision:
    """Return the decision of a parsed answer."""
    failure = action if isinstance(action, ParseFailure) else None
    return Decision(
        action=failure.instead if failure else action,
        text=text,
        tokens=tokens,
        parse_failure=failure.reason if failure else None,
    )


_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Conversation:
    """Memory of one agent in one episode."""

    number: int
    """Number of the conversation in this process."""
    seed: int
    draws: int = 0
    """Number of draws so far (Request.draws_before)."""
    context: tuple[int, ...] = ()
    """All tokens so far."""
    failure: ParseFailure | None = None
    """Reason why the last answer was unreadable, added to the next prompt."""
    history: History = ()
    """Choices so far, for notes."""


class TextPolicy:
    """Policy that plays environments with a TextView with a token backend.

    Unreadable answers are data: the default action with `parse_failure`.
    """

    def __init__(
        self,
        backend: Backend,
        view: TextView,
        *,
        sampling: Sampling | None = None,
        per_agent: Mapping[str, Sampling] | None = None,
        adapter: str | Mapping[str, str] | None = None,
        constrained: bool = False,
        notes: PartnerNotes | None = None,
        name: str | None = None,
    ):
        """Create a policy.

        Args:
            backend: Backend of the model.
            view: Text view of the environment.
            sampling: Settings of agents not in `per_agent`.
            per_agent: Settings of single agents.
            adapter: Adapter of all agents, or of each.
            constrained: Restrict answers to the legal ones.
            notes: Notes on opponents, added to each prompt.
            name: Name in records.
        """
        self.name = name or backend.name
        self._backend, self._view = backend, view
        self._sampling, self._per_agent = sampling or Sampling(), dict(per_agent or {})
        self._adapter = adapter
        self._constrained = constrained
        self._notes = notes
        self._answers: dict[tuple[str, bytes | None], tuple[tuple[int, ...], ...]] = {}

    def start(self, seed: int) -> Conversation:
        return Conversation(next(_NUMBERS), seed)

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Conversation]
    ) -> tuple[list[Decision], list[Conversation]]:
        chat = self._backend.chat
        states = self._told(seen, states)
        prompts = chat.prompts(
            [self._turn(one, state) for one, state in zip(seen, states, strict=True)]
        )
        requests = [
            Request(
                context=state.context + prompt,
                sampling=self._per_agent.get(one.agent, self._sampling),
                seed=state.seed,
                draws_before=state.draws,
                answers=self._legal_answers(one) if self._constrained else None,
                adapter=self._adapter_of(one.agent),
                conversation=state.number,
            )
            for one, state, prompt in zip(seen, states, prompts, strict=True)
        ]
        decisions, memories = [], []
        completions = await together(*map(self._backend.complete, requests))
        for one, state, prompt, request, completion in zip(
            seen, states, prompts, requests, completions, strict=True
        ):
            text = chat.text(completion.ids)
            action = read(self._view, one, text)
            decisions.append(decided(text, action, _tokens(prompt, completion)))
            memories.append(
                replace(
                    state,
                    context=request.context + completion.ids,
                    draws=state.draws + request.longest,
                    failure=action if isinstance(action, ParseFailure) else None,
                )
            )
        return decisions, memories

    def branch(self, state: Conversation, seed: int) -> Conversation:
        """Return a new conversation that continues from here with draws from `seed`."""
        return replace(state, number=next(_NUMBERS), seed=seed, draws=0)

    def leave(self, state: Conversation) -> None:
        self._backend.release(state.number)

    def closing(self, seen: AgentObservation, state: Conversation) -> tuple[int, ...] | None:
        if not state.context or tells_time(self._view, seen.observation):
            return None
        [told] = self._told([seen], [state])
        [prompt] = self._backend.chat.prompts([self._turn(seen, told)])
        return prompt

    def _told(
        self, seen: Sequence[AgentObservation], states: Sequence[Conversation]
    ) -> list[Conversation]:
        if self._notes is None:
            return list(states)
        return [
            replace(state, history=self._notes.after(state.history, one.observation))
            for one, state in zip(seen, states, strict=True)
        ]

    def _turn(self, seen: AgentObservation, state: Conversation) -> ChatTurn:
        last = state.context[-1] if state.context else None
        note = "" if self._notes is None else self._notes.line(state.history)
        return turn_of(self._view, seen, state.failure, last, note)

    def _legal_answers(self, seen: AgentObservation) -> tuple[tuple[int, ...], ...]:
        mask = None if seen.action_mask is None else np.asarray(seen.action_mask, dtype=bool)
        key = (seen.agent, None if mask is None else mask.tobytes())
        if key not in self._answers:
            answers = self._view.answers(seen.agent)
            if not answers:
                raise PolicyError(
                    "constrained=True lets only listed answers be written, and this environment "
                    "takes any text: give constrained=False"
                )
            legal = [text for i, text in enumerate(answers) if mask is None or mask[i]]
            self._answers[key] = self._backend.chat.answers(legal)
        return self._answers[key]

    def _adapter_of(self, agent: str) -> str | None:
        if isinstance(self._adapter, Mapping):
            return self._adapter.get(agent)
        return self._adapter


def turn_of(
    view: TextView,
    seen: AgentObservation,
    failure: ParseFailure | None = None,
    last: int | None = None,
    note: str = "",
) -> ChatTurn:
    """Return the next turn; `last` is the final token of the last answer, None at the beginning."""
    rules = rules_for(view, seen) if last is None else None
    return ChatTurn(situation(view, seen, failure, note), rules=rules, last=last)


def _tokens(prompt: tuple[int, ...], completion: Completion) -> Tokens:
    return Tokens(prompt, completion.ids, completion.logprobs, completion.model, completion.allowed)
