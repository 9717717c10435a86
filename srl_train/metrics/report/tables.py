"""Tables of a report: results per model, wins, and sizes of weight updates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from srl_train.metrics.report.document import Table, number, share, table
from srl_train.metrics.report.headline import edges, mean
from srl_train.metrics.run_folder import Run, number_at


def performance(run: Run) -> Table:
    """One row per model: rewards, cooperation, parse failures."""
    last = run.rows[-1]["models"] if run.rows else {}

    def edge(key: str, end: int) -> Callable[[str], float]:
        return lambda model: edges(run.series("models", model, key))[end]

    def evaluated(when: str) -> Callable[[str], float]:
        return lambda model: number_at(run.summary, "evaluation", when, "per_model", model)

    return _rows_of(
        "model",
        run.models,
        {
            "agents, last round": lambda m: ", ".join(last.get(m, {}).get("seats") or ()),
            "raw reward, start": edge("raw_reward", 0),
            "end": edge("raw_reward", 1),
            "evaluated before": evaluated("before"),
            "after": evaluated("after"),
            "cooperation, end": lambda m: share(edge("cooperation_rate", 1)(m)),
            "parse failures, end": lambda m: share(edge("parse_failures", 1)(m)),
        },
    )


def stages(run: Run) -> Table:
    """One row per stage and model: passes, games, samples, losses."""
    told = run.summary.get("stages")
    known = [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []
    reports = {str(one.get("stage")): one for one in known}
    rows = []
    for stage, passes in run.stages.items():
        of_stage = [
            number(number_at(reports.get(stage), key), digits)
            for key, digits in (("games", 8), ("games_reward", 4), ("kept_reward", 4))
        ]
        for model in run.models:
            first, last = (row["models"].get(model, {}) for row in (passes[0], passes[-1]))
            sizes = [number(number_at(last, key), 8) for key in ("samples", "tokens")]
            losses = [number(number_at(row, "loss")) for row in (first, last)]
            rows.append((stage.upper(), model, len(passes), *of_stage, *sizes, *losses))
    headers = (
        "stage", "model", "passes", "games", "reward in them", "in what was kept",
        "samples a pass", "tokens a pass", "loss, first pass", "last",
    )  # fmt: skip
    return table(headers, rows)


def evaluations(run: Run) -> Table | None:
    """One row per evaluation, in the order in which they were made."""
    found = run.summary.get("evaluation")
    if not isinstance(found, Mapping) or not found:
        return None
    order = ["before", *(f"after_{stage}" for stage in run.stages), "after"]

    def of(key: str) -> Callable[[str], float]:
        return lambda name: number_at(found, name.replace(" ", "_"), key)

    return _rows_of(
        "evaluated",
        [name.replace("_", " ") for name in order if name in found],
        {
            "raw reward": of("raw_reward"),
            "standard error": lambda name: number(of("standard_error")(name), 2),
            "success": lambda name: share(of("success")(name)),
            "cooperation": lambda name: share(of("cooperation_rate")(name)),
            "parse failures": lambda name: share(of("parse_failures")(name)),
            "games": lambda name: number(of("episodes")(name), 8),
        },
    )


def environments(run: Run) -> Table | None:
    """One row per environment of a run with several: what was evaluated before and after."""
    labels = sorted({label for row in run.rows for label in row.get("by_environment") or ()})

    def of(when: str, key: str) -> Callable[[str], float]:
        path = ("evaluation", when, "by_environment")
        return lambda label: number_at(run.summary, *path, label, key)

    columns: dict[str, Callable[[str], str | float]] = {
        "training episodes": lambda label: number(
            run.total("by_environment", label, "episodes"), 8
        ),
        "return, evaluated before": of("before", "raw_return"),
        "return, after": of("after", "raw_return"),
        "success, evaluated before": lambda label: share(of("before", "success")(label)),
        "success, after": lambda label: share(of("after", "success")(label)),
        "parse failures, after": lambda label: share(of("after", "parse_failures")(label)),
    }
    return _rows_of("environment", labels, columns) if labels else None


def winners(run: Run) -> Table | None:
    """Who won how many games; None for an environment without winners."""
    tenth = max(1, len(run.rows) // 10)
    parts = {"first tenth": run.rows[:tenth], "last tenth": run.rows[-tenth:], "all": run.rows}
    counts = {part: won(rows) for part, rows in parts.items()}
    names = sorted(counts["all"])
    rows = [
        (part, *(f"{count[name]} ({share(count[name] / count.total())})" for name in names))
        for part, count in counts.items()
        if count.total()
    ]
    return table(["rounds", *names], rows) if names else None


def won(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Winner -> games, over the rows."""
    count: Counter[str] = Counter()
    for row in rows:
        count.update(row["environment"].get("winners") or {})
    return count


