"""Sample episodes as a person reads them: what each seat saw, answered and earned, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import numpy as np

from srl_agents.episode import AgentStep, Episode
from srl_envs import registry
from srl_envs.errors import EnvError, UntrustedError
from srl_envs.text.view import TextView
from srl_train.metrics.report.page import escaped

OPEN_TURNS = 4
"""Turns shown at once; the following ones unfold on a click."""
SHOWN_TURNS = 40
SHOWN_CHARACTERS = 1500
"""Of one answer or observation; the rest stays in the episode's file."""


def view_of(
    episode: Episode, name: str, options: Mapping[str, Any], *, trusted: bool = False
) -> TextView | None:
    """How the episode's seats read and answer, where `name` with these options is the game that
    was played; None where it is not, as for an environment that is not the catalogue's.

    A run's configuration may be anybody's: raises UntrustedError as srl_envs.registry.remake.
    """
    if name not in registry.names() and not trusted:
        return None
    try:
        made = registry.remake(name, options, trusted=trusted)
    except UntrustedError:
        raise
    except EnvError:  # written by another release, which knew other options
        return None
    with closing(made) as env:
        same_seats = set(episode.seats) == set(env.possible_agents)
        if env.metadata["name"] != episode.environment or not same_seats:
            return None
        view: TextView | None = env.unwrapped.text_view
        return view


def transcript(episode: Episode, view: TextView | None) -> str:
    """The episode as HTML. Without a view, observations stand as the numbers they are."""
    returns = ", ".join(f"{seat} {total:.4g}" for seat, total in sorted(episode.returns().items()))
    parts = [
        f'<p class="quiet">Seed {episode.seed}, {len(episode.turns)} turns. '
        f"Returns: {escaped(returns)}.</p>"
    ]
    if episode.failure is not None:
        parts.append(
            f'<p class="reason">This episode failed and was not trained on: '
            f"<bdi>{escaped(_cut(episode.failure))}</bdi></p>"
        )
    if view is not None:
        parts.append(_rules(episode, view))
    shown, left = episode.turns[:SHOWN_TURNS], len(episode.turns) - SHOWN_TURNS
    parts.append(_table(episode, shown[:OPEN_TURNS], 0, view))
    if folded := shown[OPEN_TURNS:]:
        parts.append(
            f"<details><summary>Turns {OPEN_TURNS + 1} to {len(shown)}</summary>"
            f"{_table(episode, folded, OPEN_TURNS, view)}</details>"
        )
    if left > 0:
        parts.append(f'<p class="quiet">{left} more turns are in the episode\'s file.</p>')
    return "\n".join(parts)


def _rules(episode: Episode, view: TextView) -> str:
    seats_of: dict[str, list[str]] = {}
    for seat in episode.seats:
        seats_of.setdefault(view.rules(seat), []).append(seat)
    told = "\n".join(
        f'<p><b>{escaped(", ".join(seats))}</b></p><pre class="said">{escaped(rules)}</pre>'
        for rules, seats in seats_of.items()
    )
    return f"<details><summary>What the seats were told</summary>{told}</details>"


def _table(
    episode: Episode, turns: Sequence[Sequence[AgentStep]], first: int, view: TextView | None
) -> str:
    rows = []
    for place, turn in enumerate(turns, start=first + 1):
        rows.append(f'<tr class="turn"><td colspan="5">Turn {place}</td></tr>')
        rows += [_row(step, episode.seats.get(step.agent, ""), view) for step in turn]
    return (
        '<div class="wide"><table class="transcript"><thead><tr>'
        '<th class="seat">seat</th><th>saw</th>'
        '<th class="answer">answered</th><th class="act">action</th>'
        '<th class="reward number">reward</th></tr></thead>\n'
        "<tbody>" + "\n".join(rows) + "</tbody></table></div>"
    )


def _row(step: AgentStep, who: str, view: TextView | None) -> str:
    decision = step.decision
    saw = _said(_situation(step, view)) + "".join(
        f'<div class="heard">{escaped(speaker)}: <bdi>{escaped(_cut(words))}</bdi></div>'
        for speaker, words in step.heard
    )
    if not decision.asked:
        answer = '<span class="quiet">(not asked: another is to move)</span>'
    elif decision.text is None:
        answer = '<span class="quiet">(does not write)</span>'
    elif decision.text == "":
        answer = '<span class="quiet">(nothing)</span>'
    else:
        answer = _said(decision.text)
    failed = decision.parse_failure is not None
    if failed:
        answer += (
            f'<div class="reason">could not be read: '
            f"<bdi>{escaped(_cut(str(decision.parse_failure)))}</bdi></div>"
        )
    action = escaped(_cut(_action(step, view)))
    if failed:
        action += '<div class="reason">the default</div>'
    row = '<tr class="failure">' if failed else "<tr>"
    return (
        f"{row}"
        f'<td>{escaped(step.agent)}<div class="quiet">{escaped(who)}</div></td>'
        f"<td>{saw}</td><td>{answer}</td><td>{action}</td>"
        f'<td class="number">{step.reward:.4g}</td></tr>'
    )


def _situation(step: AgentStep, view: TextView | None) -> str:
    if isinstance(step.observation, str):
        return step.observation
    if view is not None:
        # A record may be anybody's: what is no observation of the game is shown as it stands.
        with suppress(LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
            return view.describe(step.agent, step.observation)
    return _plain(step.observation)


def _action(step: AgentStep, view: TextView | None) -> str:
    action = step.decision.action
    if view is not None and isinstance(action, (int, np.integer)):
        answers = view.answers(step.agent)
        if 0 <= action < len(answers):
            return answers[action]
    return _plain(action)


def _plain(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=3, separator=", ", threshold=60)
    if isinstance(value, Mapping):
        return "\n".join(f"{key}: {_plain(entry)}" for key, entry in value.items())
    return str(value)


def _said(text: str) -> str:
    # bdi and its own box: right-to-left marks and blank lines stay inside the cell.
    return f'<bdi class="said">{escaped(_cut(text))}</bdi>'


def _cut(text: str) -> str:
    left = len(text) - SHOWN_CHARACTERS
    return text if left <= 0 else f"{text[:SHOWN_CHARACTERS]} […{left} more characters]"
