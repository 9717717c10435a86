"""Text observations with the history of earlier turns, for policies without memory.

You are agent_0, one of 2 players. ...            the rules

Turn 1:
Round 1 of 8. Nobody has chosen yet.
You answered: cooperate

Turn 2:
Round 2 of 8. You chose to cooperate and earned 0.85. ...
You answered: who knows
Not read: no legal choice stood alone on the last line.

Now:
Your last answer was not read: ... So compete was played.
Round 3 of 8. ...
"""

from __future__ import annotations

from collections import deque

ANSWER_SHOWN = 500  # characters of an answer that is told again: its end, where the choice stands


class TextHistory:
    """One agent's last `turns` turns of an episode, in at most `length` characters."""

    def __init__(self, turns: int, length: int) -> None:
        self._length = length
        self._turns: deque[str] = deque(maxlen=turns)
        self._played = 0

    def add(self, situation: str, answer: str, unread: str | None) -> None:
        """Add a turn; beyond `turns`, the oldest is dropped.

        `unread` says why the answer was not read; None where it was.
        """
        self._played += 1
        answer = answer.strip()
        if len(answer) > ANSWER_SHOWN:
            answer = f"... {answer[-ANSWER_SHOWN:].lstrip()}"
        told = f"Turn {self._played}:\n{situation}\n{f'You answered: {answer}'.rstrip()}"
        self._turns.append(told if unread is None else f"{told}\nNot read: {unread}.")

    def standing_alone(self, rules: str, now: str) -> str:
        """Rules, past turns and what is to be read now; of the turns the newest that have room.

        Where not even the rest has room, its end is cut.
        """
        told = [f"Now:\n{now}"]
        room = self._length - len(f"{rules}\n\n{told[0]}")
        for said in reversed(self._turns):
            room -= len(said) + len("\n\n")
            if room < 0:
                break
            told.insert(0, said)
        return "\n\n".join([rules, *told] if told[1:] else [rules, now])[: self._length]
