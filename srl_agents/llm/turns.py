"""What a seat that reads and writes is told next, and how its answer is read."""

from __future__ import annotations

from typing import Any

from srl_agents.episode import Decision, Tokens
from srl_agents.policy import Seen
from srl_envs.text import (
    NOT_LEGAL_NOW,
    ParseFailure,
    TextView,
    default_in_words,
    feedback,
    view_for,
)


def rules_for(view: TextView, seen: Seen) -> str:
    """The rules, with which a seat's conversation opens."""
    return view_for(view, seen.observation).rules(seen.agent)


def situation(
    view: TextView, seen: Seen, failure: ParseFailure | None = None, note: str = ""
) -> str:
    """Why the seat's last answer was not read, what it heard, its situation, and a note on it."""
    lines = []
    if failure is not None:
        lines.append(feedback(failure, default_in_words(view, seen.agent)))
    lines += [f"{speaker} says: {words}" for speaker, words in seen.heard]
    lines.append(view.describe(seen.agent, seen.observation))
    if note:
        lines.append(note)
    return "\n".join(lines)


def read(view: TextView, seen: Seen, text: str) -> Any | ParseFailure:
    """The action that an answer names; what the action mask forbids is not read either."""
    action = view_for(view, seen.observation).parse(seen.agent, text)
    if isinstance(action, ParseFailure) or seen.action_mask is None:
        return action
    return action if seen.action_mask[action] else ParseFailure(NOT_LEGAL_NOW)


def decided(
    view: TextView, text: str, action: Any | ParseFailure, tokens: Tokens | None = None
) -> Decision:
    """The decision that an answer and what was read from it come to: the view's default action
    where it could not be read."""
    failure = action if isinstance(action, ParseFailure) else None
    return Decision(
        action=view.default_action if failure else action,
        text=text,
        tokens=tokens,
        parse_failure=failure.reason if failure else None,
    )
