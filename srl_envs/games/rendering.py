"""Rendering of a round of a game, as text or as an RGB array (by Pillow)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srl_envs.loading import needed_by

Colour = tuple[int, int, int]
Point = tuple[float, float]
"""Pixels from the left and from the top."""


@dataclass(frozen=True)
class Scene:
    """One round as it is shown; all tuples are in the agents' order."""

    headline: str
    agents: tuple[str, ...]
    choices: tuple[int | None, ...]
    """The last actions; None before anyone has chosen."""
    rewards: tuple[float | None, ...]
    answers: tuple[str, ...]
    """What each action is called."""
    ceiling: float
    """The reward that fills a bar."""
    past: Sequence[tuple[Sequence[int], Sequence[float]]] | None = None
    """All rounds so far, this one last: actions and rewards. None leaves totals and the strip of
    the last rounds out of the picture."""
    notes: tuple[str, ...] = ()
    """What is known of each agent, such as a role; empty where there is nothing to tell."""
    teams: tuple[str, ...] = ()
    """Each agent's team, teammates beside each other; empty where there are no teams."""


BAR_LENGTH = 20  # characters


def ansi(scene: Scene) -> str:
    """The scene as lines of plain text, the last one ended."""
    width = max(map(len, scene.agents))
    widest = max(map(len, scene.answers))
    lines = [scene.headline.rstrip()]
    for agent, choice, reward in zip(scene.agents, scene.choices, scene.rewards, strict=True):
        word = "-" if choice is None else scene.answers[choice]
        bar = "#" * round(BAR_LENGTH * _share(reward, scene.ceiling))
        number = "" if reward is None else f"{reward:.3f}"
        lines.append(f"{agent:<{width}}  {word:<{widest}}  {bar:<{BAR_LENGTH}}  {number}".rstrip())
    return "\n".join(lines) + "\n"


PAPER, INK, TRACK, QUIET = (250, 250, 247), (40, 40, 45), (226, 226, 222), (128, 128, 132)
COLOURS: tuple[Colour, ...] = (
    (213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0),
    (86, 180, 233), (122, 90, 60), (106, 61, 154), (90, 140, 30), (96, 104, 112),
)  # fmt: skip
"""By action or agent, modulo their number; the first five are told apart also without seeing red
and green."""

NAMED: dict[str, Colour] = {
    "red": (197, 48, 48), "blue": (0, 114, 178), "green": (0, 140, 90), "yellow": (190, 150, 0),
    "orange": (214, 110, 0), "purple": (106, 61, 154), "pink": (204, 100, 160),
    "brown": (122, 90, 60), "grey": (96, 104, 112), "gray": (96, 104, 112), "black": INK,
}  # fmt: skip
"""Agents and teams whose names begin with a colour are drawn in it."""

LETTER = 10  # pixels: the height of a capital letter
_FONT_SIZE = 14  # pixels: of Pillow's own font, whose capitals are then that high
_ADVANCE = 8  # pixels: the room for a letter
LINE = 24  # pixels per line
MARGIN = 8  # pixels
_BAR = 160  # pixels
_REWARD_ROOM, _TOTAL_ROOM = 7, 9  # characters
_LEAST_WIDTH = 480  # pixels: room for a headline
SHOWN_ROUNDS = 40
"""How many of the last rounds the strip beside each agent shows."""
_ROUND, _STRIP = 6, 18  # pixels per round in it, and its height


