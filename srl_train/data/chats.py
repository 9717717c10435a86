"""Chat data: episodes as message lists, and JSONL files of chats."""

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
"""Messages with role and content: optionally system, then user and assistant in turns."""
WANTED = (
    "a line of JSON per game, as `srl collect` writes them, or per chat, "
    '{"messages": [{"role": ..., "content": ...}, ...]}'
)


def messages_of(
    episode: Episode, agent: str, view: TextView, notes: PartnerNotes | None = None
) -> Chat:
    """Return the agent's part of the episode as messages, rules first."""
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
    """Return one line of JSON per part, {"messages": [...]}."""
    return "".join(
        json.dumps({"messages": messages_of(episodes[index], agent, view, notes)}) + "\n"
        for index, agent in parts
    )


def read_chats(path: str | Path) -> list[Chat]:
    """Read the chats of a file. Raises DataError with file and line."""
    return [_checked(record, where) for where, record in records(path, WANTED)]


def lesson(chat: Chat, form: ChatFormat) -> Demonstration:
    """Tokenize the chat with the model's template; only its answers are imitated."""
    ids: list[int] = []
    answers: list[int] = []
    observations: list[int] = []
    system = chat[0]["content"] if chat[0]["role"] == "system" else ""
    spoken = chat[1:] if chat[0]["role"] == "system" else chat
    for user, assistant in zip(spoken[::2], spoken[1::2], strict=True):
        turn = Turn(user["content"], rules=None if ids else system, last=ids[-1] if ids else None)
        [prompt] = form.prompts([turn])
        answer = (*form.answer(assistant["content"]), form.end_of_turn)
        observations += [int(bool(ids))] * len(prompt) + [0] * len(answer)
        answers += [0] * len(prompt) + [1] * len(answer)
        ids += (*prompt, *answer)
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
