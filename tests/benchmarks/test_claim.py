"""Checks and tables of a claim, the command, and the claims' files."""

import json
import pkgutil

import pytest

from benchmarks import claim as claims
from benchmarks import records, training
from benchmarks.claim import Claim, Request, Result, Table, Target
from benchmarks.records import Estimate
from srl_train.config import yaml_file
from srl_train.errors import ConfigError


def target(**more):
    return Target(**{"claim": "it is so", "value": "x", "relation": ">", "bound": 1.0, **more})


def held(one, *values):
    return [check.held for check in one.checks([{"x": value} for value in values])]


@pytest.mark.parametrize(
    ("relation", "just", "missed"),
    [(">=", 1.0, 0.9), (">", 1.1, 1.0), ("<=", 1.0, 1.1), ("<", 0.9, 1.0), ("==", 1.0, 2.0)],
)
def test_target_applies_to_every_run(relation, just, missed):
    one = target(relation=relation)
    assert held(one, just, just) == [True]
    assert held(one, just, missed) == held(one, float("nan")) == [False]


def test_one_check_is_made_for_each_text_of_the_selected_rows():
    one = target(
        claim="{who} wins", value="after[won].mean", bound=0.5, form="{:.0%}",
        where={"kind": "full"},
    )  # fmt: skip
    rows = [
        {"who": who, "kind": kind, "after": {"won": Estimate(share, 0.1)}}
        for who, kind, share in [
            ("a", "full", 0.6), ("b", "full", 0.4), ("a", "full", 0.9), ("a", "LoRA", 0.1),
        ]
    ]  # fmt: skip
    assert list(map(str, one.checks(rows))) == [
        "held: a wins (60% to 90%, 2 runs)",
        "NOT HELD: b wins (40%)",
    ]
    with pytest.raises(ValueError, match="no run to judge"):
        one.checks([{"kind": "LoRA"}])


@pytest.mark.parametrize(("values", "equal"), [((0.01, -0.01), True), ((0.05, -0.01), False)])
def test_equivalence_is_tested_over_the_seeds(values, equal):
    one = target(value="x.equal_within", relation="<=", bound=0.1, over_seeds=["who"])
    [check] = one.checks([{"who": "a", "x": value} for value in values])
    assert check.held == equal


ROWS = [
    {"name": "a", "seed": 0, "x": 1.0, "y": None},
    {"name": "a", "seed": 1, "x": 3.0, "y": 1},
    {"name": "b", "seed": 0, "x": 5.0},
]


def test_seeds_are_merged_into_means_and_ranges():
    merged = Table(columns={"": "{name}", "x": "{x:.1f}"}, over_seeds=["name"])
    assert merged.markdown(ROWS).splitlines()[2:] == ["| a | 2.0 (1.0 to 3.0) |", "| b | 5.0 |"]
    only = Table(columns={"": "{x:.0f}"}, where={"name": "b"})
    assert only.markdown(ROWS).splitlines()[2:] == ["| 5 |"]


@pytest.mark.parametrize("name", claims.names())
def test_every_claim_is_valid_and_names_a_measurement(name):
    claim = claims.load(name)
    if name == "zero_sum":
        pytest.importorskip("pyspiel")
    assert callable(pkgutil.resolve_name(f"benchmarks.{claim.measure}"))
    request = Request(claim, (0,), records.ROOT)
    if name not in ("offline", "zero_sum"):
        for method in claim.methods:  # Each method's settings fit the configuration.
            request.config({**request.settings(method), "seed": 0})
    record = json.loads((records.ROOT / "benchmarks/results" / f"{name}.json").read_text())
    assert record["command"].startswith(f"python -m benchmarks.training {name}")
    assert [one["columns"] for one in record["tables"]] == [[*t.columns] for t in claim.tables]


@pytest.mark.parametrize("example", ["maze", "math", "tool_use"])
def test_training_problems_are_those_of_the_training_split(example):
    options = yaml_file.load(records.CONFIGS / f"{example}.yaml").environment.options
    assert "split" not in options and "level_seed" not in options


@pytest.fixture
def own_claim(monkeypatch):
    """A claim that measures only its request."""
    requests = []

    def measure(request):
        requests.append(request)
        if request.overrides.get("rounds") == 0:
            raise ConfigError("rounds: at least 1")
        x = request.overrides.get("x", 1.0)
        rows = [{"seed": seed, "x": x} for seed in request.seeds]
        return Result(rows, [{"x": -1.0}], {"what": "apples"})

    claim = Claim(
        title="x is positive", measure="learning.maze", tables=[{"columns": {"x": "{x:.1f}"}}],
        checks=[target(claim="x is positive", bound=0.0)], seeds=[0, 1], games=9,
        legend="{games} {what}, seeds {seeds}.",
    )  # fmt: skip
    monkeypatch.setattr(claims, "load", lambda name: claim)
    monkeypatch.setattr(training, "measure", measure)
    monkeypatch.setattr(records, "commit", lambda: "0123abc")
    return requests


def test_claim_is_measured_printed_and_recorded(own_claim, tmp_path, capsys):
    docs, kept = (tmp_path / name for name in ("results.md", "x.json"))
    words = ["maze", "--set", "algorithm.clip_range=0.1"]
    words += ["--markdown", str(docs), "--json", str(kept)]
    assert training.main(words) == 0
    [request] = own_claim
    assert request.seeds == [0, 1] and request.games == 9
    assert request.overrides == {"algorithm.clip_range": 0.1}
    printed = capsys.readouterr().out
    assert "| -1.0 |" in printed and "9 apples, seeds 0, 1." in printed
    text = docs.read_text()
    assert "at commit 0123abc" in text and "- held: x is pos" in text
    record = json.loads(kept.read_text())
    assert record["commit"] == "0123abc" and record["seeds"] == [0, 1]
    rows = [["1.0"], ["1.0"], ["-1.0"]]
    assert record["tables"] == [{"title": "", "columns": ["x"], "rows": rows}]
    assert record["legend"] == "9 apples, seeds 0, 1." and record["checks"][0].startswith("held")


def test_missed_target_sets_the_exit_code(own_claim, capsys):
    assert training.main(["maze", "--seeds", "3", "--games", "2", "--set", "x=-1.0"]) == 1
    assert own_claim[0].seeds == [3] and own_claim[0].games == 2
    assert "NOT HELD: x is positive (-1.0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "invalid choice: 'nothing'"),
        (["maze", "--set", "rounds"], "--set 'rounds'"),
        (["maze", "--set", "rounds=0"], "rounds: at least 1"),
    ],
)
def test_invalid_arguments_give_one_line_errors(words, message, own_claim, capsys):
    with pytest.raises(SystemExit) as end:
        training.main(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
