"""Measured results as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from srl_envs.loading import needed_by


def require_plots(what: str) -> None:
    """Raise SystemExit, saying what to install, where no figure could be drawn."""
    with needed_by(what, SystemExit):
        _new_figure(1, 1)


def _new_figure(width: float, height: float) -> Any:
    import matplotlib.figure  # without pyplot: no window, no global state

    return matplotlib.figure.Figure((width, height), layout="constrained")


def draw(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Self-play learning curves of every setting; of a single one also who earns what (PNG)."""
    columns = min(len(results) + (len(results) == 1), 5)
    rows = -(-len(results) // columns)
    figure = _new_figure(max(13, 4 * columns), 5 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for place, result in zip(axes.flat, results, strict=False):
        _draw_learning(place, result)
    if len(results) == 1:
        _draw_grid(axes.flat[1], results[0])
    figure.savefig(path, dpi=70)


def draw_intervals(
    panels: Mapping[str, Mapping[str, tuple[float, float, float]]], path: Path
) -> None:
    """Side by side, one point with its interval (value, low, high) per label (PNG)."""
    figure = _new_figure(2.2 + 2 * len(panels), 1 + max(map(len, panels.values())) / 4)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)
    for place, (title, labels) in zip(axes.flat, panels.items(), strict=True):
        for label, (value, low, high) in labels.items():
            place.plot([low, high], [label, label], color="tab:blue")
            place.plot([value], [label], "o", color="tab:blue")
        place.set_title(title)
        place.grid(axis="x", alpha=0.3)
    axes.flat[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw_learning(axes: Any, result: Mapping[str, Any]) -> None:
    for name, curve in result["curves"].items():
        axes.plot(curve, label=name, linewidth=1)
    axes.axhline(result["oracle"], color="black", linestyle=":", label="oracle")
    params = result["params"]
    axes.set_title(
        f"self-play, c = {params['coop_level']:g}, d = {params['difficulty']:g}, "
        f"{params['runs']} runs"
    )
    axes.set_xlabel("episode")
    axes.set_ylabel("mean reward per round")
    axes.legend()


def _draw_grid(axes: Any, result: Mapping[str, Any]) -> None:
    names = list(result["cross_play"])
    values = [[result["cross_play"][row][column]["avg"] for column in names] for row in names]
    image = axes.imshow(values, cmap="viridis")
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right")
    axes.set_yticks(range(len(names)), names)
    middle = (image.norm.vmin + image.norm.vmax) / 2
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            colour = "white" if value < middle else "black"
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_title("mean reward per round: row's player with column's")
