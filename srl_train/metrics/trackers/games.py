"""Tables of sample games for trackers: a row for each agent's part in each turn."""

from __future__ import annotations

from collections.abc import Sequence

from srl_agents.episode import Episode
from srl_envs.loading.untrusted import printable
from srl_envs.text.view import TextView
from srl_train.metrics.transcript import transcript

COLUMNS = ("step", "game", "seed", "turn", "agent", "player", "saw", "heard", "answer", "action",
           "reward", "unread", "failure")  # fmt: skip
"""`unread` is why an answer could not be read, `failure` what spoilt the game."""

Row = tuple[int | str, ...]


def rows(episodes: Sequence[Episode], view: TextView, step: int) -> list[Row]:
    """The games' first turns; words are cut as in reports, and steer no terminal."""
    found: list[Row] = []
    for number, episode in enumerate(episodes):
        told = transcript(episode, view)
        for turn in told.turns:
            for one in turn.steps:
                heard = "\n".join(f"{who}: {words}" for who, words in one.heard)
                cells = (one.agent, one.player, one.saw, heard, one.answer, one.action, one.reward,
                         one.failure, told.failure)  # fmt: skip
                texts = [printable("" if cell is None else cell) for cell in cells]
                found.append((step, number, episode.seed, turn.number, *texts))
    return found
