"""Context of a language model: which part of a conversation it reads before an answer.

A context function receives the whole conversation as chat messages, {"role": ..., "content": ...},
from the system message to the newest user message. It returns the messages to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from srl_agents.errors import PolicyError
from srl_agents.llm.chat_format import ChatFormat, ChatTurn
from srl_envs import loading
from srl_envs.validation import whole_number

Message = Mapping[str, str]
ContextFunction = Callable[[list[Message]], Sequence[Message]]


def window(steps: int) -> ContextFunction:
    """Return a context function for the last `steps` user messages; EnvConfigError below 1.

    The function selects the rules, these messages, and the answers between them.
    """
    whole_number("steps", steps, 1)

    def last_steps(messages: list[Message]) -> list[Message]:
        rules = messages[:1] if messages[0]["role"] == "system" else []
        return [*rules, *messages[len(rules) :][-(2 * steps - 1) :]]

    return last_steps


def context_function(name: str, steps: int, *, trusted: bool = True) -> ContextFunction | None:
    """Return the context function of the setting `models.context`; None for "full".

    Args:
        name: "full", "window", "last" (a window of one message), or 'module:function'.
        steps: Number of user messages of "window", at least 1.
        trusted: False to refuse 'module:function', for a name that is not from the user.

    Raises:
        EnvConfigError: The name has another form, the function is not found, or `steps` is wrong.
        ImportError: The module imports a package that is missing.
        UntrustedError: The name is code and not trusted.
    """
    if name == "full":
        return None
    if name in ("window", "last"):
        return window(steps if name == "window" else 1)
    with nullcontext() if trusted else loading.closed():
        return loading.code(name, "models.context")


def select(context: ContextFunction, messages: list[Message]) -> list[Message]:
    """Return the messages that a context function selects.

    Raises PolicyError unless they are a system message, if any, and then user and assistant
    messages in turn, the last one of the user. Each content must be a text.
    """
    returned: Any = context(messages)
    try:
        chosen: list[Message] = list(returned)
        roles = [one["role"] if isinstance(one["content"], str) else "no text" for one in chosen]
    except (LookupError, TypeError):
        chosen, roles = [], [f"{returned!r:.80}"]
    turns = roles[1:] if roles[:1] == ["system"] else roles
    if len(turns) % 2 and turns == ["user", *["assistant", "user"] * (len(turns) // 2)]:
        return chosen
    raise PolicyError(
        "a context function must return a system message, if any, and then user and assistant "
        "messages in turn, the last one of the user, each with a text as content, got "
        f"{', '.join(map(str, roles)) or 'none'}"
    )


def context_tokens(
    chat: ChatFormat,
    context: ContextFunction,
    messages: Sequence[Message],
    answers: Sequence[tuple[int, ...]],
) -> tuple[int, ...]:
    """Return the token ids of the messages that a context function selects, up to the next answer.

    An answer keeps its sampled ids if the function returns the same, unchanged object; a copy is
    tokenized. Raises the errors of `select`.

    Args:
        chat: Chat template and tokenizer.
        context: Context function, which receives copies of the messages.
        messages: Whole conversation: a system message, and then user and assistant messages.
        answers: Token ids of the assistant messages, as sampled.
    """
    copies = [dict(message) for message in messages]
    sampled = {
        id(message): (message["content"], ids)
        for message, ids in zip(copies[2::2], answers, strict=True)
    }
    chosen = select(context, list(copies))
    system = chosen[:1] if chosen[0]["role"] == "system" else []
    turns = chosen[len(system) :]
    tokens: list[int] = []
    opening: str | None = system[0]["content"] if system else ""
    for place in range(0, len(turns), 2):
        if place:
            answer = turns[place - 1]
            words, ids = sampled.get(id(answer), (None, ()))
            if words != answer["content"]:
                ids = (*chat.answer(answer["content"]), chat.end_of_turn)
            tokens += ids
        last = tokens[-1] if tokens else None
        [prompt] = chat.prompts([ChatTurn(turns[place]["content"], rules=opening, last=last)])
        tokens += prompt
        opening = None
    return tuple(tokens)
