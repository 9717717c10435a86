"""Rendering of a market: traders on a circle, their goods, offers and deliveries.

It shows the whole market, also what the traders keep from each other.
"""

from __future__ import annotations

from cmath import rect
from collections.abc import Sequence
from math import pi

import numpy as np

from srl_envs.games.rendering import (
    INK,
    LETTER,
    LINE,
    MARGIN,
    PAPER,
    QUIET,
    Colour,
    Frame,
    Point,
    Scene,
    colour_of,
    width_of,
)  # fmt: skip
from srl_envs.games.trading.market import ACCEPTED, DECLINED, Market, worth_of

GOODS_COLOURS: tuple[Colour, ...] = (
    (230, 159, 0), (176, 58, 46), (133, 94, 56), (86, 130, 190),
    (150, 150, 150), (222, 200, 150), (106, 61, 154), (90, 140, 30),
)  # fmt: skip
"""By good, in the order of srl_envs.games.trading.market.GOODS."""
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


def rgb_array(scene: Scene, market: Market, agents: Sequence[str]) -> np.ndarray:
    """The last round as a uint8 array (height, width, 3), of one size all through an episode.

    Left the network: each trader with a bar per good (a step per unit), lines for offers,
    agreements and deliveries of the last round, pale ones under them for the deals so far. Right a
    line per trader with what it did, and below it the last reward, what its goods have gained in
    value since the start, and its reputation. The colours' meaning stands below.
    """
    across = _across(market)
    room = len(scene.answers[0])  # all are padded to the longest, so that frames are as wide
    panel = max(width_of("x" * (room + 2)), 400)
    height = MARGIN + LINE + max(across, (2 * len(agents) + 8) * LINE) + MARGIN
    frame = Frame(height, across + panel + 2 * MARGIN)
    frame.write(scene.headline, MARGIN, MARGIN)
    _draw_network(frame, market, complex(MARGIN + across // 2, MARGIN + LINE + across // 2))
    _draw_panel(frame, scene, market, agents, MARGIN + across)
    return frame.pixels()


def _across(market: Market) -> int:
    """Pixels: the side of the square that holds the circle, with the bars outside it."""
    return 2 * (_RADIUS + _NODE + 2 * MARGIN + _GOOD * market.rules.goods)


def _draw_network(frame: Frame, market: Market, middle: complex) -> None:
    """Traders on a circle, the first at its top, then clockwise; points are x + y * 1j."""
    agents = market.rules.num_agents
    places = [middle - 1j * rect(_RADIUS, 2 * pi * agent / agents) for agent in range(agents)]
    for one, row in enumerate(market.deals):
        for other in range(one):
            if row[other]:
                ends = _xy(places[one]), _xy(places[other])
                frame.line(ends, DEALT, min(15, 3 + 2 * row[other]))
    for maker, offer in enumerate(market.offers):
        if offer is not None:
            colour = {ACCEPTED: AGREED, DECLINED: REFUSED}.get(market.answers[maker], OFFERED)
            _arrow(frame, places[maker], places[market.partner(maker)], colour)
    for whom, who, kept in market.outcome:
        _arrow(frame, places[who], places[whom], KEPT if kept else BROKEN)
    for agent, place in enumerate(places):
        right = round(place.real) >= middle.real
        _draw_trader(frame, agent, place, market.stocks[agent], right)


def _arrow(frame: Frame, start: complex, end: complex, colour: Colour) -> None:
    """A line from trader to trader, a little to its right, with a head."""
    way = (end - start) / abs(end - start)
    tail, tip = start + way * (_NODE + 4), end - way * (_NODE + 6)
    tail, tip = tail + 1j * way * _APART, tip + 1j * way * _APART
    left, right = (tip + way * rect(10, turn) for turn in (2.6, -2.6))  # pixels, radians
    frame.line((_xy(tail), _xy(tip)), colour, 3)
    frame.line((_xy(left), _xy(tip), _xy(right)), colour, 3)


def _xy(place: complex) -> Point:
    return place.real, place.imag


def _draw_trader(
    frame: Frame, agent: int, place: complex, stock: Sequence[int], right: bool
) -> None:
    x, y = round(place.real), round(place.imag)
    frame.box(y - _NODE, x - _NODE, 2 * _NODE, 2 * _NODE, colour_of(agent))
    frame.write(str(agent), y - LETTER // 2, x - 4, PAPER)
    # The bars stand outside the circle, so that they cover no line.
    wide, floor = _GOOD * len(stock), y + _NODE
    left = x + _NODE + 5 if right else x - _NODE - 5 - wide
    for good, units in enumerate(stock):
        for unit in range(1, min(units, _TALLEST) + 1):
            bar = left + _GOOD * good
            frame.box(floor - unit * _UNIT, bar, _UNIT - 1, 6, GOODS_COLOURS[good])
    frame.box(floor, left, 1, wide - 1, INK)


def _draw_panel(
    frame: Frame, scene: Scene, market: Market, agents: Sequence[str], left: int
) -> None:
    top = MARGIN + LINE + 2
    for agent, (name, said) in enumerate(zip(agents, scene.answers, strict=True)):
        frame.box(top - 2, left, LETTER + 4, _TAG, colour_of(agent))
        frame.write(str(agent), top, left + 3, PAPER)
        frame.write(said.rstrip(), top, left + _TAG + 6)
        values, held = market.values[agent], market.stocks[agent]
        gained = worth_of(values, held) - worth_of(values, market.first_stocks[agent])
        reward = scene.rewards[agent]
        now = "" if reward is None else f"{reward:+g} now, "
        told = f"{name}: {now}{gained:+} so far"
        if not market.rules.binding:
            told += f", reputation {market.reputation(agent):.2f}"
        frame.write(told, top + LINE - 3, left + _TAG + 6, QUIET)
        top += 2 * LINE
    top += LINE
    _draw_key(frame, dict(zip(market.rules.names, GOODS_COLOURS, strict=False)), top, left)
    _draw_key(frame, _EDGES, top + 3 * LINE, left)


def _draw_key(frame: Frame, meanings: dict[str, Colour], top: int, left: int) -> None:
    """Coloured squares with their names, three on a line."""
    for place, (name, colour) in enumerate(meanings.items()):
        y, x = top + place // 3 * LINE, left + place % 3 * 136
        frame.box(y, x, LETTER, LETTER, colour)
        frame.write(name, y, x + LETTER + 6)
