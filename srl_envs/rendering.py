"""Pictures of a game, as text or as an RGB array, drawn with numpy alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Scene:
    """One round as it is shown; all tuples are in seat order."""

    headline: str
    seats: tuple[str, ...]
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
    """What is known of each seat, such as a role; empty where there is nothing to tell."""
    teams: tuple[str, ...] = ()
    """Each seat's team, teammates beside each other; empty where there are no teams."""


BAR_LENGTH = 20  # characters


def ansi(scene: Scene) -> str:
    """The scene as lines of plain text, the last one ended."""
    width = max(map(len, scene.seats))
    widest = max(map(len, scene.answers))
    lines = [scene.headline.rstrip()]
    for seat, choice, reward in zip(scene.seats, scene.choices, scene.rewards, strict=True):
        word = "-" if choice is None else scene.answers[choice]
        bar = "#" * round(BAR_LENGTH * _share(reward, scene.ceiling))
        number = "" if reward is None else f"{reward:.3f}"
        lines.append(f"{seat:<{width}}  {word:<{widest}}  {bar:<{BAR_LENGTH}}  {number}".rstrip())
    return "\n".join(lines) + "\n"


PAPER, INK, TRACK, QUIET = (250, 250, 247), (40, 40, 45), (226, 226, 222), (128, 128, 132)
COLOURS: tuple[Colour, ...] = (
    (213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0),
    (86, 180, 233), (122, 90, 60), (106, 61, 154), (90, 140, 30), (96, 104, 112),
)  # fmt: skip
"""By action or seat, modulo their number; the first five are told apart also without seeing red
and green."""

NAMED: dict[str, Colour] = {
    "red": (197, 48, 48), "blue": (0, 114, 178), "green": (0, 140, 90), "yellow": (190, 150, 0),
    "orange": (214, 110, 0), "purple": (106, 61, 154), "pink": (204, 100, 160),
    "brown": (122, 90, 60), "grey": (96, 104, 112), "gray": (96, 104, 112), "black": INK,
}  # fmt: skip
"""Seats and teams whose names begin with a colour are drawn in it."""

LETTER = 10  # pixels: the height of a capital letter
_ADVANCE = 8  # pixels from a letter to the next
_ABOVE = 4  # pixels of a letter's cell above its capitals
LINE = 24  # pixels per line
MARGIN = 8  # pixels
_BAR = 160  # pixels
_REWARD_ROOM, _TOTAL_ROOM = 7, 9  # characters
_LEAST_WIDTH = 480  # pixels: room for a headline
SHOWN_ROUNDS = 40
"""How many of the last rounds the strip beside each seat shows."""
_ROUND, _STRIP = 6, 18  # pixels per round in it, and its height


def rgb_array(scene: Scene) -> np.ndarray:
    """The scene as a uint8 array (height, width, 3), of one size all through an episode.

    A headline, then a line per seat: its choice, the reward as a bar and a number and, with the
    scene's `past`, the total so far and a strip of the last rounds, in which a column's colour is
    the choice and its height the reward. With teams, a line above each team sums it up.
    """
    places = _columns(scene)
    teams = dict.fromkeys(scene.teams)
    lines = 1 + (scene.past is not None) + len(teams) + len(scene.seats)
    width = max(places["end"], _LEAST_WIDTH)
    frame = blank(2 * MARGIN + LINE * lines, width)
    write(frame, scene.headline.rstrip(), MARGIN, MARGIN, INK)
    top = MARGIN + LINE
    if scene.past is not None:
        heads = {"word": "choice", "bar": "reward", "total": "total"}
        heads["strip"] = f"last {SHOWN_ROUNDS} rounds"
        for column, head in heads.items():
            write(frame, head, top, places[column], QUIET)
        top += LINE
    totals = _totals(scene)
    for seat in range(len(scene.seats)):
        if teams and scene.teams[seat] in teams:
            del teams[scene.teams[seat]]
            _draw_team(frame, scene, scene.teams[seat], totals, top, places)
            top += LINE
        _draw_seat(frame, scene, seat, totals, top, places)
        top += LINE
    return frame


