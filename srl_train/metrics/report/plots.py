"""Draws lines and rasters with matplotlib, as PNG files or as SVG text to stand inside a page.

The only file of the package that imports matplotlib (the extra `plots`), and only when a figure
is asked for. Lines are named at their right end, in their own colour, with their last value;
colours are Okabe and Ito's (2008), which stay apart for colour-blind readers.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from srl_agents.atomic_files import whole_file
from srl_train.metrics.errors import PlotsError, RunFolderError

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5539", "#4D4D4D",
)  # fmt: skip
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))
"""The palette's second and third time round are dashed and dotted."""
INK, QUIET, FAINT = "#22272e", "#6b7280", "#e5e7eb"
STYLE = {
    "text.parse_math": False,  # names are text as it stands, "$" in them too
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": QUIET,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "svg.fonttype": "none",  # text stays text: small, searchable, read out loud
    "svg.hashsalt": "srl",  # the same run gives the same file
}
PANEL_INCHES = (4.3, 2.6)
"""As wide as a phone's screen, so that a panel's text is read there at its own size."""
ROW_INCHES = 0.26
"""Height of one model's row in a raster."""
_FEW = 40  # values of a line up to which each is drawn as a dot


@dataclass(frozen=True)
class Line:
    """One curve; y may hold NaN where nothing was measured."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """With `high`: the band around y, which is then drawn as it stands, not smoothed."""
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    title: str
    lines: Sequence[Line]
    guides: Sequence[tuple[str, float]] = ()
    """Horizontal lines: name and height."""
    percent: bool = False
    """Heights are shares, shown in per cent."""
    smooth: bool = True
    """Draw the running mean, and the spread around it as a band."""
    across: str = "round"
    """What x counts."""


@dataclass(frozen=True)
class RasterRow:
    """One model's row in a raster: the rounds in which something happened."""

    label: str
    rounds: Sequence[int]


@dataclass(frozen=True)
class Raster:
    """One row of blocks per model, filled in the rounds of its `RasterRow`."""

    title: str
    rows: Sequence[RasterRow]
    rounds: Sequence[int]


def draw(drawings: Sequence[Panel | Raster], columns: int = 2) -> Any:
    """A figure with the drawings side by side, `columns` of them per row."""
    figure_type = _figure_type()
    from matplotlib import rc_context

    columns = min(columns, len(drawings))
    rows = [drawings[start : start + columns] for start in range(0, len(drawings), columns)]
    heights = [max(map(_height, row)) for row in rows]
    with rc_context(STYLE):
        figure = figure_type(
            figsize=(PANEL_INCHES[0] * columns, sum(heights)), layout="constrained"
        )
        grid = figure.subplots(
            len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights}
        ).ravel()
        labels = [
            _draw_raster(axes, one) if isinstance(one, Raster) else _draw_panel(axes, one)
            for axes, one in zip(grid, drawings, strict=False)
        ]
        for spare in grid[len(drawings) :]:
            spare.remove()
        figure.draw_without_rendering()  # settles the layout, so that heights in pixels are known
        figure.set_layout_engine("none")
        for names in labels:
            _spread(names)
    return figure


