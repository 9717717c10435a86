"""Record of the game under way, turn by turn, for those who watch the run."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path

from srl_agents.episode import AgentStep, Episode, to_json, turn_to_json
from srl_agents.rollout import Spectator
from srl_envs.untrusted import cut

log = logging.getLogger(__name__)
PAUSE, PATIENCE = 1.0, 60.0
"""Seconds between the starts of two games that are recorded, at least; and without a turn, after
which another game is."""
MOST_TURNS, LONGEST = 200, 4000
"""Turns of a game that are recorded, and characters of what an agent saw or said in one."""


class GameUnderWay:
    """playing.jsonl: the newest game that is watched, as a record without turns, a line per turn,
    and an empty turn once it is over.

    One game at a time, and no more than one a second, so that it costs a run nothing to speak of.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recording = False
        self._lock = threading.Lock()
        self._began = self._heard = -PATIENCE
        self._games = 0

    def spectator(self) -> Spectator | None:
        """Who watches the next game; None where one is watched already, or was just now."""
        with self._lock:
            now = time.monotonic()
            busy = self._recording and now - self._heard < PATIENCE
            if busy or now - self._began < PAUSE:
                return None
            self._games += 1
            self._began = self._heard = now
            number = self._games
        return lambda episode, over: self._watch(number, episode, over)

    def _watch(self, number: int, episode: Episode, over: bool) -> None:
        with self._lock:
            if number != self._games:
                return
            self._heard = time.monotonic()
            try:
                self._record(episode, over)
            except (OSError, TypeError, ValueError) as error:
                # A full disk, or an environment whose observations are no plain data, ends the
                # record and not the run.
                log.warning("%s is not written any more: %s", self._path, error)
                self._began, self._recording = float("inf"), False

    def _record(self, episode: Episode, over: bool) -> None:
        if not episode.turns and not over:
            # Not to the disk, as files are that must last: this one is for now.
            partial = self._path.with_name(".playing.partial")
            partial.unlink(missing_ok=True)
            with partial.open("x", encoding="ascii") as file:
                file.write(to_json(replace(episode, states=None)) + "\n")
            partial.replace(self._path)
            self._recording = True
        elif self._recording and (over or len(episode.turns) <= MOST_TURNS):
            turn = [] if over else [_short(step) for step in episode.turns[-1]]
            with self._path.open("a", encoding="ascii") as file:
                file.write(turn_to_json(turn) + "\n")
            self._recording = not over


def _short(step: AgentStep) -> AgentStep:
    """The step as it is read: without tokens and the environment's own notes."""
    text, seen = step.decision.text, step.observation
    return replace(
        step,
        observation=cut(seen, LONGEST) if isinstance(seen, str) else seen,
        decision=replace(
            step.decision, tokens=None, text=None if text is None else cut(text, LONGEST)
        ),
        info={},
        messages=tuple((who, cut(words, LONGEST)) for who, words in step.messages),
    )
