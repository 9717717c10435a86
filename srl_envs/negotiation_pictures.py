"""The picture of a negotiation: the issues, what each option is worth to whom, and the proposals.

It shows all seats' points, also what they keep from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from srl_envs import rendering
from srl_envs.negotiation import Bargain
from srl_envs.rendering import INK, LETTER, LINE, MARGIN, PAPER, QUIET, TRACK, Colour

AGREED, ENDED = (0, 158, 115), (213, 94, 0)
"""The banner's colour after a deal, and without one."""
_DEADLINE = 300  # pixels: the bar of the rounds
_LEAST_WIDTH = 640  # pixels


@dataclass(frozen=True)
class NegotiationPicture:
    """One moment of a negotiation; all tuples are in seat order."""

    headline: str
    seats: tuple[str, ...]
    bargain: Bargain
    said: tuple[str, ...]
    """What each seat did last, in a word; '-' before anyone has acted."""
    rewards: tuple[float | None, ...]
    played: int
    rounds: int


def rgb_array(picture: NegotiationPicture) -> np.ndarray:
    """The picture as a uint8 array (height, width, 3), of one size all through an episode.

    A headline; how many rounds are played of those until the deadline; a block per issue, in which
    the options stand side by side and below each what it is worth to every seat. What a seat has
    proposed is filled with its colour while it can be accepted, and framed when it no longer can.
    Then a line per seat: its move, what its proposal is worth to everyone, and its reward; then
    what no deal is worth to them; and how it ended.
    """
    bargain = picture.bargain
    names = rendering.width_of("x" * (max(map(len, picture.seats)) + 4))
    cells = [_cell(options) * len(options) for _, options in bargain.rules.issues]
    issue = rendering.width_of("x" * max(len(name) for name, _ in bargain.rules.issues))
    left = MARGIN + max(names, issue + 3 * MARGIN)
    width = max(_LEAST_WIDTH, left + max(cells) + MARGIN, left + _moves_width(len(picture.seats)))
    seats = len(picture.seats)
    lines = 2 + len(bargain.rules.issues) * (seats + 2) + seats + 3
    frame = rendering.blank(2 * MARGIN + lines * LINE, width)
    rendering.write(frame, picture.headline, MARGIN, MARGIN, INK)
    _draw_deadline(frame, picture, MARGIN + LINE)
    top = MARGIN + 2 * LINE
    for number in range(len(bargain.rules.issues)):
        _draw_issue(frame, picture, number, top + LINE // 2, left)
        top += (seats + 2) * LINE
    _draw_moves(frame, picture, top + LINE // 2, left)
    return frame


def _cell(options: tuple[str, ...]) -> int:
    """How many pixels wide each option of an issue stands."""
    return rendering.width_of("x" * (max(5, *map(len, options)) + 3))


def _draw_deadline(frame: np.ndarray, picture: NegotiationPicture, top: int) -> None:
    bar = frame[top : top + LETTER, MARGIN : MARGIN + _DEADLINE]
    bar[:] = TRACK
    bar[:, : round(_DEADLINE * picture.played / picture.rounds)] = QUIET
    bargain, beside = picture.bargain, 2 * MARGIN + _DEADLINE
    if bargain.agreed is not None:
        rendering.write(frame, "deal", top, beside, AGREED)
    elif bargain.walked_away:
        rendering.write(frame, "walked away: no deal", top, beside, ENDED)
    elif picture.played >= picture.rounds:
        rendering.write(frame, "deadline: no deal", top, beside, ENDED)
    else:
        told = f"rounds left: {picture.rounds - picture.played}"
        rendering.write(frame, told, top, beside, QUIET)


def _draw_issue(
    frame: np.ndarray, picture: NegotiationPicture, number: int, top: int, left: int
) -> None:
    bargain = picture.bargain
    issue, options = bargain.rules.issues[number]
    cell = _cell(options)
    rendering.write(frame, issue, top, MARGIN, INK)
    agreed = bargain.agreed
    for option, name in enumerate(options):
        x = left + option * cell
        taken = agreed is not None and bargain.rules.deals[agreed][number] == option
        if taken:
            frame[top - 4 : top + LETTER + 4, x : x + cell - 4] = AGREED
        rendering.write(frame, name, top, x + 6, PAPER if taken else INK)
    for seat, proposal in enumerate(bargain.proposals):
        y, colour = top + (seat + 1) * LINE, _colour(seat)
        frame[y : y + LETTER, left - 16 : left - 16 + LETTER] = colour
        for option in range(len(options)):
            x, ink = left + option * cell, INK
            if proposal is not None and bargain.rules.deals[proposal][number] == option:
                frame[y - 3 : y + LETTER + 3, x : x + cell - 4] = colour
                if bargain.stands[seat]:
                    ink = PAPER
                else:
                    frame[y - 1 : y + LETTER + 1, x + 2 : x + cell - 6] = PAPER
            points = f"{bargain.points[seat][number][option]:>3}"
            rendering.write(frame, points, y, x + 6, ink)


_MOVE = "propose  "


def _moves_width(seats: int) -> int:
    """How many pixels the lines of the moves need, beside the names."""
    return rendering.width_of(_MOVE + "100  " * seats + "reward 0.000") + 2 * MARGIN


def _draw_moves(frame: np.ndarray, picture: NegotiationPicture, top: int, left: int) -> None:
    bargain, seats = picture.bargain, range(len(picture.seats))
    worth_left = left + rendering.width_of(_MOVE)
    reward_left = worth_left + rendering.width_of("100  " * len(seats)) + MARGIN
    for column, head in ((left, "move"), (worth_left, "worth to"), (reward_left, "reward")):
        rendering.write(frame, head, top, column, QUIET)
    for seat in seats:
        y, proposal = top + (seat + 1) * LINE, bargain.proposals[seat]
        frame[y : y + LETTER, MARGIN : MARGIN + LETTER] = _colour(seat)
        rendering.write(frame, picture.seats[seat], y, MARGIN + LETTER + 6, INK)
        rendering.write(frame, picture.said[seat], y, left, INK)
        if proposal is not None:
            faded = not bargain.stands[seat] and bargain.agreed != proposal
            _draw_worths(frame, bargain.utilities[proposal], y, worth_left, faded)
        reward = picture.rewards[seat]
        if reward is not None:
            rendering.write(frame, f"{reward:.3f}", y, reward_left, INK)
    below = top + (len(seats) + 1) * LINE
    rendering.write(frame, "no deal", below, left, QUIET)
    _draw_worths(frame, tuple(bargain.reservations), below, worth_left, faded=False)


def _draw_worths(
    frame: np.ndarray, worths: tuple[int, ...], top: int, left: int, faded: bool
) -> None:
    """A number of points per seat, each in its seat's colour."""
    for seat, worth in enumerate(worths):
        x = left + rendering.width_of("100  ") * seat
        rendering.write(frame, f"{worth:>3}", top, x, TRACK if faded else _colour(seat))


def _colour(seat: int) -> Colour:
    return rendering.COLOURS[seat % len(rendering.COLOURS)]
