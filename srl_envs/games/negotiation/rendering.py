"""Rendering of a negotiation: issues, points of each option, and proposals.

It shows all agents' points, also what they keep from each other.
"""

from __future__ import annotations

import numpy as np

from srl_envs.games.negotiation.bargaining import Bargain
from srl_envs.games.rendering import (
    INK,
    LETTER,
    LINE,
    MARGIN,
    PAPER,
    QUIET,
    TRACK,
    Frame,
    Scene,
    colour_of,
    width_of,
)  # fmt: skip

AGREED, ENDED = (0, 158, 115), (213, 94, 0)
"""The banner's colour after a deal, and without one."""
_DEADLINE = 300  # pixels: the bar of the rounds
_LEAST_WIDTH = 640  # pixels


def rgb_array(scene: Scene, bargain: Bargain, played: int, rounds: int) -> np.ndarray:
    """The last round as a uint8 array (height, width, 3), of one size all through an episode.

    A headline; how many rounds are played of those until the deadline; a block per issue, in which
    the options stand side by side and below each what it is worth to every agent. What an agent has
    proposed is filled with its colour while it can be accepted, and framed when it no longer can.
    Then a line per agent: its move, what its proposal is worth to everyone, and its reward; then
    what no deal is worth to them; and how it ended.
    """
    agents = len(scene.agents)
    names = width_of("x" * (max(map(len, scene.agents)) + 4))
    cells = [_cell(options) * len(options) for _, options in bargain.rules.issues]
    issue = width_of("x" * max(len(name) for name, _ in bargain.rules.issues))
    left = MARGIN + max(names, issue + 3 * MARGIN)
    width = max(_LEAST_WIDTH, left + max(cells) + MARGIN, left + _moves_width(agents))
    lines = 2 + len(bargain.rules.issues) * (agents + 2) + agents + 3
    frame = Frame(2 * MARGIN + lines * LINE, width)
    frame.write(scene.headline, MARGIN, MARGIN)
    _draw_deadline(frame, bargain, played, rounds, MARGIN + LINE)
    top = MARGIN + 2 * LINE + LINE // 2
    for number in range(len(bargain.rules.issues)):
        _draw_issue(frame, bargain, number, top, left)
        top += (agents + 2) * LINE
    _draw_moves(frame, scene, bargain, top, left)
    return frame.pixels()


def _cell(options: tuple[str, ...]) -> int:
    """How many pixels wide each option of an issue stands."""
    return width_of("x" * (max(5, *map(len, options)) + 3))


def _draw_deadline(frame: Frame, bargain: Bargain, played: int, rounds: int, top: int) -> None:
    frame.box(top, MARGIN, LETTER, _DEADLINE, TRACK)
    frame.box(top, MARGIN, LETTER, round(_DEADLINE * played / rounds), QUIET)
    if bargain.agreed is not None:
        told, colour = "deal", AGREED
    elif bargain.walked_away:
        told, colour = "walked away: no deal", ENDED
    elif played >= rounds:
        told, colour = "deadline: no deal", ENDED
    else:
        told, colour = f"rounds left: {rounds - played}", QUIET
    frame.write(told, top, 2 * MARGIN + _DEADLINE, colour)


def _draw_issue(frame: Frame, bargain: Bargain, number: int, top: int, left: int) -> None:
    issue, options = bargain.rules.issues[number]
    cell = _cell(options)
    frame.write(issue, top, MARGIN)
    agreed = bargain.agreed
    for option, name in enumerate(options):
        x = left + option * cell
        taken = agreed is not None and bargain.rules.deals[agreed][number] == option
        if taken:
            frame.box(top - 4, x, LETTER + 8, cell - 4, AGREED)
        frame.write(name, top, x + 6, PAPER if taken else INK)
    for agent, proposal in enumerate(bargain.proposals):
        y, colour = top + (agent + 1) * LINE, colour_of(agent)
        frame.box(y, left - 16, LETTER, LETTER, colour)
        for option in range(len(options)):
            x, ink = left + option * cell, INK
            if proposal is not None and bargain.rules.deals[proposal][number] == option:
                frame.box(y - 3, x, LETTER + 6, cell - 4, colour)
                if bargain.stands[agent]:
                    ink = PAPER
                else:
                    frame.box(y - 1, x + 2, LETTER + 2, cell - 8, PAPER)
            frame.write(f"{bargain.points[agent][number][option]}", y, x + 6, ink)


_MOVE = "propose  "
_WORTH = width_of("100  ")


def _moves_width(agents: int) -> int:
    """How many pixels the lines of the moves need, beside the names."""
    return width_of(_MOVE + "reward 0.000") + _WORTH * agents + 2 * MARGIN


def _draw_moves(frame: Frame, scene: Scene, bargain: Bargain, top: int, left: int) -> None:
    agents = range(len(scene.agents))
    worth_left = left + width_of(_MOVE)
    reward_left = worth_left + _WORTH * len(agents) + MARGIN
    for column, head in ((left, "move"), (worth_left, "worth to"), (reward_left, "reward")):
        frame.write(head, top, column, QUIET)
    for agent in agents:
        y, proposal = top + (agent + 1) * LINE, bargain.proposals[agent]
        frame.box(y, MARGIN, LETTER, LETTER, colour_of(agent))
        frame.write(scene.agents[agent], y, MARGIN + LETTER + 6)
        choice = scene.choices[agent]
        said = "-" if choice is None else scene.answers[choice].partition(" ")[0]
        frame.write(said, y, left)
        if proposal is not None:
            faded = not bargain.stands[agent] and bargain.agreed != proposal
            _draw_worths(frame, bargain.utilities[proposal], y, worth_left, faded)
        reward = scene.rewards[agent]
        if reward is not None:
            frame.write(f"{reward:.3f}", y, reward_left)
    below = top + (len(agents) + 1) * LINE
    frame.write("no deal", below, left, QUIET)
    _draw_worths(frame, tuple(bargain.reservations), below, worth_left, faded=False)


def _draw_worths(frame: Frame, worths: tuple[int, ...], top: int, left: int, faded: bool) -> None:
    """A number of points per agent, each in its agent's colour."""
    for agent, worth in enumerate(worths):
        frame.write(str(worth), top, left + _WORTH * agent, TRACK if faded else colour_of(agent))
