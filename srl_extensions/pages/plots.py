"""Figures as PNG files, by matplotlib (the extra `plots`), for documents and slides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srl_agents.atomic_files import whole_file
from srl_envs.loading.extras import needed_by
from srl_train.metrics.document import InteractionGraph, Panel, Raster, running_means
from srl_train.metrics.errors import PlotsError, RunFolderError

PALETTE = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5539", "#4D4D4D",
)  # fmt: skip
"""Okabe and Ito's colours (2008), which stay apart for colour-blind readers."""
DASHES = ("-", "--", ":")
"""The palette's second and third time round are dashed and dotted."""
LABEL = 24
"""Characters of a player's name beside its place."""
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


def save_png(
    drawings: Sequence[Panel | Raster | InteractionGraph], path: Path, columns: int = 2
) -> Path:
    """Write the drawings side by side, `columns` of them per row, at 160 dots per inch; of an
    interaction graph the last period.

    Raises PlotsError without matplotlib, RunFolderError where the system refuses.
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
            elif isinstance(one, InteractionGraph):
                _draw_graph(axes, one)
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


def _draw_graph(axes: Any, graph: InteractionGraph) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch

    count = len(graph.players)
    angles = [math.pi / 2 - 2 * math.pi * number / count for number in range(count)]
    at = [(math.cos(angle), math.sin(angle)) for angle in angles]
    values = [abs(one.value) for period in graph.periods for one in period.arrows]
    most = max((value for value in values if math.isfinite(value)), default=0.0) or 1.0
    last = graph.periods[-1]
    for one in sorted(last.arrows, key=lambda arrow: abs(arrow.value)):
        if not math.isfinite(one.value) or one.value == 0.0:
            continue
        look: dict[str, Any] = {
            "color": PALETTE[0] if one.value > 0.0 else PALETTE[1],
            "linewidth": 0.6 + 3.0 * abs(one.value) / most,
            "linestyle": "-" if one.sure else (0, (3, 2)),
            "alpha": 0.9 if one.sure else 0.3,
        }
        if one.source == one.target:
            x, y = at[one.source]
            axes.add_patch(Circle((1.22 * x, 1.22 * y), 0.16, fill=False, **look))
            continue
        axes.add_patch(
            FancyArrowPatch(
                at[one.source],
                at[one.target],
                arrowstyle="-|>" if graph.directed else "-",
                connectionstyle=f"arc3,rad={-0.16 if graph.directed else 0.0}",
                mutation_scale=9,
                shrinkA=7,
                shrinkB=8,
                **look,
            )
        )
    for (x, y), name in zip(at, graph.players, strict=True):
        axes.plot([x], [y], "o", markersize=9, color="white", markeredgecolor="#6b7280", zorder=3)
        side = "center" if abs(x) < 0.3 else ("left" if x > 0 else "right")
        axes.text(1.14 * x, 1.2 * y, name[:LABEL], ha=side, va="center", fontsize=7)
    axes.set(title=f"{graph.title}\n{last.label}", xlim=(-2.1, 2.1), ylim=(-1.5, 1.5))
    axes.set_aspect("equal")
    axes.set_axis_off()
