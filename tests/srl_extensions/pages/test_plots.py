"""Which numbers stand in which figure, and figures as PNG files."""

import math
import subprocess
import sys

import pytest

from srl_extensions.pages import figures, plots
from srl_train.metrics.document import Line, Panel, running_means
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.run_folder import load
from tests.srl_extensions.pages.synthetic_runs import row, write_run


def test_running_mean_leaves_out_what_was_not_measured():
    assert running_means([1, 3, math.nan, 7], window=2) == [1, 2, 3, 7]


def test_a_missing_matplotlib_is_told_with_the_install_line():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from pathlib import Path\n"
        "from srl_extensions.pages import plots\n"
        "from srl_train.metrics import document\n"
        "from srl_train.metrics.errors import PlotsError\n"
        "try: plots.save_png([document.Panel('a', [])], Path('a.png'))\n"
        "except PlotsError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "core-srl[plots]"' in told.stdout


def test_every_figure_of_a_run_is_saved(tmp_path):
    saved = figures.save_plots(write_run(tmp_path / "run"), tmp_path / "plots")
    # A run of one environment has nothing to tell apart; this one had no stages, and played and
    # learned in turn.
    absent = ("environments", "stages")
    assert [path.stem for path in saved] == [n for n in figures.FIGURES if n not in absent]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in saved)
    assert all(path.stat().st_size > 5000 for path in saved)


def test_bands_and_guides_are_saved_too(tmp_path):
    line = Line("mean", [0, 1, 2], [1.0, 2.0, 3.0], [0.5, 1.0, 2.0], [1.5, 3.0, 4.0])
    plain = plots.save_png([Panel("a", [Line("mean", line.x, line.y)])], tmp_path / "plain.png")
    more = plots.save_png([Panel("a", [line], [("optimum", 3.5)])], tmp_path / "more.png")
    assert plain.read_bytes() != more.read_bytes()


def test_figures_that_cannot_be_written_are_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot write .*file/reward\.png: "):
        figures.save_plots(write_run(tmp_path / "run"), tmp_path / "file")


def test_what_was_not_measured_is_not_drawn(tmp_path):
    bare = row(0, cooperation_rate=None)
    for model in bare["models"].values():
        model |= {"cooperation_rate": None, "parse_failures": None}
    run = load(write_run(tmp_path / "run", rows=[bare]))
    assert figures.figure(figures.FIGURES["behaviour"](run), "") == []
    [shown] = figures.figure(figures.FIGURES["returns"](run), "")
    assert len(shown.drawings) == 2


def test_weight_changes_are_drawn_for_updates_only(tmp_path):
    run = load(write_run(tmp_path / "run", rows=[row(number) for number in range(4)]))
    change, way = figures.weights(run)
    assert [line.x for line in change.lines] == [[0, 2], [1, 3], [0, 2], [1, 3]]
    moved = [row(number)["models"]["model_0"]["weight_change"] for number in (0, 2)]
    assert way.lines[0].y == pytest.approx([moved[0], sum(moved)])


def test_who_updated_when(tmp_path):
    [raster] = figures.updates(load(write_run(tmp_path / "run", rows=[row(n) for n in range(4)])))
    assert dict(raster.rows) == {
        "model_0": [0, 2], "model_1": [1, 3], "model_2": [0, 2], "model_3": [1, 3],
    }  # fmt: skip


def test_learner_metrics_get_a_panel_each(tmp_path):
    rows = [row(number) | {"mode_state": {"balance": 0.5}} for number in range(3)]
    found = figures.learning(load(write_run(tmp_path / "run", rows=rows)))
    titles = [panel.title for panel in found]
    assert titles == ["Loss", "Gradient norm", "Entropy", "The mode's balance"]


@pytest.mark.parametrize(("rounds", "window"), [(1, 1), (2, 1), (6, 3), (40, 4), (200, 20)])
def test_a_tenth_of_the_rounds_is_smoothed_over(tmp_path, rounds, window):
    run = load(write_run(tmp_path / "run", rows=[row(number) for number in range(rounds)]))
    assert {panel.window for panel in figures.FIGURES["returns"](run)} == {window}
