"""Pictures of a game, as text or as an RGB array, drawn with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

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


# Each glyph is 3 wide and 5 high: one octal digit a row, the top row first.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _./-:=+><%()!,'"
_DOTS = (
    "25755 65656 34443 65556 74647 74644 34553 55755 72227 11152 55655 44447 57755 "
    "65555 25552 65644 25563 65655 34216 72222 55557 55552 55775 55255 55222 71247 "
    "75557 26227 71747 71317 55711 74717 74757 71244 75757 75717 "
    "00000 00007 00002 11244 00700 02020 07070 02720 42124 12421 51245 "
    "24442 21112 22202 00024 22000"
)
_GLYPHS = dict(zip(_LETTERS, _DOTS.split(), strict=True))
_UNKNOWN = "77777"  # any other character: a filled block

PAPER, INK, TRACK, QUIET = (250, 250, 247), (40, 40, 45), (226, 226, 222), (128, 128, 132)
COLOURS: tuple[Colour, ...] = (
    (213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0),
    (86, 180, 233), (122, 90, 60), (106, 61, 154), (90, 140, 30), (96, 104, 112),
)  # fmt: skip
"""By action or seat, modulo their number; the first five are told apart also without seeing red
and green."""

_SCALE = 2  # pixels per font dot
LETTER = 5 * _SCALE  # pixels: the height of a letter
LINE = 18  # pixels per line
MARGIN = 8  # pixels
_BAR = 160  # pixels
_REWARD_ROOM, _TOTAL_ROOM = 7, 9  # characters
_LEAST_WIDTH = 480  # pixels: room for a headline
SHOWN_ROUNDS = 40
"""How many of the last rounds the strip beside each seat shows."""
_ROUND = 6  # pixels per round in it


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
    write(frame, team, top, MARGIN, INK)
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
    write(frame, scene.seats[seat], top, places["name"] + indent, INK)
    if scene.notes:
        write(frame, scene.notes[seat], top, places["note"], QUIET)
    bar = frame[top : top + LETTER, places["bar"] : places["bar"] + _BAR]
    bar[:] = TRACK
    if scene.past is not None:
        write(frame, _fitting(totals[seat], 2, _TOTAL_ROOM), top, places["total"], INK)
        _draw_strip(frame, scene, seat, top, places["strip"])
    if choice is None or reward is None:
        return
    colour = COLOURS[choice % len(COLOURS)]
    write(frame, scene.answers[choice], top, places["word"], colour)
    bar[:, : round(_BAR * _share(reward, scene.ceiling))] = colour
    write(frame, _fitting(reward, 3, _REWARD_ROOM), top, places["number"], INK)


def _fitting(number: float, decimals: int, room: int) -> str:
    """A number in at most so many characters: as precise as `decimals` and the room allow."""
    written = [f"{number:.{places}f}" for places in range(decimals, -1, -1)]
    written += [f"{number:.{places}e}" for places in (2, 1, 0)]
    return next(text for text in written if len(text) <= room)


def _draw_strip(frame: np.ndarray, scene: Scene, seat: int, top: int, left: int) -> None:
    tall = LINE - 4
    frame[top - 2 : top - 2 + tall, left : left + SHOWN_ROUNDS * _ROUND] = TRACK
    for place, (chosen, rewards) in enumerate((scene.past or ())[-SHOWN_ROUNDS:]):
        x = left + place * _ROUND
        # Never less than two pixels, so that the choice shows where nothing was earned.
        high = max(2, round(tall * _share(rewards[seat], scene.ceiling)))
        bottom = top - 2 + tall
        colour = COLOURS[chosen[seat] % len(COLOURS)]
        frame[bottom - high : bottom, x : x + _ROUND - 1] = colour


def blank(height: int, width: int) -> np.ndarray:
    """An empty frame of that many pixels."""
    frame = np.empty((height, width, 3), dtype=np.uint8)
    frame[:] = PAPER
    return frame


def width_of(text: str) -> int:
    """How many pixels wide `text` is written."""
    return len(text) * 4 * _SCALE


def write(frame: np.ndarray, text: str, top: int, left: int, colour: Colour) -> None:
    """Write `text` into the frame, its top left corner at that pixel; what would stand outside
    the frame is left out."""
    for place, letter in enumerate(text.upper()):
        dots = _dots(_GLYPHS.get(letter, _UNKNOWN))
        x = left + place * 4 * _SCALE
        cell = frame[top : top + LETTER, x : x + 3 * _SCALE]
        cell[dots[: cell.shape[0], : cell.shape[1]]] = colour


@cache
def _dots(glyph: str) -> np.ndarray:
    """Which pixels of a letter are ink."""
    dots = np.array([[int(row) >> bit & 1 for bit in (2, 1, 0)] for row in glyph], dtype=bool)
    return dots.repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)


def _share(reward: float | None, ceiling: float) -> float:
    """How much of a bar the reward fills, from 0 to 1."""
    if reward is None or ceiling <= 0.0:
        return 0.0
    return min(1.0, max(0.0, reward / ceiling))
