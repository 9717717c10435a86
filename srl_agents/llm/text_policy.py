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
from srl_agents.llm.context import ContextFunction, Message, context_tokens
from srl_agents.llm.sampling import Sampling
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView, feedback, read_answer, tells_time, view_for
from srl_envs.untrusted import printable


def rules_for(view: TextView, seen: AgentObservation) -> str:
    """Return the rules of the game for an agent: the system message of its conversation."""
    return view_for(view, seen.observation).rules(seen.agent)


def situation(view: TextView, seen: AgentObservation, failure: ParseFailure | None = None) -> str:
    """Return the user message of a step, whose parts begin on new lines.

    The parts are feedback on `failure` (the parse failure of the last answer, if any), the messages
    of other agents in `seen` (if any), and the description of the observation.
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


def messages_until(
    view: TextView,
    seen: AgentObservation,
    messages: tuple[Message, ...],
    failure: ParseFailure | None,
) -> tuple[Message, ...]:
    """Return `messages` and the newest user message, `situation(view, seen, failure)`.

    If there are no earlier messages, the result begins with the rules as system message.
    """
    rules = ({"role": "system", "content": rules_for(view, seen).strip()},)
    words = situation(view, seen, failure).strip()
    return (*(messages or rules), {"role": "user", "content": words})


def turn_of(
    view: TextView,
    seen: AgentObservation,
    failure: ParseFailure | None = None,
    last: int | None = None,
) -> ChatTurn:
    """Return the ChatTurn with the user message `situation(view, seen, failure)`.

    `last` is the last token id of the previous answer; None for the first message, which the rules
    precede.
    """
    rules = rules_for(view, seen) if last is None else None
    return ChatTurn(situation(view, seen, failure), rules=rules, last=last)


def decided(
    view: TextView,
    seen: AgentObservation,
    text: str,
    tokens: Tokens | None = None,
    ending: str = "",
) -> tuple[Decision, ParseFailure | None]:
    """Parse the answer `text` and return the decision, and the parse failure or None.

    An illegal action is also a failure. After a failure, the decision has the `fallback_action`,
    and `ending` is appended to the reason. `tokens` are those of the answer.
    """
    action = read_answer(view, seen.agent, seen.observation, text, seen.action_mask)
    if not isinstance(action, ParseFailure):
        return Decision(action, text, tokens), None
    failure = replace(action, reason=action.reason + ending)
    return Decision(failure.instead, text, tokens, parse_failure=failure.reason), failure


_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Conversation:
    """Memory of an agent that a TextPolicy plays, in one episode."""

    number: int
    """Id of the conversation, unique in this process."""
    seed: int
    draws: int = 0
    """Value of `Request.draws_before` for the next answer."""
    context: tuple[int, ...] = ()
    """Token ids of all prompts and answers so far; unused with a context function."""
    messages: tuple[Message, ...] = ()
    """System message to last answer; empty without a context function."""
    answers: tuple[tuple[int, ...], ...] = ()
    """Token ids of the answers in `messages`, as sampled."""
    failure: ParseFailure | None = None
    """Parse failure of the last answer, or None."""


class TextPolicy:
    """Language model that plays environments with a TextView, through a token backend.

    The rules are the system message, each observation is a user message. After an answer that
    is illegal or cannot be parsed, the agent plays the `fallback_action` of the view, and the
    decision contains the reason as `parse_failure`.
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
            sampling: Settings of agents that are not in `per_agent`; None selects Sampling().
            per_agent: Agent -> sampling settings.
            adapter: Name of the LoRA adapter, for all agents, or agent -> name. None, and agents
                without an entry, select the base model.
            constrained: True to sample only legal answers; without a list of legal answers, `act`
                then raises PolicyError.
            context: Function that selects the messages of each prompt; None selects all.
            name: Name in records; by default the backend's.
        """
        self.name = name or backend.name
        self._backend, self._view = backend, view
        self._sampling, self._per_agent = sampling or Sampling(), dict(per_agent or {})
        self._adapter = adapter
        self._constrained = constrained
        self._context = context
        self._answers: dict[tuple[str, tuple[int, ...]], tuple[tuple[int, ...], ...]] = {}

    def start(self, seed: int) -> Conversation:
        return Conversation(next(_NUMBERS), seed)

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Conversation]
    ) -> tuple[list[Decision], list[Conversation]]:
        requests = [self._request(*pair) for pair in zip(seen, states, strict=True)]
        decisions, memories = [], []
        completions = await together(*map(self._backend.complete, requests))
        for one, state, request, completion in zip(
            seen, states, requests, completions, strict=True
        ):
            tokens = Tokens(
                request.context[len(state.context) :],
                completion.ids,
                completion.logprobs,
                completion.model,
                completion.allowed,
                whole_context=self._context is not None,
            )
            text = self._backend.chat.text(completion.ids)
            decision, failure = decided(self._view, one, text, tokens)
            decisions.append(decision)
            memory = self._after(one, state, request, completion.ids)
            draws = state.draws + request.longest
            memories.append(replace(memory, draws=draws, failure=failure))
        return decisions, memories

    def probabilities(self, seen: AgentObservation, state: Conversation) -> np.ndarray:
        """Return each action's probability under constrained sampling, (actions,); 0 if illegal.

        The temperature must be above 0 (not checked); top_k and top_p are ignored.

        Raises:
            PolicyError: Answers are unconstrained or unlisted, or the backend is remote.
        """
        compute = getattr(self._backend, "answer_probabilities", None)
        if not self._constrained or compute is None:
            raise PolicyError(
                f"exact probabilities require constrained answers of a model in this process, and "
                f"{self.name} has none: set models.constrained, or give --constrained"
            )
        found = np.zeros(len(self._view.answers(seen.agent)))
        found[_legal_actions(seen, len(found))] = compute(self._request(seen, state))
        return found

    def continued(self, seen: AgentObservation, state: Conversation, action: int) -> Conversation:
        """Return the conversation after the answer that names `action`, with unchanged `draws`.

        Raises ValueError if the action is illegal, PolicyError without a list of legal answers.
        """
        legal = _legal_actions(seen, len(self._view.answers(seen.agent)))
        answer = self._legal_answers(seen)[legal.index(action)]
        written = (*answer, self._backend.chat.end_of_turn)
        after = self._after(seen, state, self._request(seen, state), written)
        return replace(after, failure=None)

    def leave(self, state: Conversation) -> None:
        self._backend.release(state.number)

    def closing(self, seen: AgentObservation, state: Conversation) -> tuple[int, ...] | None:
        if not (state.context or state.messages) or tells_time(self._view, seen.observation):
            return None
        return self._prompt(seen, state)

    def _prompt(self, seen: AgentObservation, state: Conversation) -> tuple[int, ...]:
        chat = self._backend.chat
        if self._context is not None:
            messages = messages_until(self._view, seen, state.messages, state.failure)
            return context_tokens(chat, self._context, messages, state.answers)
        last = state.context[-1] if state.context else None
        [ids] = chat.prompts([turn_of(self._view, seen, state.failure, last)])
        return ids

    def _after(
        self, seen: AgentObservation, state: Conversation, request: Request, ids: tuple[int, ...]
    ) -> Conversation:
        if self._context is None:
            return replace(state, context=request.context + ids)
        answer = {"role": "assistant", "content": self._backend.chat.text(ids)}
        messages = messages_until(self._view, seen, state.messages, state.failure)
        return replace(state, messages=(*messages, answer), answers=(*state.answers, ids))

    def _request(self, seen: AgentObservation, state: Conversation) -> Request:
        adapter = self._adapter
        return Request(
            context=state.context + self._prompt(seen, state),
            sampling=self._per_agent.get(seen.agent, self._sampling),
            seed=state.seed,
            draws_before=state.draws,
            answers=self._legal_answers(seen) if self._constrained else None,
            adapter=adapter.get(seen.agent) if isinstance(adapter, Mapping) else adapter,
            # With a context function, the next prompt does not continue this one.
            conversation=state.number if self._context is None else None,
        )

    def _legal_answers(self, seen: AgentObservation) -> tuple[tuple[int, ...], ...]:
        answers = self._view.answers(seen.agent)
        legal = tuple(_legal_actions(seen, len(answers)))
        key = (seen.agent, legal)
        if key not in self._answers:
            if not answers:
                raise PolicyError(
                    "constrained must be False in an environment without a list of legal answers, "
                    "got True"
                )
            self._answers[key] = self._backend.chat.answers([answers[action] for action in legal])
        return self._answers[key]


def _legal_actions(seen: AgentObservation, count: int) -> list[int]:
    if seen.action_mask is None:
        return list(range(count))
    legal: list[int] = np.flatnonzero(seen.action_mask).tolist()
    return legal
