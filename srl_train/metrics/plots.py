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

from srl_train.metrics.errors import PlotsError, RunFolderError

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5539", "#4D4D4D",
)  # fmt: skip
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)))
"""The palette's second and third time round are dashed and dotted."""
INK, QUIET, FAINT = "#22272e", "#6b7280", "#e5e7eb"
STYLE = {
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
PANEL_INCHES = (5.35, 3.0)
SMOOTHING = 15
"""A thick line is the running mean over the number of values divided by this."""
ROW_INCHES = 0.26
"""Height of one model's row in a raster."""


@dataclass(frozen=True)
class Line:
    """One curve; y may hold NaN where nothing was measured."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


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
    """Draw the running mean thick and the values thin, where there are enough values."""


@dataclass(frozen=True)
class RasterRow:
    """One model's row in a raster: the rounds in which something happened."""

    label: str
    rounds: Sequence[int]


def curves(panels: Sequence[Panel], columns: int = 2) -> Any:
    """A figure with the panels side by side, `columns` of them per row."""
    figure_type = _figure_type()
    from matplotlib import rc_context

    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with rc_context(STYLE):
        width, height = PANEL_INCHES
        figure = figure_type(figsize=(width * columns, height * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        labels = [_draw(axes, panel) for axes, panel in zip(grid, panels, strict=False)]
        for spare in grid[len(panels) :]:
            spare.remove()
        figure.draw_without_rendering()  # settles the layout, so that heights in pixels are known
        figure.set_layout_engine("none")
        for names in labels:
            _spread(names)
    return figure


def smoothing_window(values: int) -> int:
    """Over how many of its values a line's running mean goes."""
    return max(1, values // SMOOTHING)


def raster(rows: Sequence[RasterRow], rounds: Sequence[int], title: str) -> Any:
    """A figure with one row of blocks per model, filled in the rounds of its `RasterRow`."""
    figure_type = _figure_type()
    from matplotlib import rc_context
    from matplotlib.ticker import MaxNLocator

    with rc_context(STYLE | {"axes.grid": False}):
        figure = figure_type(
            figsize=(2 * PANEL_INCHES[0], 0.85 + ROW_INCHES * len(rows)), layout="constrained"
        )
        axes = figure.subplots()
        first, last = (min(rounds), max(rounds)) if rounds else (0, 0)
        for place, row in enumerate(rows):
            axes.broken_barh(
                [(first - 0.5, last - first + 1)], (place - 0.36, 0.72), facecolors=FAINT
            )
            axes.broken_barh(
                [(start - 0.5, length) for start, length in _stretches(row.rounds)],
                (place - 0.36, 0.72),
                facecolors=_colour(place),
                edgecolor="white",
                linewidth=0.4 if len(rounds) <= 120 else 0,
            )
        axes.set_yticks(range(len(rows)), [row.label for row in rows], color=INK)
        axes.set(xlim=(first - 0.5, last + 0.5), ylim=(len(rows) - 0.5, -0.5), xlabel="round")
        axes.set_title(title)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=12, integer=True, steps=[1, 2, 5, 10]))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
    return figure


def save_png(figure: Any, path: Path) -> Path:
    """Write the figure to `path`, at 160 dots per inch. Raises RunFolderError where the system
    refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160)
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


def _draw(axes: Any, panel: Panel) -> list[Any]:
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    names = []
    for place, line in enumerate(panel.lines):
        colour, dash = _colour(place), DASHES[place // len(PALETTE) % len(DASHES)]
        window = smoothing_window(len(line.y)) if panel.smooth else 1
        marker = "o" if len(line.y) <= 12 else None
        axes.plot(
            line.x, _running_mean(line.y, window), color=colour, linestyle=dash, marker=marker,
            markersize=3, linewidth=1.6,
        )  # fmt: skip
        if window > 1:
            axes.plot(line.x, line.y, color=colour, linewidth=0.7, alpha=0.3)
        finite = [value for value in _running_mean(line.y, window) if math.isfinite(value)]
        if finite:
            names.append(_name(axes, panel, line.label, finite[-1], colour))
    for label, height in panel.guides:
        axes.axhline(height, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        names.append(_name(axes, panel, label, height, QUIET))
    axes.set_title(panel.title)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
    axes.margins(x=0.02)
    if panel.percent:
        highest = max((value for line in panel.lines for value in line.y if value > 0), default=0)
        top = min(1.0, max(0.1, 1.15 * highest))
        axes.set_ylim(-0.03 * top, 1.03 * top)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return names


def _name(axes: Any, panel: Panel, label: str, value: float, colour: str) -> Any:
    number = f"{100 * value:.1f} %" if panel.percent else f"{value:.4g}"
    return axes.annotate(
        f"{label} {number}", (1.0, value), xycoords=("axes fraction", "data"),
        xytext=(5, 0), textcoords="offset points", color=colour, va="center", fontsize=8,
        annotation_clip=False,
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


def _running_mean(values: Sequence[float], window: int) -> list[float]:
    means = []
    for end in range(1, len(values) + 1):
        known = [value for value in values[max(0, end - window) : end] if math.isfinite(value)]
        means.append(sum(known) / len(known) if known else math.nan)
    return means


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