def smoothing_window(values: int) -> int:
    """Over how many of its values a line's running mean goes."""
    return max(1, min(3, values // 2), values // 10)


def running_means(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those before it, `window` in all; NaN is left out."""
    return [mean for mean, _ in _running(values, window)]


def save_png(figure: Any, path: Path) -> Path:
    """Write the figure to `path`, at 160 dots per inch. Raises RunFolderError where the system
    refuses."""
    try:
        with whole_file(path, "wb") as file:
            figure.savefig(file, format="png", dpi=160)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


def to_svg(figure: Any, name: str, description: str) -> str:
    """The figure as an <svg> element whose ids all start with `name`, for a page with several.

    It refers to nothing outside itself; `description` is what a screen reader says.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="svg", transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A <style> inside would hold for the whole page; the page's own sheet has these two lines.
    svg = re.sub(r"<style .*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)


def _figure_type() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlotsError(
            'matplotlib, which draws plots and reports, is missing: pip install "core-srl[plots]"'
        ) from error
    return Figure  # used without pyplot: no window, no global state, the Agg canvas


def _height(drawing: Panel | Raster) -> float:
    """In inches."""
    return 0.85 + ROW_INCHES * len(drawing.rows) if isinstance(drawing, Raster) else PANEL_INCHES[1]


def _draw_raster(axes: Any, raster: Raster) -> list[Any]:
    rounds = raster.rounds
    first, last = (min(rounds), max(rounds)) if rounds else (0, 0)
    for place, row in enumerate(raster.rows):
        axes.broken_barh([(first - 0.5, last - first + 1)], (place - 0.36, 0.72), facecolors=FAINT)
        axes.broken_barh(
            [(start - 0.5, length) for start, length in _stretches(row.rounds)],
            (place - 0.36, 0.72),
            facecolors=_colour(place),
            edgecolor="white",
            linewidth=0.4 if len(rounds) <= 120 else 0,
        )
    axes.set_yticks(range(len(raster.rows)), [row.label for row in raster.rows], color=INK)
    axes.set(xlim=(first - 0.5, last + 0.5), ylim=(len(raster.rows) - 0.5, -0.5))
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    _label(axes, raster.title, "round")
    return []


def _draw_panel(axes: Any, panel: Panel) -> list[Any]:
    from matplotlib.ticker import PercentFormatter

    names = []
    for place, line in enumerate(panel.lines):
        colour, dash = _colour(place), DASHES[place // len(PALETTE) % len(DASHES)]
        given = line.low is not None and line.high is not None
        window = smoothing_window(len(line.y)) if panel.smooth and not given else 1
        running = _running(line.y, window)
        middle = [mean for mean, _ in running]
        if len(line.y) <= _FEW and not given:
            faint = 0.35 if window > 1 else 1.0
            axes.plot(
                line.x, line.y, color=colour, linestyle="", marker="o", markersize=2.5, alpha=faint,
                markeredgewidth=0,
            )  # fmt: skip
        axes.plot(line.x, middle, color=colour, linestyle=dash, linewidth=1.6)
        if given or window > 1:
            below = line.low if given else [mean - spread for mean, spread in running]
            above = line.high if given else [mean + spread for mean, spread in running]
            axes.fill_between(line.x, below, above, color=colour, alpha=0.12, linewidth=0)
        finite = [value for value in middle if math.isfinite(value)]
        if finite:
            names.append(_name(axes, panel, line.label, finite[-1], colour))
    for label, height in panel.guides:
        axes.axhline(height, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        names.append(_name(axes, panel, label, height, QUIET))
    axes.margins(x=0.02)
    if panel.percent:
        known = [value for line in panel.lines for value in line.y if math.isfinite(value)]
        low, high = min(known, default=0.0), max(known, default=1.0)
        beside = max(0.05, 0.1 * (high - low))
        axes.set_ylim(max(-0.02, low - beside), min(1.02, high + beside))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _label(axes, panel.title, panel.across)
    return names


def _label(axes: Any, title: str, across: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title)
    axes.set_xlabel(across)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, steps=[1, 2, 5, 10]))


def in_figures(value: float, *, percent: bool) -> str:
    """A value as a line's name gives it."""
    return f"{100 * value:.1f} %" if percent else f"{value:.4g}"


def _name(axes: Any, panel: Panel, label: str, value: float, colour: str) -> Any:
    return axes.annotate(
        f"{label} {in_figures(value, percent=panel.percent)}", (1.0, value),
        xycoords=("axes fraction", "data"), xytext=(5, 0), textcoords="offset points",
        color=colour, va="center", fontsize=8, annotation_clip=False,
    )  # fmt: skip


def _spread(names: Sequence[Any]) -> None:
    """Moves names up and down until none covers another, near to their lines."""
    if not names:
        return
    axes = names[0].axes
    points = 72 / axes.figure.dpi
    bottom, top = axes.bbox.y0 * points, axes.bbox.y1 * points
    size = min(8.0, (top - bottom) / len(names) / 1.15)
    wanted = [axes.transData.transform((0, name.xy[1]))[1] * points for name in names]
    order = sorted(range(len(names)), key=lambda i: (round(wanted[i]), -i))  # ties: first on top
    heights = _apart([wanted[i] for i in order], 1.15 * size, bottom, top)
    for index, height in zip(order, heights, strict=True):
        names[index].set_fontsize(size)
        names[index].xyann = (5, height - wanted[index])


def _apart(wanted: Sequence[float], gap: float, bottom: float, top: float) -> list[float]:
    """Ascending heights at least `gap` apart and near the ascending `wanted`, within bounds."""
    heights: list[float] = []
    for want in wanted:
        heights.append(max(want, heights[-1] + gap if heights else bottom))
    ceiling = top
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], ceiling)
        ceiling = heights[index] - gap
    return heights


def _running(values: Sequence[float], window: int) -> list[tuple[float, float]]:
    """(mean, standard deviation) of each value and those before it, `window` in all."""
    found = []
    for end in range(1, len(values) + 1):
        known = [value for value in values[max(0, end - window) : end] if math.isfinite(value)]
        mean = sum(known) / len(known) if known else math.nan
        spread = sum((value - mean) ** 2 for value in known) / max(1, len(known))
        found.append((mean, math.sqrt(spread)))
    return found


def _stretches(rounds: Sequence[int]) -> list[tuple[int, int]]:
    """(start, length) of each run of consecutive rounds; single ones where there are few enough."""
    if len(rounds) <= 120:
        return [(number, 1) for number in rounds]
    found: list[tuple[int, int]] = []
    for number in rounds:
        if found and sum(found[-1]) == number:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


def _colour(place: int) -> str:
    return PALETTE[place % len(PALETTE)]
