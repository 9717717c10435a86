"""Figures as PNG files, by matplotlib (the extra `plots`), for documents and slides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srl_agents.atomic_files import whole_file
from srl_envs.loading import needed_by
from srl_train.metrics.document import Panel, Raster, running_means
from srl_train.metrics.errors import PlotsError, RunFolderError

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5539", "#4D4D4D",
)  # fmt: skip
"""Colors of Okabe and Ito (2008), which color-blind readers can tell apart."""
DASHES = ("-", "--", ":")
"""Line styles of the first, second and third use of the palette."""
STYLE = {
    "text.parse_math": False,  # names are text as it stands, "$" in them too
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
}


def save_png(drawings: Sequence[Panel | Raster], path: Path, columns: int = 2) -> Path:
    """Write the drawings side by side as a PNG file of 160 dots per inch, and return its path.

    Args:
        drawings: Panels and rasters.
        path: File to write.
        columns: Number of drawings in a row.

    Raises:
        PlotsError: If matplotlib is not installed.
        RunFolderError: If the file cannot be written.
    """
    with needed_by("a figure as a PNG file", PlotsError):
        from matplotlib import rc_context
        from matplotlib.figure import Figure  # without pyplot: no window, no global state

    columns = min(columns, len(drawings))
    rows = -(-len(drawings) // columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(4.6 * columns, 2.8 * rows), layout="constrained")
        for place, one in enumerate(drawings, start=1):
            axes = figure.add_subplot(rows, columns, place)
            if isinstance(one, Raster):
                _draw_raster(axes, one)
            else:
                _draw_panel(axes, one)
        try:
            with whole_file(path, "wb") as file:
                figure.savefig(file, format="png", dpi=160)
        except OSError as error:
            raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


def _draw_raster(axes: Any, raster: Raster) -> None:
    for place, (_, rounds) in enumerate(raster.rows):
        blocks = [(number - 0.5, 1) for number in rounds]
        axes.broken_barh(blocks, (place - 0.36, 0.72), facecolors=PALETTE[place % len(PALETTE)])
    axes.set_yticks(range(len(raster.rows)), [label for label, _ in raster.rows])
    axes.set(title=raster.title, xlabel=raster.across, ylim=(len(raster.rows) - 0.5, -0.5))
    axes.set_xlim(min(raster.rounds) - 0.5, max(raster.rounds) + 0.5)
    axes.grid(visible=False)


def _draw_panel(axes: Any, panel: Panel) -> None:
    for place, line in enumerate(panel.lines):
        colour, dash = PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]
        heights = line.y
        if line.low is not None:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.12, linewidth=0)
        elif panel.window > 1:
            axes.plot(line.x, line.y, color=colour, alpha=0.25, linewidth=1)
            heights = running_means(line.y, panel.window)
        axes.plot(line.x, heights, color=colour, linestyle=dash, label=line.label)
    for label, height in panel.guides:
        axes.axhline(height, color="#6b7280", linewidth=1, linestyle="--", zorder=1)
        axes.annotate(label, (1, height), xycoords=("axes fraction", "data"), fontsize=7)
    if panel.percent:
        axes.yaxis.set_major_formatter("{x:.0%}")
    axes.set(title=panel.title, xlabel=panel.across)
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=7, frameon=False)
