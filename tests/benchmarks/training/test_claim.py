"""What a claim makes of its rows: checks, tables, curves."""

import pytest

from benchmarks.repeats import Estimate
from benchmarks.training.claim import Claim, Curves, Intervals, Request, Result, Table, Target
from srl_train.metrics.document import Line


def held(target, *values):
    return [check.held for check in target.checks([{"x": value} for value in values])]


@pytest.mark.parametrize(
    ("relation", "just", "missed"),
    [(">=", 1.0, 0.9), (">", 1.1, 1.0), ("<=", 1.0, 1.1), ("<", 0.9, 1.0), ("==", 1.0, 2.0)],
)
def test_every_run_has_to_meet_it_by_itself(relation, just, missed):
    target = Target("it is so", "x", relation, 1.0)
    assert held(target, just, just) == [True]
    assert held(target, just, missed) == [False]
    assert held(target, float("nan")) == [False]


def test_one_check_is_made_for_each_text_and_only_of_the_rows_it_is_about():
    target = Target("{who} wins", "after[won].mean", ">", 0.5, "{:.0%}", {"kind": "full"})
    rows = [
        {"who": who, "kind": kind, "after": {"won": Estimate(share, 0.1)}}
        for who, kind, share in [
            ("a", "full", 0.6), ("b", "full", 0.4), ("a", "full", 0.9), ("a", "LoRA", 0.1),
        ]
    ]  # fmt: skip
    assert list(map(str, target.checks(rows))) == [
        "held: a wins (60% to 90%, 2 runs)",
        "NOT HELD: b wins (40%)",
    ]


def test_nothing_to_judge_is_no_success():
    with pytest.raises(ValueError, match="no run to judge 'it is so'"):
        Target("it is so", "x", ">", 0.0, where={"kind": "full"}).checks([{"x": 1.0}])


ROWS = [
    {"name": "a", "seed": 0, "x": 1.0, "y": None},
    {"name": "a", "seed": 1, "x": 3.0, "y": 1},
    {"name": "b", "seed": 0, "x": 5.0},
]


def test_a_cell_is_empty_where_there_is_nothing():
    text = Table({"who": "{name}, {seed}", "y": "{y:.1f}"}, "Title").markdown(ROWS)
    assert text.splitlines()[0] == "Title"
    assert text.splitlines()[4:] == ["| a, 0 |  |", "| a, 1 | 1.0 |", "| b, 0 |  |"]


def test_seeds_are_merged_into_means_and_ranges():
    text = Table({"": "{name}", "x": "{x:.1f}"}, over_seeds=("name",)).markdown(ROWS)
    assert text.splitlines()[2:] == ["| a | 2.0 (1.0 to 3.0) |", "| b | 5.0 |"]
    assert Table({"": "{x:.0f}"}, where={"name": "b"}).markdown(ROWS).splitlines()[2:] == ["| 5 |"]


def test_references_are_shown_and_not_judged(tmp_path):
    claim = Claim(
        lambda request: Result([{"x": 2.0}], [{"x": -1.0}], {"what": "apples"}),
        [Table({"x": "{x:.0f}"})],
        [Target("positive", "x", ">", 0.0)],
        "{games} {what}, seeds {seeds}.",
    )
    request = Request((0, 1), tmp_path, 7)
    text = claim.markdown(claim.measure(request), request)
    assert "| -1 |" in text and text.endswith("7 apples, seeds 0, 1.")
    [check] = claim.checks(claim.measure(request))
    assert str(check) == "held: positive (2.0)"


def test_a_curve_is_the_mean_of_the_seeds_where_there_is_a_number():
    rows = [
        {"task": "a", "curve": [1.0, None, None]},
        {"task": "a", "curve": [3.0, 5.0, None]},
        {"task": "b", "curve": [0.0, 0.0, 0.0]},
    ]
    lines = Curves("", by="task").lines(rows)
    assert lines == [Line("a", [0, 1], [2.0, 5.0]), Line("b", [0, 1, 2], [0.0, 0.0, 0.0])]


def test_an_interval_is_drawn_for_each_label_of_each_panel():
    rows = [
        {"game": game, "who": who, "x": x}
        for game, who, x in (("a", "one", 1), ("a", "two", 2), ("b", "one", 3), ("a", "one", 5))
    ]
    figure = Intervals("who", "game", lambda own: tuple(row["x"] for row in own), {})
    assert figure.panels(rows) == {
        "a": {"one": (1, 5), "two": (2,)},
        "b": {"one": (3,)},
    }
    only = Intervals("who", "game", lambda own: own[0]["x"], {"game": "b"})
    assert only.panels(rows) == {"b": {"one": 3}}
