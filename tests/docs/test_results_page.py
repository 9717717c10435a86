"""The results page and its figures are generated from the claims and their records."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
from benchmarks import claim as claims

FOLDER = Path(__file__).parents[2] / "docs" / "project"
SPEC = importlib.util.spec_from_file_location("results_page", FOLDER / "results_page.py")
results_page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(results_page)


def test_page_is_up_to_date_and_short():
    text = (FOLDER / "results.md").read_text(encoding="utf-8")
    assert text == results_page.markdown(), "run docs/project/results_page.py"
    assert len(text.split()) <= 3000


@pytest.mark.parametrize("name", claims.names())
def test_claim_has_an_interpretation_and_a_current_figure(name):
    claim = claims.load(name)
    assert 0 < len(claim.interpretation.split()) <= 60
    svg = (FOLDER / "figures" / "results" / f"{name}.svg").read_text(encoding="utf-8")
    plotted = results_page.dots(name, results_page.Page.model_validate(claim.page))
    [written] = re.findall(r"<dc:description>(.*)</dc:description>", svg)
    assert json.loads(written) == json.loads(json.dumps(plotted)), "run results_page.py"
    assert f"(figures/results/{name}.svg)" in results_page.markdown()


def test_number_of_another_form_is_refused():
    assert results_page.number("-0.9% ± 2.0%") == pytest.approx((-0.9, -2.9, 1.1))
    with pytest.raises(ValueError, match="'1 of 2'"):
        results_page.number("1 of 2")


def test_cells_of_a_table_are_colors_of_the_figure():
    claim = claims.load("matched_algorithms")
    dots = results_page.dots("matched_algorithms", results_page.Page.model_validate(claim.page))
    assert [dot.label for dot in dots["MAPPO"]][::8] == ["whose 1x1", "when 1x1", "how_much 1x1"]
