"""The tables of a report: how each model did, who won, whose weights changed when and how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from srl_train.metrics.report.document import MISSING, Table, number, share, table
from srl_train.metrics.report.headline import edges, mean
from srl_train.metrics.run_folder import Run, number_at


def performance(run: Run) -> Table:
    """One row per model: rewards, cooperation, parse failures."""
    rows = []
    for model in run.models:
        start, end = edges(run.series("models", model, "raw_reward"))
        rows.append(
            (
                model,
                ", ".join(run.rows[-1]["models"].get(model, {}).get("seats") or ())
                if run.rows
                else MISSING,
                number(start),
                number(end),
                number(_evaluated(run, "before", model)),
                number(_evaluated(run, "after", model)),
                share(edges(run.series("models", model, "cooperation_rate"))[1]),
                share(edges(run.series("models", model, "parse_failures"))[1]),
            )
        )
    headers = (
        "model", "agents, last round", "raw reward, start", "end", "evaluated before", "after",
        "cooperation, end", "parse failures, end",
    )  # fmt: skip
    return table(headers, rows)


def stages(run: Run) -> Table:
    """One row per stage and model: passes, games, samples, losses."""
    told = run.summary.get("stages")
    known = [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []
    reports = {str(one.get("stage")): one for one in known}
    rows = []
    for stage, passes in run.stages.items():
        report = reports.get(stage, {})
        for model in run.models:
            losses = [number_at(row, "models", model, "loss") for row in passes]
            rows.append(
                (
                    stage.upper(),
                    model,
                    len(passes),
                    number(number_at(report, "games"), 8),
                    number(number_at(report, "games_reward")),
                    number(number_at(report, "kept_reward")),
                    number(number_at(passes[-1], "models", model, "samples"), 8),
                    number(number_at(passes[-1], "models", model, "tokens"), 8),
                    number(losses[0]),
                    number(losses[-1]),
                )
            )
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
    names = [name for name in order if name in found]
    rows = [
        (
            name.replace("_", " "),
            number(number_at(found, name, "raw_reward")),
            number(number_at(found, name, "standard_error"), 2),
            share(number_at(found, name, "success")),
            share(number_at(found, name, "cooperation_rate")),
            share(number_at(found, name, "parse_failures")),
            number(number_at(found, name, "episodes"), 8),
        )
        for name in names
    ]
    headers = (
        "evaluated", "raw reward", "standard error", "success", "cooperation",
        "parse failures", "games",
    )  # fmt: skip
    return table(headers, rows)


def environments(run: Run) -> Table | None:
    """One row per environment of a run with several: what was evaluated before and after."""
    labels = sorted({label for row in run.rows for label in row.get("by_environment") or ()})
    if not labels:
        return None

    def evaluated(when: str, label: str, key: str) -> float:
        return number_at(run.summary, "evaluation", when, "by_environment", label, key)

    rows = [
        (
            label,
            f"{run.total('by_environment', label, 'episodes'):.0f}",
            number(evaluated("before", label, "raw_return")),
            number(evaluated("after", label, "raw_return")),
            share(evaluated("before", label, "success")),
            share(evaluated("after", label, "success")),
            share(evaluated("after", label, "parse_failures")),
        )
        for label in labels
    ]
    headers = (
        "environment", "training episodes", "return, evaluated before", "after",
        "success, evaluated before", "after", "parse failures, after",
    )  # fmt: skip
    return table(headers, rows)


def winners(run: Run) -> Table | None:
    """Who won how many games; None for an environment without winners."""
    tenth = max(1, len(run.rows) // 10)
    counts = {
        "first tenth": won(run.rows[:tenth]),
        "last tenth": won(run.rows[-tenth:]),
        "all": won(run.rows),
    }
    names = sorted(counts["all"])
    if not names:
        return None
    rows = [
        (part, *(f"{count[name]} ({share(count[name] / count.total())})" for name in names))
        for part, count in counts.items()
        if count.total()
    ]
    return table(["rounds", *names], rows)


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
    """One row per model: updates, samples, weight change and staleness over the whole run."""
    rows = []
    for model in run.models:
        moved = [c for c in run.series("models", model, "weight_change") if c > 0]
        stale = run.series("models", model, "staleness", "max")
        rows.append(
            (
                model,
                sum(_updated(row, model) for row in run.rows),
                number(run.series("models", model, "updates")[-1], 8),
                number(run.total("models", model, "samples"), 8),
                number(math.fsum(moved)),
                number(mean(moved)),
                number(moved[-1] if moved else math.nan),
                number(mean(run.series("models", model, "staleness", "mean"))),
                number(max((s for s in stale if math.isfinite(s)), default=math.nan)),
                number(run.series("models", model, "samples_dropped_stale")[-1], 8),
            )
        )
    headers = (
        "model", "rounds updated", "updates", "samples", "weight change, sum", "mean", "last",
        "staleness, mean", "most", "samples dropped as stale",
    )  # fmt: skip
    return table(headers, rows)


def weight_changes(run: Run) -> Table:
    """One row per round: every model's weight change, empty where it was not updated."""
    rows = [
        (
            row["round"],
            *(
                number(number_at(row, "models", model, "weight_change"))
                if _updated(row, model)
                else ""
                for model in run.models
            ),
        )
        for row in run.rows
    ]
    return table(["round", *run.models], rows)


def idle_updates(run: Run) -> list[str]:
    """'model in round k' for every update that is counted although no weight changed."""
    return [
        f"{model} in round {row['round']}"
        for row in run.rows
        for model in row["models"]
        if _updated(row, model) and number_at(row, "models", model, "weight_change") == 0
    ]


def _updated(row: Mapping[str, Any], model: str) -> bool:
    return bool(row["models"].get(model, {}).get("updated"))


def _evaluated(run: Run, when: str, model: str) -> float:
    return number_at(run.summary, "evaluation", when, "per_model", model)
