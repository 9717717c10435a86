"""DPO preference pairs: better and worse answers to one prompt, from games or files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from srl_agents.episode import Episode
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_envs.text import TextView
from srl_train.data.demonstrations import Part, conversation, records
from srl_train.errors import DataError
from srl_train.trajectory import Game

Tokens = tuple[int, ...]
References = Sequence[tuple[float, float]]
"""Log-probabilities of (chosen, rejected) under the reference, per pair."""

COLUMNS = ("prompt", "chosen", "rejected")
WANTED = "episodes of `srl collect`, or preferences"


@dataclass(frozen=True)
class Preference:
    """Two answers to one prompt, as tokens."""

    prompt_ids: Tokens
    """Conversation up to the answer."""
    chosen_ids: Tokens
    rejected_ids: Tokens
    reference: tuple[float, float] | None = None
    """Log-probabilities of (chosen, rejected) under the reference, once known."""

    @property
    def tokens(self) -> int:
        """Number of tokens in one forward pass: the prompt with either answer."""
        return 2 * len(self.prompt_ids) + len(self.chosen_ids) + len(self.rejected_ids)


def with_references(pairs: Sequence[Preference], references: References) -> list[Preference]:
    """Return the pairs with their log-probabilities under the reference."""
    return [
        dataclasses.replace(pair, reference=(float(better), float(worse)))
        for pair, (better, worse) in zip(pairs, references, strict=True)
    ]


def preferences(
    parts: Sequence[Part],
    episodes: Sequence[Episode],
    view: TextView,
    chat: ChatFormat,
    game_of: Callable[[Episode], Game],
    *,
    notes: PartnerNotes | None = None,
    min_return_gap: float = 0.0,
) -> list[Preference]:
    """Return pairs of different answers of one agent after the same start and conversation.

    The value of an answer is the mean reward-to-go over the episodes that contain it. A pair's
    values differ by more than `min_return_gap`. Most pairs are from the first turns, because
    episodes of a group diverge.
    """
    worth: dict[tuple[str, int, str, Tokens], dict[Tokens, list[float]]] = {}
    games = [game_of(episode) for episode in episodes]
    for index, agent in parts:
        episode, own = episodes[index], games[index][agent]
        asked = [n for n, step in enumerate(own.steps) if step.decision.asked]
        context: Tokens = ()
        for number, (told, said) in zip(
            asked, conversation(episode.asked_of(agent), view, chat, notes), strict=True
        ):
            context += told
            answers = worth.setdefault((episode.environment, episode.seed, agent, context), {})
            answers.setdefault(said, []).append(sum(own.shaped[number:]))
            context += said
    found = []
    for (*_, prompt), answers in worth.items():
        means = {said: sum(values) / len(values) for said, values in answers.items()}
        for one, other in combinations(means, 2):
            better, worse = (one, other) if means[one] > means[other] else (other, one)
            if means[better] - means[worse] > min_return_gap:
                found.append(Preference(prompt, better, worse))
    return found


def read_preferences(path: str | Path) -> list[dict[str, Any]]:
    """Read the rows of a file in TRL's formats, all with text or all with lists of messages.

    Raises DataError with file and line.
    """
    rows: list[dict[str, Any]] = []
    for where, record in records(path, WANTED):
        if not isinstance(record, dict) or set(record) != set(COLUMNS):
            raise DataError(f"{where}: a preference has exactly the keys {', '.join(COLUMNS)}")
        for column in COLUMNS:
            if not (_is_text(record[column]) or _is_messages(record[column])):
                raise DataError(
                    f"{where}: {column} is {json.dumps(record[column])[:60]}: give text, or a list "
                    "of messages with role and content"
                )
        first = rows[0] if rows else record
        if len({_is_text(value) for row in (first, record) for value in row.values()}) > 1:
            raise DataError(f"{where}: text and lists of messages are mixed: give one of both")
        if record["chosen"] == record["rejected"]:
            raise DataError(f"{where}: chosen and rejected are the same")
        rows.append(record)
    return rows


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_messages(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(message, dict)
            and set(message) == {"role", "content"}
            and all(isinstance(part, str) for part in message.values())
            for message in value
        )
    )
