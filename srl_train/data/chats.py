"""Chat data: recorded games as message lists, and JSONL files of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from srl_agents.episode import Episode
from srl_agents.llm.chat_format import ChatFormat, Turn
from srl_agents.llm.opponent_notes import PartnerNotes
from srl_envs.text import TextView
from srl_train.data.demonstrations import Demonstration, Part, records, turns_of, words_of
from srl_train.errors import DataError

Chat = Sequence[dict[str, str]]
"""Messages: role and content each; one of the system or none, then user and assistant in turns."""
WANTED = (
    "a line of JSON per game, as `srl collect` writes them, or per chat, "
    '{"messages": [{"role": ..., "content": ...}, ...]}'
)


def messages_of(
    episode: Episode, agent: str, view: TextView, notes: PartnerNotes | None = None
) -> Chat:
    """The agent's part of the game as a player was told it and answered it, rules first."""
    messages = []
    steps = episode.steps_of(agent)
    for turn, step in zip(turns_of(steps, view, [0] * len(steps), notes), steps, strict=True):
        if turn.rules is not None:
            messages.append({"role": "system", "content": turn.rules.strip()})
        messages.append({"role": "user", "content": turn.words.strip()})
        messages.append({"role": "assistant", "content": words_of(step, view)})
    return messages


def as_lines(
    episodes: Sequence[Episode],
    parts: Sequence[Part],
    view: TextView,
    notes: PartnerNotes | None = None,
) -> str:
    """One line of JSON per part, {"messages": [...]}."""
    return "".join(
        json.dumps({"messages": messages_of(episodes[index], agent, view, notes)}) + "\n"
        for index, agent in parts
    )


def read_chats(path: str | Path) -> list[Chat]:
    """The chats of a file; raises DataError naming file and line."""
    return [_checked(record, where) for where, record in records(path, WANTED)]


def lesson(chat: Chat, form: ChatFormat) -> Demonstration:
    """The chat as the model's own template writes it; its answers alone are imitated."""
    ids: list[int] = []
    answers: list[int] = []
    observations: list[int] = []
    system = chat[0]["content"] if chat[0]["role"] == "system" else ""
    spoken = chat[1:] if chat[0]["role"] == "system" else chat
    for user, assistant in zip(spoken[::2], spoken[1::2], strict=True):
        turn = Turn(user["content"], rules=None if ids else system, last=ids[-1] if ids else None)
        [told] = form.prompts([turn])
        said = (*form.answer(assistant["content"]), form.end_of_turn)
        observations += [int(bool(ids))] * len(told) + [0] * len(said)
        answers += [0] * len(told) + [1] * len(said)
        ids += (*told, *said)
    return Demonstration(tuple(ids), tuple(answers), tuple(observations))


def _checked(record: object, where: str) -> Chat:
    messages = record.get("messages") if isinstance(record, dict) else None
    if not isinstance(messages, list) or not messages:
        raise DataError(f"{where}: neither a game nor a chat: give {WANTED}")
    for message in messages:
        if not isinstance(message, dict) or not all(
            isinstance(message.get(key), str) for key in ("role", "content")
        ):
            raise DataError(f"{where}: a message has a role and a content, both text")
    roles = [message["role"] for message in messages]
    spoken = roles[1:] if roles[0] == "system" else roles
    if not spoken or len(spoken) % 2 or spoken != ["user", "assistant"] * (len(spoken) // 2):
        raise DataError(
            f"{where}: the roles are {', '.join(roles[:6])}: give one of system or none, then user "
            "and assistant in turns, assistant last"
        )
    return [{"role": one["role"], "content": one["content"]} for one in messages]
