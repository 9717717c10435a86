"""The benchmark's results as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.records import table


def setting_tables(results: Sequence[Mapping[str, Any]]) -> str:
    """Every setting's cross-play; where there are several also the summaries over all."""
    parts = [matrix_table(result) for result in results]
    parts.append("With their own kind:\n\n" + self_play_table(results))
    if len(results) > 1:
        parts.append("OUR's share of the best possible:\n\n" + response_table(results))
        parts.append(check_summary(results))
    return "\n\n".join(parts)


def matrix_table(result: Mapping[str, Any]) -> str:
    """One setting: who earns what with whom, in Markdown."""
    params, cells = result["params"], result["cross_play"]
    names = list(cells)
    rows = [[name, *(f"{cells[name][other]['avg']:.4f}" for other in names)] for name in names]
    best = ["best possible", *(f"{result['references'][name]:.4f}" for name in names)]
    shares = ["OUR / best", *(_share_of_best(result, name) for name in names)]
    heading = (
        f"cooperation level {params['coop_level']:g}, difficulty {params['difficulty']:g}: "
        f"oracle {result['oracle']:.4f}, PG_TUNED has lr {result['tuning']['rate']:g}\n"
        "mean reward per round of the row's player with the column's, over all episodes\n\n"
    )
    return heading + table(["", *names], [*rows, best, shares])


def self_play_table(results: Sequence[Mapping[str, Any]]) -> str:
    """All settings: every player with its own kind, in Markdown."""
    names = list(results[0]["metrics"])
    rows = []
    for result in results:
        row = [_setting(result), f"{result['oracle']:.4f}"]
        row += [f"{_mean(result['metrics'][name]):.4f}" for name in names]
        own = result["self_play"]["OUR"]
        row += [f"{own['worst'] - result['oracle']:+.4f}", f"{result['tuning']['rate']:g}"]
        rows.append(row)
    return table(["c / d", "oracle", *names, "OUR's worst - oracle", "tuned lr"], rows)


def response_table(results: Sequence[Mapping[str, Any]]) -> str:
    """All settings: OUR's share of what could be earned with each partner, in Markdown."""
    names = [name for name in results[0]["references"] if name != "OUR"]
    rows = [
        [_setting(result), *(_share_of_best(result, name) for name in names)] for result in results
    ]
    return table(["c / d", *names], rows)


def check_summary(results: Sequence[Mapping[str, Any]]) -> str:
    """How many checks held, and every one that did not."""
    found = [(_setting(result), check) for result in results for check in result["checks"]]
    missed = [
        f"NOT HELD at {setting}: {check['claim']} ({check['seen']})"
        for setting, check in found
        if not check["held"]
    ]
    return "\n".join([*missed, f"{len(found) - len(missed)} of {len(found)} checks held"])


def ablation_table(
    results: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> str:
    """What each version earns as a share of the best possible, in Markdown."""
    partners = list(next(iter(results.values())))
    rows = []
    for version, found in results.items():
        own = found["itself"]
        cells = [f"{found[name]['mean']:.4f} ({found[name]['lowest']:.4f})" for name in partners]
        rows.append([version, *cells, f"{own['worst_run']:.4f}", f"{own['locked']:.0f}"])
    heading = ["", *partners, "itself: worst run", "itself: runs in the worse agreement"]
    return "share of the best possible: mean over the settings (lowest setting)\n\n" + table(
        heading, rows
    )


def _share_of_best(result: Mapping[str, Any], partner: str) -> str:
    return f"{result['cross_play']['OUR'][partner]['avg'] / result['references'][partner]:.4f}"


def _setting(result: Mapping[str, Any]) -> str:
    return f"{result['params']['coop_level']:g} / {result['params']['difficulty']:g}"


def _mean(metrics: Mapping[str, float]) -> float:
    return (metrics["avg_A"] + metrics["avg_B"]) / 2