def _columns(scene: Scene) -> dict[str, int]:
    """Where each column begins, in pixels; decided by what stays the same in an episode."""
    widths = {
        "name": width_of("x" * (max(map(len, scene.seats)) + 2 * bool(scene.teams))),
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


def _totals(scene: Scene) -> np.ndarray:
    """What each seat has earned so far."""
    if not scene.past:
        return np.zeros(len(scene.seats))
    totals: np.ndarray = np.sum([rewards for _, rewards in scene.past], axis=0)
    return totals


def _draw_team(
    frame: np.ndarray, scene: Scene, team: str, totals: np.ndarray, top: int, places: dict[str, int]
) -> None:
    """The team's name and what its members have earned, on average."""
    seats = [seat for seat, name in enumerate(scene.teams) if name == team]
    write(frame, team, top, MARGIN, named_colour(team) or INK)
    frame[top + LINE - 5 : top + LINE - 4, MARGIN : frame.shape[1] - MARGIN] = TRACK
    if scene.past is not None:
        write(frame, "mean of the team", top, places["bar"], QUIET)
        mean = _fitting(float(totals[seats].mean()), 2, _TOTAL_ROOM)
        write(frame, mean, top, places["total"], INK)


def _draw_seat(
    frame: np.ndarray, scene: Scene, seat: int, totals: np.ndarray, top: int, places: dict[str, int]
) -> None:
    choice, reward = scene.choices[seat], scene.rewards[seat]
    indent = width_of("xx") if scene.teams else 0
    write(frame, scene.seats[seat], top, places["name"] + indent, _own_colour(scene, seat) or INK)
    if scene.notes:
        write(frame, scene.notes[seat], top, places["note"], QUIET)
    bar = frame[top : top + LETTER, places["bar"] : places["bar"] + _BAR]
    bar[:] = TRACK
    if scene.past is not None:
        write(frame, _fitting(totals[seat], 2, _TOTAL_ROOM), top, places["total"], INK)
        _draw_strip(frame, scene, seat, top, places["strip"])
    if choice is None or reward is None:
        return
    colour = _colour_of_choice(scene, seat, choice)
    write(frame, scene.answers[choice], top, places["word"], colour)
    bar[:, : round(_BAR * _share(reward, scene.ceiling))] = colour
    write(frame, _fitting(reward, 3, _REWARD_ROOM), top, places["number"], INK)


def _fitting(number: float, decimals: int, room: int) -> str:
    """A number in at most so many characters: as precise as `decimals` and the room allow."""
    written = [f"{number:.{places}f}" for places in range(decimals, -1, -1)]
    written += [f"{number:.{places}e}" for places in (2, 1, 0)]
    return next(text for text in written if len(text) <= room)


def _draw_strip(frame: np.ndarray, scene: Scene, seat: int, top: int, left: int) -> None:
    tall = _STRIP
    frame[top - 4 : top - 4 + tall, left : left + SHOWN_ROUNDS * _ROUND] = TRACK
    for place, (chosen, rewards) in enumerate((scene.past or ())[-SHOWN_ROUNDS:]):
        x = left + place * _ROUND
        # Never less than two pixels, so that the choice shows where nothing was earned.
        high = max(2, round(tall * _share(rewards[seat], scene.ceiling)))
        bottom = top - 4 + tall
        colour = _colour_of_choice(scene, seat, chosen[seat])
        frame[bottom - high : bottom, x : x + _ROUND - 1] = colour


def named_colour(name: str) -> Colour | None:
    """The colour that a name begins with, as red_0 does; None for any other."""
    [first, *_] = re.split(r"[^a-z]", name.lower(), maxsplit=1)
    return NAMED.get(first)


def _own_colour(scene: Scene, seat: int) -> Colour | None:
    team = named_colour(scene.teams[seat]) if scene.teams else None
    return named_colour(scene.seats[seat]) or team


def _colour_of_choice(scene: Scene, seat: int, choice: int) -> Colour:
    """A colour per choice; of a seat with a colour of its own a shade of it per choice."""
    own = _own_colour(scene, seat)
    if own is None:
        return COLOURS[choice % len(COLOURS)]
    bright = 0.4 + 0.6 * (choice + 1) / len(scene.answers)  # 1 for the last
    return (round(own[0] * bright), round(own[1] * bright), round(own[2] * bright))


def blank(height: int, width: int) -> np.ndarray:
    """An empty frame of that many pixels."""
    frame = np.empty((height, width, 3), dtype=np.uint8)
    frame[:] = PAPER
    return frame


def width_of(text: str) -> int:
    """How many pixels wide `text` is written."""
    return len(text) * _ADVANCE


def write(frame: np.ndarray, text: str, top: int, left: int, colour: Colour) -> None:
    """Write `text` into the frame, the top left corner of its capitals at that pixel; what would
    stand outside the frame is left out."""
    letters = _letters()
    for place, letter in enumerate(text):
        ink = letters.get(letter, letters[_UNKNOWN])
        y, x = top - _ABOVE, left + place * _ADVANCE
        cell = frame[max(0, y) : max(0, y + len(ink)), x : x + _ADVANCE]
        ink = ink[max(0, -y) :][: cell.shape[0], : cell.shape[1], None]
        cell[:] = np.rint(cell + ink * (np.array(colour) - cell))


_UNKNOWN = "\N{WHITE SQUARE}"  # stands for letters that are not there


@cache
def _letters() -> dict[str, np.ndarray]:
    """Letter -> how much of each pixel of its cell is ink, from 0 to 1.

    DejaVu Sans Mono at 13 pixels, drawn once and kept beside this file: pictures take no font and
    no library, and are the same everywhere.
    """
    with files("srl_envs").joinpath("letters.npz").open("rb") as file, np.load(file) as kept:
        return dict(zip(kept["characters"].tolist(), kept["coverage"] / 255, strict=True))


def _share(reward: float | None, ceiling: float) -> float:
    """How much of a bar the reward fills, from 0 to 1."""
    if reward is None or ceiling <= 0.0:
        return 0.0
    return min(1.0, max(0.0, reward / ceiling))
