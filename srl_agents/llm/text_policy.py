"""Language-model policy on a token backend: prompt, completion, parsed action."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from srl_agents.episode import Decision, Tokens
from srl_agents.errors import PolicyError
from srl_agents.event_loop import together
from srl_agents.llm.backends.token_backend import Backend, Request
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.context import ContextFunction, Exchange, context_tokens
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView, feedback, read_answer, tells_time, view_for
from srl_envs.untrusted import printable


def rules_for(view: TextView, seen: AgentObservation) -> str:
    """Return the rules of the game for an agent: the system message of its conversation."""
    return view_for(view, seen.observation).rules(seen.agent)


def situation(view: TextView, seen: AgentObservation, failure: ParseFailure | None = None) -> str:
    """Return the user message of a step.

    The message contains feedback on a parse failure of the last answer, messages of other agents,
    and the description of the observation.
    """
    lines = []
    if failure is not None:
        lines.append(feedback(view, seen.agent, failure))
    # Each message is one line, so that it cannot imitate the situation or another speaker.
    lines += [
        f"{speaker} says: {printable(words, multiline=False)}" for speaker, words in seen.messages
    ]
    lines.append(view.describe(seen.agent, seen.observation))
    return "\n".join(lines)


def decided(
    view: TextView,
    seen: AgentObservation,
    text: str,
    tokens: Tokens | None = None,
    ending: str = "",
) -> tuple[Decision, ParseFailure | None]:
    """Parse an answer and return the decision, and the parse failure or None.

    After a failure, the decision has the environment's default action. `ending` is appended to the
    reason of the failure.
    """
    action = read_answer(view, seen.agent, seen.observation, text, seen.action_mask)
    if not isinstance(action, ParseFailure):
        return Decision(action, text, tokens), None
    failure = replace(action, reason=action.reason + ending)
    return Decision(failure.instead, text, tokens, parse_failure=failure.reason), failure


_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Conversation:
    """Memory of one agent in one episode."""

    number: int
    """Id of the conversation, unique in this process."""
    seed: int
    draws: int = 0
    """Number of random draws of all answers so far (`Request.draws_before`)."""
    context: tuple[int, ...] = ()
    """Token ids of all prompts and answers so far; unused with a context function."""
    history: tuple[Exchange, ...] = ()
    """Steps so far, for a context function."""
    failure: ParseFailure | None = None
    """Reason why the last answer could not be parsed; None if it was parsed."""


class TextPolicy:
    """Language model that plays environments with a TextView, through a token backend.

    The rules are the system message, each observation is a user message. After an answer that
    cannot be parsed, the agent plays the default action, and the decision contains the reason as
    `parse_failure`.
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
        context: ContextFunction | None = None,
        name: str | None = None,
    ):
        """Create a policy.

        Args:
            backend: Model that samples the answers.
            view: Text view of the environment.
            sampling: Sampling settings of agents that are not in `per_agent`.
            per_agent: Agent -> sampling settings.
            adapter: Name of the LoRA adapter, for all agents or per agent.
            constrained: True to sample only legal answers.
            context: Function that selects the messages of each prompt (srl_agents.llm.context).
                None sends the whole conversation.
            name: Name in records; by default the backend's.
        """
        self.name = name or backend.name
        self._backend, self._view = backend, view
        self._sampling, self._per_agent = sampling or Sampling(), dict(per_agent or {})
        self._adapter = adapter
        self._constrained = constrained
        self._context = context
        self._answers: dict[tuple[str, bytes | None], tuple[tuple[int, ...], ...]] = {}

    def start(self, seed: int) -> Conversation:
        return Conversation(next(_NUMBERS), seed)

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Conversation]
    ) -> tuple[list[Decision], list[Conversation]]:
        chat = self._backend.chat
        prompts = self._prompts(seen, states)
        requests = [
            self._request(one, state, prompt)
            for one, state, prompt in zip(seen, states, prompts, strict=True)
        ]
        decisions, memories = [], []
        completions = await together(*map(self._backend.complete, requests))
        for one, state, prompt, request, completion in zip(
            seen, states, prompts, requests, completions, strict=True
        ):
            tokens = Tokens(
                prompt,
                completion.ids,
                completion.logprobs,
                completion.model,
                completion.allowed,
                whole_context=self._context is not None,
            )
            text = chat.text(completion.ids)
            decision, failure = decided(self._view, one, text, tokens)
            decisions.append(decision)
            memory = self._after(one, state, request, completion.ids)
            draws = state.draws + request.longest
            memories.append(replace(memory, draws=draws, failure=failure))
        return decisions, memories

    def probabilities(self, seen: AgentObservation, state: Conversation) -> np.ndarray:
        """Return the probability of each action under constrained sampling, shape (actions,).

        Args:
            seen: Observation of the agent.
            state: Conversation so far.

        Raises:
            PolicyError: Answers are not constrained, or the backend cannot compute probabilities.
        """
        compute = getattr(self._backend, "answer_probabilities", None)
        if not self._constrained or compute is None:
            raise PolicyError(
                f"exact probabilities require constrained answers of a model in this process, and "
                f"{self.name} has none: set models.constrained, or give --constrained"
            )
        [prompt] = self._prompts([seen], [state])
        found = np.zeros(len(self._view.answers(seen.agent)))
        found[_legal_actions(seen, len(found))] = compute(self._request(seen, state, prompt))
        return found

    def continued(self, seen: AgentObservation, state: Conversation, action: int) -> Conversation:
        """Return the conversation after the answer that names an action.

        Args:
            seen: Observation of the agent.
            state: Conversation before the answer.
            action: Number of a legal action.
        """
        [prompt] = self._prompts([seen], [state])
        legal = _legal_actions(seen, len(self._view.answers(seen.agent)))
        answer = self._legal_answers(seen)[legal.index(action)]
        request = self._request(seen, state, prompt)
        written = (*answer, self._backend.chat.end_of_turn)
        return replace(self._after(seen, state, request, written), failure=None)

    def branch(self, state: Conversation, seed: int) -> Conversation:
        """Return a new conversation with the same past and other random draws.

        Args:
            state: Conversation to copy.
            seed: Seed of the new conversation's draws.
        """
        return replace(state, number=next(_NUMBERS), seed=seed, draws=0)

    def leave(self, state: Conversation) -> None:
        self._backend.release(state.number)

    def closing(self, seen: AgentObservation, state: Conversation) -> tuple[int, ...] | None:
        if not (state.context or state.history) or tells_time(self._view, seen.observation):
            return None
        [prompt] = self._prompts([seen], [state])
        return prompt

    def _prompts(
        self, seen: Sequence[AgentObservation], states: Sequence[Conversation]
    ) -> list[tuple[int, ...]]:
        """Return the new token ids of each prompt; with a context function, all token ids."""
        pairs = list(zip(seen, states, strict=True))
        chat, view = self._backend.chat, self._view
        if self._context is None:
            return chat.prompts([self._turn(one, state) for one, state in pairs])
        return [
            context_tokens(
                chat,
                self._context,
                rules_for(view, one),
                state.history,
                situation(view, one, state.failure),
            )
            for one, state in pairs
        ]

    def _after(
        self, seen: AgentObservation, state: Conversation, request: Request, ids: tuple[int, ...]
    ) -> Conversation:
        """Return the conversation with the answer `ids` to a request."""
        if self._context is None:
            return replace(state, context=request.context + ids)
        words = situation(self._view, seen, state.failure)
        exchange = Exchange(words, self._backend.chat.text(ids), ids)
        return replace(state, history=(*state.history, exchange))

    def _request(
        self, seen: AgentObservation, state: Conversation, prompt: tuple[int, ...]
    ) -> Request:
        adapter = self._adapter
        return Request(
            context=state.context + prompt,
            sampling=self._per_agent.get(seen.agent, self._sampling),
            seed=state.seed,
            draws_before=state.draws,
            answers=self._legal_answers(seen) if self._constrained else None,
            adapter=adapter.get(seen.agent) if isinstance(adapter, Mapping) else adapter,
            # With a context function, the next prompt does not continue this one.
            conversation=state.number if self._context is None else None,
        )

    def _turn(self, seen: AgentObservation, state: Conversation) -> ChatTurn:
        last = state.context[-1] if state.context else None
        return turn_of(self._view, seen, state.failure, last)

    def _legal_answers(self, seen: AgentObservation) -> tuple[tuple[int, ...], ...]:
        mask = None if seen.action_mask is None else np.asarray(seen.action_mask, dtype=bool)
        key = (seen.agent, None if mask is None else mask.tobytes())
        if key not in self._answers:
            answers = self._view.answers(seen.agent)
            if not answers:
                raise PolicyError(
                    "constrained must be False in an environment without a list of legal answers, "
                    "got True"
                )
            legal = [answers[action] for action in _legal_actions(seen, len(answers))]
            self._answers[key] = self._backend.chat.answers(legal)
        return self._answers[key]


def _legal_actions(seen: AgentObservation, count: int) -> list[int]:
    """Return the numbers of the legal actions among `count` actions."""
    if seen.action_mask is None:
        return list(range(count))
    legal: list[int] = np.flatnonzero(seen.action_mask).tolist()
    return legal


def turn_of(
    view: TextView,
    seen: AgentObservation,
    failure: ParseFailure | None = None,
    last: int | None = None,
) -> ChatTurn:
    """Return the next message to the model.

    `last` is the last token id of the previous answer; None opens the conversation with the rules.
    """
    rules = rules_for(view, seen) if last is None else None
    return ChatTurn(situation(view, seen, failure), rules=rules, last=last)