def failed_episodes(run: Run) -> Table | None:
    """The rounds in which episodes failed; None where none did."""
    rows = [
        (row["round"], played["failed_episodes"], played.get("episodes", ""))
        for row in run.rows
        if (played := row["environment"]).get("failed_episodes")
    ]
    return table(["round", "failed", "of"], rows) if rows else None


def updates(run: Run) -> Table:
    """One row per model: updates, samples, weight change and staleness over the whole run, and the
    bytes exchanged with others where they are counted."""

    def moved(model: str) -> list[float]:
        return [change for change in run.series("models", model, "weight_change") if change > 0]

    def stale(model: str, key: str) -> list[float]:
        return [age for age in run.series("models", model, "staleness", key) if math.isfinite(age)]

    def last(key: str) -> Callable[[str], str]:
        return lambda model: number(run.series("models", model, key)[-1], 8)

    def megabytes(key: str) -> Callable[[str], str]:
        return lambda model: number(run.total("models", model, key) / 1e6, 6)

    exchanged = {"MB sent": megabytes("bytes_sent"), "received": megabytes("bytes_received")}
    counted = any("communicated_bytes" in row for row in run.rows)
    return _rows_of(
        "model",
        run.models,
        {
            "rounds updated": lambda m: str(sum(_updated(row, m) for row in run.rows)),
            "updates": last("updates"),
            "samples": lambda m: number(run.total("models", m, "samples"), 8),
            "weight change, sum": lambda m: math.fsum(moved(m)),
            "mean": lambda m: mean(moved(m)),
            "last": lambda m: (moved(m) or [math.nan])[-1],
            "staleness, mean": lambda m: mean(stale(m, "mean")),
            "most": lambda m: max(stale(m, "max"), default=math.nan),
            "samples dropped as stale": last("samples_dropped_stale"),
            **(exchanged if counted else {}),
        },
    )


def weight_changes(run: Run) -> Table:
    """One row per round: every model's weight change, empty where it was not updated."""

    def change(row: Mapping[str, Any], model: str) -> str:
        moved = number_at(row, "models", model, "weight_change")
        return number(moved) if _updated(row, model) else ""

    rows = [(row["round"], *(change(row, model) for model in run.models)) for row in run.rows]
    return table(["round", *run.models], rows)


def copies(run: Run) -> Table | None:
    """One row per model that went on from another, with its settings then; None where none did."""
    rows = [
        (
            row["round"],
            model,
            own["copied_from"],
            ", ".join(f"{name} {number(value)}" for name, value in own["settings"].items()),
        )
        for row in run.rows
        for model, own in row["models"].items()
        if own.get("copied_from")
    ]
    return table(["round", "model", "went on from", "settings after it"], rows) if rows else None


def idle_updates(run: Run) -> list[str]:
    """'model in round k' for every update that is counted although no weight changed."""
    return [
        f"{model} in round {row['round']}"
        for row in run.rows
        for model in row["models"]
        if _updated(row, model) and number_at(row, "models", model, "weight_change") == 0
    ]


def _rows_of(
    kind: str, names: Sequence[str], columns: Mapping[str, Callable[[str], str | float]]
) -> Table:
    """One row per name; what a column gives as a number is written with four digits."""
    rows = []
    for name in names:
        cells = [of(name) for of in columns.values()]
        rows.append((name, *(cell if isinstance(cell, str) else number(cell) for cell in cells)))
    return table([kind, *columns], rows)


def _updated(row: Mapping[str, Any], model: str) -> bool:
    return bool(row["models"].get(model, {}).get("updated"))
