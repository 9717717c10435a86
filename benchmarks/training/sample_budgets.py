"""The asynchronous strategy at different paces: who updates when, on how old samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.training.observed_run import ObservedRound, observe
from benchmarks.training.records import Check, table
from srl_train.config import yaml_file

SLOW = "model_3"
TIMES = 10
QUICK = "model_0"
MAX_STALENESS = 2
QUICK_GROUPS = 4


def measure(setting: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Three runs of an asynchronous `setting`, `rounds` rounds each, and what they show."""
    size, groups = setting["rollout.group_size"], setting["rollout.groups_per_round"]
    slow = {"updates.sample_budget": {SLOW: TIMES * size * groups}}
    quick = {
        "rollout.groups_per_round": QUICK_GROUPS,
        "updates.sample_budget": {QUICK: size},
        "updates.max_staleness": MAX_STALENESS,
    }
    settings: dict[str, dict[str, Any]] = {
        "no budget": {},
        f"{SLOW}: {TIMES} rounds' samples": slow,
        f"{QUICK}: a quarter of a round's, max_staleness {MAX_STALENESS}": quick,
    }
    runs = {
        name: observe(yaml_file.from_tree({}, {**setting, **own, "rounds": rounds}))
        for name, own in settings.items()
    }
    plain, slowed, quickened = runs.values()
    return {
        "rounds": rounds,
        "runs": {name: _summary(found) for name, found in runs.items()},
        "checks": [
            *_paces(plain, slowed, rounds),
            *_ages(plain + slowed + quickened, quickened),
        ],
    }


def markdown(result: Mapping[str, Any]) -> str:
    """One row per run and model."""
    rows = [
        (
            name,
            model,
            found["updates"],
            found["samples"],
            found["dropped"],
            " ".join(f"{age}: {count}" for age, count in found["staleness"].items()) or "-",
            found["age_max"],
        )
        for name, models in result["runs"].items()
        for model, found in models.items()
    ]
    headers = (
        "sample budget", "model", "updates", "samples trained", "dropped as stale",
        "staleness: samples", "oldest, rounds",
    )  # fmt: skip
    return f"{result['rounds']} rounds each.\n\n{table(headers, rows)}"


def _summary(rounds: Sequence[ObservedRound]) -> dict[str, dict[str, Any]]:
    last = rounds[-1].row["models"]
    summary = {}
    for model in last:
        rows = [observed.row["models"][model] for observed in rounds]
        ages = [age for observed in rounds for age in observed.staleness.get(model, [])]
        summary[model] = {
            "updates": last[model]["updates"],
            "samples": sum(row["samples"] for row in rows),
            "dropped": last[model]["samples_dropped_stale"],
            "staleness": {str(age): ages.count(age) for age in sorted(set(ages))},
            "age_max": max(
                (row["age_rounds"]["max"] for row in rows if row["age_rounds"]), default=0
            ),
        }
    return summary


def _paces(
    plain: Sequence[ObservedRound], slowed: Sequence[ObservedRound], rounds: int
) -> list[Check]:
    before = {m: row["updates"] for m, row in plain[-1].row["models"].items()}
    after = {m: row["updates"] for m, row in slowed[-1].row["models"].items()}
    others = [model for model in before if model != SLOW]
    when = [o.row["round"] for o in slowed if o.row["models"][SLOW]["updated"]]
    due = list(range(TIMES - 1, rounds, TIMES))
    return [
        Check(
            f"{SLOW}'s longer period leaves the others' update counts unchanged",
            all(before[model] == after[model] for model in others),
            ", ".join(f"{model} {before[model]} and {after[model]}" for model in others),
        ),
        Check(
            f"{SLOW} updates exactly when its own budget is full",
            when == due,
            f"in rounds {when}, due in {due}",
        ),
    ]


def _ages(everything: Sequence[ObservedRound], quickened: Sequence[ObservedRound]) -> list[Check]:
    recorded = trained = 0
    for observed in everything:
        for model, row in observed.row["models"].items():
            ages = observed.staleness.get(model, [])
            trained += bool(ages)
            summary = {"mean": sum(ages) / len(ages), "max": max(ages)} if ages else None
            recorded += bool(ages) and row["staleness"] == summary and row["samples"] == len(ages)
    ages = [age for observed in quickened for age in observed.staleness[QUICK]]
    return [
        Check(
            "the recorded staleness is that of the samples handed to the learner",
            recorded == trained > 0,
            f"{recorded} of {trained} times a model trained in a round",
        ),
        Check(
            "staleness above 0 occurs, and none exceeds max_staleness",
            0 < max(ages) <= MAX_STALENESS,
            f"greatest {max(ages)} of {len(ages)} samples, allowed {MAX_STALENESS}",
        ),
    ]
