"""Prompts of language-model agents turn by turn, and the parsing of their answers."""

from __future__ import annotations

from typing import Any

from srl_agents.episode import Decision, Tokens
from srl_agents.policy import AgentObservation
from srl_envs.text import ParseFailure, TextView, feedback, read_answer, view_for
from srl_envs.untrusted import printable


def rules_for(view: TextView, seen: AgentObservation) -> str:
    """The rules, with which an agent's conversation opens."""
    return view_for(view, seen.observation).rules(seen.agent)


def situation(
    view: TextView, seen: AgentObservation, failure: ParseFailure | None = None, note: str = ""
) -> str:
    """Why the agent's last answer was not read, what it heard, its situation, and a note on it."""
    lines = []
    if failure is not None:
        lines.append(feedback(view, seen.agent, failure))
    # On one line each: nobody's words can pass for a line of the situation, or of somebody else.
    lines += [
        f"{speaker} says: {printable(words, multiline=False)}" for speaker, words in seen.messages
    ]
    lines.append(view.describe(seen.agent, seen.observation))
    if note:
        lines.append(note)
    return "\n".join(lines)


def read(view: TextView, seen: AgentObservation, text: str) -> Any | ParseFailure:
    """The action that an answer names, or why none was read and what is played instead."""
    return read_answer(view, seen.agent, seen.observation, text, seen.action_mask)


def decided(text: str, action: Any | ParseFailure, tokens: Tokens | None = None) -> Decision:
    """The decision that an answer and what `read` gave for it come to."""
    failure = action if isinstance(action, ParseFailure) else None
    return Decision(
        action=failure.instead if failure else action,
        text=text,
        tokens=tokens,
        parse_failure=failure.reason if failure else None,
    )
