import argparse
import math

import pytest

from benchmarks import records
from benchmarks.records import Check, Estimate, OverSeeds, Repeats, estimate, in_turns, ratios


def test_results_are_kept_with_their_circumstances(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(records, "commit", lambda: "0123abc")
    docs = tmp_path / "results.md"
    records.keep("| x |", argparse.Namespace(markdown=docs))
    assert capsys.readouterr().out == "| x |\n"
    text = docs.read_text()
    assert "at commit 0123abc" in text and "| x |" in text and "CPU cores" in text


def test_check_reports_its_result(capsys):
    options = argparse.Namespace(markdown=None)
    held, missed = Check("a", True, "1 of 1"), Check("a", False, "0 of 1")
    assert records.keep("| x |", options, [held]) == 0
    assert records.keep("| x |", options, [held, missed]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-3:] == ["", "- held: a (1 of 1)", "- NOT HELD: a (0 of 1)"]


def test_mean_and_standard_error():
    # Deviations -1, 0, 1: variance 1, over three values.
    assert estimate([1.0, 2.0, 3.0]) == pytest.approx((2.0, 1 / 3**0.5))
    assert estimate([4.0]) == (4.0, None)
    assert f"{Estimate(0.88, 0.023):.1%}" == "88.0% ± 2.3%"
    assert f"{Estimate(0.88, None):.1%}" == "88.0%"


def test_median_minimum_and_maximum():
    assert f"{Repeats([3.0, 1.0, 2.0]):.1f}" == "2.0 (1.0 to 3.0)"
    assert f"{Repeats([4.0, 1.0, 2.0, 3.0]):.1f}" == "2.5 (1.0 to 4.0)"
    assert f"{OverSeeds([1.0, 2.0, 6.0]):.1f}" == "3.0 (1.0 to 6.0)"
    assert f"{Repeats([2.0, 2.0]):.1f}" == "2.0"


def test_intervals_appear_for_several_seeds():
    assert f"{OverSeeds([0.25, 0.25]).interval:.3f}" == "0.250"
    # 12.7062 standard errors of .1 on each side: two values have one degree of freedom.
    assert f"{OverSeeds([0.2, 0.4]).interval:.3f}" == "0.300 (-0.971 to 1.571)"


def test_equivalence_margin_is_the_far_end_of_the_90_percent_interval():
    # 2.9200 standard errors of .1 / sqrt(3) on each side of .1: three values.
    assert OverSeeds([0.0, 0.1, 0.2]).equal_within == pytest.approx(0.1 + 2.92 * 0.1 / 3**0.5, 1e-4)
    assert OverSeeds([0.0, -0.1, -0.2]).equal_within == OverSeeds([0.0, 0.1, 0.2]).equal_within
    assert OverSeeds([0.0, 0.0]).equal_within == 0.0
    # Two noisy seeds do not differ significantly, and are no proof of equality either.
    assert OverSeeds([-1.0, 1.2]).equal_within > 5.0
    assert not OverSeeds([0.0]).equal_within <= 1.0


def test_methods_alternate_and_warm_ups_are_discarded():
    order = []

    def side(name):
        return lambda repeat: order.append((repeat, name)) or float(repeat)

    found = in_turns({"a": side("a"), "b": side("b")}, repeats=2, warm_ups=1)
    assert order == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]
    assert found == {"a": (1.0, 2.0), "b": (1.0, 2.0)}


def test_ratios_are_taken_repeat_by_repeat():
    assert ratios([2.0, 9.0], [1.0, 3.0]) == (2.0, 3.0)


def test_mean_interval_by_hand():
    mean, low, high = records.mean_interval([0.80, 0.81, 0.82])
    # t(2) = 4.3027, standard deviation .01: 4.3027 * .01 / sqrt(3) = .024842
    assert (mean, high - mean, mean - low) == pytest.approx((0.81, 0.024842, 0.024842), abs=1e-6)
    assert records.mean_interval([0.5, math.nan])[0] == 0.5
    assert math.isnan(records.mean_interval([0.5])[1]) and math.isnan(records.mean_interval([])[0])