class Frame:
    """An RGB picture under construction; what stands outside it is left out.

    Raises ImportError, with the line that installs it, where Pillow is missing.
    """

    def __init__(self, height: int, width: int) -> None:
        with needed_by("render_mode 'rgb_array'"):
            from PIL import Image, ImageDraw, ImageFont
        self._image = Image.new("RGB", (width, height), PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self._font = ImageFont.load_default(_FONT_SIZE)

    def write(self, text: str, top: int, left: int, colour: Colour = INK) -> None:
        """Write `text`, the top left corner of its capitals at that pixel."""
        self._draw.text((left, top + LETTER), text, colour, self._font, anchor="ls")

    def box(self, top: int, left: int, height: int, width: int, colour: Colour) -> None:
        """Fill a rectangle; none where its height or width is 0."""
        if height > 0 and width > 0:
            self._draw.rectangle((left, top, left + width - 1, top + height - 1), colour)

    def line(self, points: Sequence[Point], colour: Colour, thick: int) -> None:
        """Draw straight lines from point to point, `thick` pixels wide."""
        self._draw.line(points, colour, thick)

    def pixels(self) -> np.ndarray:
        """The picture as a uint8 array (height, width, 3)."""
        return np.array(self._image)


def width_of(text: str) -> int:
    """The width of `text` in pixels."""
    return len(text) * _ADVANCE


def colour_of(agent: int) -> Colour:
    """An agent's colour in pictures in which colours stand for agents."""
    return COLOURS[agent % len(COLOURS)]


def rgb_array(scene: Scene) -> np.ndarray:
    """The scene as a uint8 array (height, width, 3), of one size all through an episode.

    A headline, then a line per agent: its choice, the reward as a bar and a number and, with the
    scene's `past`, the total so far and a strip of the last rounds, in which a column's colour is
    the choice and its height the reward. With teams, a line above each team sums it up.
    """
    places = _columns(scene)
    teams = dict.fromkeys(scene.teams)
    lines = 1 + (scene.past is not None) + len(teams) + len(scene.agents)
    frame = Frame(2 * MARGIN + LINE * lines, max(places["end"], _LEAST_WIDTH))
    frame.write(scene.headline.rstrip(), MARGIN, MARGIN)
    top = MARGIN + LINE
    totals = np.zeros(len(scene.agents))
    if scene.past is not None:
        heads = {"word": "choice", "bar": "reward", "total": "total"}
        for column, head in (heads | {"strip": f"last {SHOWN_ROUNDS} rounds"}).items():
            frame.write(head, top, places[column], QUIET)
        top += LINE
        totals = sum((np.array(rewards) for _, rewards in scene.past), totals)
    for agent in range(len(scene.agents)):
        if teams and scene.teams[agent] in teams:
            team = scene.teams[agent]
            del teams[team]
            mean = float(totals[[name == team for name in scene.teams]].mean())
            _draw_team(frame, scene, team, mean, top, places)
            top += LINE
        _draw_agent(frame, scene, agent, float(totals[agent]), top, places)
        top += LINE
    return frame.pixels()


def _columns(scene: Scene) -> dict[str, int]:
    """Where each column begins, in pixels; decided by what stays the same in an episode."""
    widths = {
        "name": width_of("x" * (max(map(len, scene.agents)) + 2 * bool(scene.teams))),
        "note": max(map(width_of, scene.notes), default=0),
        "word": max(map(width_of, (*scene.answers, "choice"))),
        "bar": _BAR,
        "number": width_of("x" * _REWARD_ROOM),
    }
    if scene.past is not None:
        widths |= {"total": width_of("x" * _TOTAL_ROOM), "strip": SHOWN_ROUNDS * _ROUND}
    places, left = {}, MARGIN
    for column, width in widths.items():
        places[column] = left
        left += width + MARGIN * bool(width)
    return places | {"end": left}


def _draw_team(
    frame: Frame, scene: Scene, team: str, mean: float, top: int, places: dict[str, int]
) -> None:
    """The team's name and what its members have earned, on average."""
    frame.write(team, top, MARGIN, named_colour(team) or INK)
    width = max(places["end"], _LEAST_WIDTH) - 2 * MARGIN
    frame.box(top + LINE - 5, MARGIN, 1, width, TRACK)
    if scene.past is not None:
        frame.write("mean of the team", top, places["bar"], QUIET)
        frame.write(_fitting(mean, 2, _TOTAL_ROOM), top, places["total"])


def _draw_agent(
    frame: Frame, scene: Scene, agent: int, total: float, top: int, places: dict[str, int]
) -> None:
    choice, reward = scene.choices[agent], scene.rewards[agent]
    indent = width_of("xx") if scene.teams else 0
    own = _own_colour(scene, agent) or INK
    frame.write(scene.agents[agent], top, places["name"] + indent, own)
    if scene.notes:
        frame.write(scene.notes[agent], top, places["note"], QUIET)
    frame.box(top, places["bar"], LETTER, _BAR, TRACK)
    if scene.past is not None:
        frame.write(_fitting(total, 2, _TOTAL_ROOM), top, places["total"])
        _draw_strip(frame, scene, agent, top - 4, places["strip"])
    if choice is None or reward is None:
        return
    colour = _colour_of_choice(scene, agent, choice)
    frame.write(scene.answers[choice], top, places["word"], colour)
    frame.box(top, places["bar"], LETTER, round(_BAR * _share(reward, scene.ceiling)), colour)
    frame.write(_fitting(reward, 3, _REWARD_ROOM), top, places["number"])


def _fitting(number: float, decimals: int, room: int) -> str:
    """A number in at most so many characters: as precise as `decimals` and the room allow."""
    formats = (f".{decimals}f", ".0f", ".1e", ".0e")
    return next(text for text in (format(number, form) for form in formats) if len(text) <= room)


def _draw_strip(frame: Frame, scene: Scene, agent: int, top: int, left: int) -> None:
    frame.box(top, left, _STRIP, SHOWN_ROUNDS * _ROUND, TRACK)
    for place, (chosen, rewards) in enumerate((scene.past or ())[-SHOWN_ROUNDS:]):
        # Never less than two pixels, so that the choice shows where nothing was earned.
        high = max(2, round(_STRIP * _share(rewards[agent], scene.ceiling)))
        colour = _colour_of_choice(scene, agent, chosen[agent])
        frame.box(top + _STRIP - high, left + place * _ROUND, high, _ROUND - 1, colour)


def named_colour(name: str) -> Colour | None:
    """The colour that a name begins with, as red_0 does; None for any other."""
    [first, *_] = re.split(r"[^a-z]", name.lower(), maxsplit=1)
    return NAMED.get(first)


def _own_colour(scene: Scene, agent: int) -> Colour | None:
    team = named_colour(scene.teams[agent]) if scene.teams else None
    return named_colour(scene.agents[agent]) or team


def _colour_of_choice(scene: Scene, agent: int, choice: int) -> Colour:
    """A colour per choice; of an agent with a colour of its own a shade of it per choice."""
    own = _own_colour(scene, agent)
    if own is None:
        return colour_of(choice)
    bright = 0.4 + 0.6 * (choice + 1) / len(scene.answers)  # 1 for the last
    return (round(own[0] * bright), round(own[1] * bright), round(own[2] * bright))


def _share(reward: float | None, ceiling: float) -> float:
    """How much of a bar the reward fills, from 0 to 1."""
    if reward is None or ceiling <= 0.0:
        return 0.0
    return min(1.0, max(0.0, reward / ceiling))
