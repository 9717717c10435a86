"""The picture of a market: its traders on a circle, what they hold, and what passes between them.

It shows the whole market, also what the traders keep from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi, sin

import numpy as np

from srl_envs import rendering
from srl_envs.rendering import INK, LETTER, LINE, MARGIN, QUIET, Colour
from srl_envs.trading import ACCEPTED, DECLINED, Market, worth_of

GOODS_COLOURS: tuple[Colour, ...] = (
    (230, 159, 0), (176, 58, 46), (133, 94, 56), (86, 130, 190),
    (150, 150, 150), (222, 200, 150), (106, 61, 154), (90, 140, 30),
)  # fmt: skip
"""By good, in the order of srl_envs.trading.GOODS."""
OFFERED, AGREED, REFUSED = (120, 120, 126), (0, 114, 178), (205, 205, 200)
KEPT, BROKEN, DEALT = (0, 158, 115), (213, 94, 0), (236, 232, 214)
_EDGES = {
    "offered": OFFERED, "accepted": AGREED, "declined": REFUSED,
    "delivered": KEPT, "word broken": BROKEN, "deals so far": DEALT,
}  # fmt: skip
"""What the lines between traders mean."""

_RADIUS = 165  # pixels: of the circle
_NODE = 11  # pixels: half the side of a trader's square
_GOOD = 7  # pixels: from a trader's bar to the next
_UNIT, _TALLEST = 4, 12  # pixels per unit in a trader's bars; units from which a bar grows no more
_TAG = 14  # pixels: the side of the square with a trader's number
_APART = 5  # pixels: how far a line keeps to its right, so that two of a pair lie side by side


@dataclass(frozen=True)
class TradePicture:
    """One moment of a market; all tuples are in seat order."""

    headline: str
    seats: tuple[str, ...]
    market: Market
    said: tuple[str, ...]
    """What each seat did last, in words; '-' before anyone has acted."""
    room: int
    """Characters of the longest thing that can be done, so that all frames are as wide."""
    rewards: tuple[float | None, ...]


def rgb_array(picture: TradePicture) -> np.ndarray:
    """The picture as a uint8 array (height, width, 3), of one size all through an episode.

    Left the network: each trader with a bar per good (a step per unit), lines for offers,
    agreements and deliveries of the last round, pale ones under them for the deals so far. Right a
    line per trader with what it did, and below it the last reward, what its goods have gained in
    value since the start, and its reputation. The colours' meaning stands below.
    """
    seats, across = len(picture.seats), _across(picture.market)
    panel = max(rendering.width_of("x" * (picture.room + 2)), 400)
    height = MARGIN + LINE + max(across, (2 * seats + 8) * LINE) + MARGIN
    frame = rendering.blank(height, across + panel + 2 * MARGIN)
    rendering.write(frame, picture.headline, MARGIN, MARGIN, INK)
    _draw_network(frame[MARGIN + LINE :, MARGIN:], picture)
    _draw_panel(frame[MARGIN + LINE :, MARGIN + across :], picture)
    return frame


def _draw_network(area: np.ndarray, picture: TradePicture) -> None:
    market = picture.market
    across = _across(market)
    places = _places(len(picture.seats), across)
    for one, row in enumerate(market.deals):
        for other in range(one):
            if row[other]:
                _line(area, places[one], places[other], DEALT, min(15, 3 + 2 * row[other]))
    for maker, offer in enumerate(market.offers):
        if offer is not None:
            colour = {ACCEPTED: AGREED, DECLINED: REFUSED}.get(market.answers[maker], OFFERED)
            _arrow(area, places[maker], places[market.partner(maker)], colour)
    for whom, who, kept in market.outcome:
        _arrow(area, places[who], places[whom], KEPT if kept else BROKEN)
    for seat, place in enumerate(places):
        _draw_trader(area, seat, place, market.stocks[seat], place[1] >= across // 2)


def _across(market: Market) -> int:
    """Pixels: the side of the square that holds the circle, with the bars outside it."""
    return 2 * (_RADIUS + _NODE + 2 * MARGIN + _GOOD * market.rules.goods)


def _places(seats: int, across: int) -> list[tuple[int, int]]:
    """Where the traders stand, as (y, x), the first at the top, then clockwise."""
    middle = across // 2
    turns = [2 * pi * seat / seats for seat in range(seats)]
    return [
        (round(middle - _RADIUS * cos(turn)), round(middle + _RADIUS * sin(turn))) for turn in turns
    ]


def _draw_trader(
    area: np.ndarray, seat: int, place: tuple[int, int], stock: Sequence[int], right: bool
) -> None:
    y, x = place
    area[y - _NODE : y + _NODE, x - _NODE : x + _NODE] = _colour(seat)
    rendering.write(area, str(seat), y - LETTER // 2, x - 3, rendering.PAPER)
    # The bars stand outside the circle, so that they cover no line.
    wide, floor = _GOOD * len(stock), y + _NODE
    left = x + _NODE + 5 if right else x - _NODE - 5 - wide
    for good, units in enumerate(stock):
        bar = left + _GOOD * good
        for unit in range(min(units, _TALLEST)):
            step = floor - (unit + 1) * _UNIT
            area[step : step + _UNIT - 1, bar : bar + 6] = GOODS_COLOURS[good]
    area[floor : floor + 1, left : left + wide - 1] = INK


def _draw_panel(area: np.ndarray, picture: TradePicture) -> None:
    market, top = picture.market, 2
    for seat, (name, said) in enumerate(zip(picture.seats, picture.said, strict=True)):
        area[top - 2 : top + LETTER + 2, :_TAG] = _colour(seat)
        rendering.write(area, str(seat), top, 4, rendering.PAPER)
        rendering.write(area, said, top, _TAG + 6, INK)
        values, held = market.values[seat], market.stocks[seat]
        gained = worth_of(values, held) - worth_of(values, market.first_stocks[seat])
        reward = picture.rewards[seat]
        now = "" if reward is None else f"{reward:+g}"
        told = f"{name}: {now:>4} now {gained:+5} so far"
        if not market.rules.binding:
            told += f"  reputation {market.reputation(seat):.2f}"
        rendering.write(area, told, top + LINE - 3, _TAG + 6, QUIET)
        top += 2 * LINE
    top += LINE
    _draw_key(area, dict(zip(market.rules.names, GOODS_COLOURS, strict=False)), top)
    _draw_key(area, _EDGES, top + 3 * LINE)


def _draw_key(area: np.ndarray, meanings: dict[str, Colour], top: int) -> None:
    """Coloured squares with their names, three on a line."""
    for place, (name, colour) in enumerate(meanings.items()):
        y, x = top + place // 3 * LINE, place % 3 * 136
        area[y : y + LETTER, x : x + LETTER] = colour
        rendering.write(area, name, y, x + LETTER + 6, INK)


def _colour(seat: int) -> Colour:
    return rendering.COLOURS[seat % len(rendering.COLOURS)]


def _line(
    area: np.ndarray,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: Colour,
    thick: int,
) -> None:
    """Draw a straight line between two points (y, x), `thick` pixels wide."""
    steps = int(max(abs(end[0] - start[0]), abs(end[1] - start[1]))) + 1
    ys = np.linspace(start[0], end[0], steps).round().astype(int)
    xs = np.linspace(start[1], end[1], steps).round().astype(int)
    for dy in range(-(thick // 2), (thick + 1) // 2):
        for dx in range(-(thick // 2), (thick + 1) // 2):
            area[ys + dy, xs + dx] = colour


def _arrow(area: np.ndarray, start: tuple[int, int], end: tuple[int, int], colour: Colour) -> None:
    """A line from trader to trader, a little to its right, with a head."""
    way = np.subtract(end, start) / np.hypot(*np.subtract(end, start))
    side = np.array((way[1], -way[0])) * _APART
    tail, tip = start + way * (_NODE + 4) + side, end - way * (_NODE + 6) + side
    _line(area, tuple(tail), tuple(tip), colour, 3)
    for turn in (2.6, -2.6):  # radians from the way ahead to the head's two strokes
        stroke = (
            way[0] * cos(turn) + way[1] * sin(turn),
            way[1] * cos(turn) - way[0] * sin(turn),
        )
        _line(area, tuple(tip), tuple(tip + np.multiply(stroke, 10)), colour, 3)
