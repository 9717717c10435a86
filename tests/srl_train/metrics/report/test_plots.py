import itertools
import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.report import figures, plots
from srl_train.metrics.report.plots import Line, Panel, Raster, RasterRow
from srl_train.metrics.run_folder import load
from tests.srl_train.metrics.report.synthetic_runs import row, write_run


def panel(lines=3, **options):
    return Panel(
        "A", [Line(f"m{i}", [0, 1, 2], [i, i + 1, i + 2]) for i in range(lines)], **options
    )


class Ids(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.defined, self.used = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.defined.append(value)
            self.used |= set(re.findall(r"url\(#([^)]*)\)", value or ""))
            if name.endswith("href"):
                assert value.startswith("#"), value
                self.used.add(value[1:])


def test_ids_of_figures_on_one_page_differ_and_all_references_meet():
    page = "".join(
        plots.to_svg(plots.draw([panel(), panel()]), name, "says <this>")
        for name in ("first", "second")
    )
    ids = Ids(page)
    assert len(ids.defined) == len(set(ids.defined)) > 10
    assert ids.used and ids.used <= set(ids.defined)


def test_svg_is_one_quiet_element():
    svg = plots.to_svg(plots.draw([panel()]), "x", "says <this>")
    assert svg.startswith('<svg role="img" aria-label="says &lt;this&gt;"')
    assert "://" not in svg
    assert "<style" not in svg and "<metadata" not in svg
    assert ">m2 4<" in svg  # the name of a line with its last value, as text


def test_the_same_figure_gives_the_same_svg():
    first, second = (plots.to_svg(plots.draw([panel()]), "x", "") for _ in range(2))
    assert first == second


def test_png(tmp_path):
    path = plots.save_png(plots.draw([panel()]), tmp_path / "deep/a.png")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("lines", [1, 4, 12, 30])
def test_names_at_the_lines_ends_do_not_cover_each_other(lines):
    figure = plots.draw(
        [panel(lines), Panel("same", [Line(str(i), [0], [1]) for i in range(lines)])]
    )
    for axes in figure.axes:
        boxes = sorted((text.get_window_extent() for text in axes.texts), key=lambda box: box.y0)
        assert len(boxes) == lines
        centres = [(box.y0 + box.y1) / 2 for box in boxes]
        gaps = [above - below for below, above in itertools.pairwise(centres)]
        size = axes.texts[0].get_fontsize() * figure.dpi / 72
        assert all(gap >= size for gap in gaps)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([10, 20, 30], [10, 20, 30]),
        ([10, 11, 12], [10, 15, 20]),
        ([-5, 50], [0, 50]),
        ([98, 99, 100], [90, 95, 100]),  # pushed up, then down below the top
    ],
)
def test_heights_are_moved_apart(wanted, expected):
    assert plots._apart(wanted, gap=5, bottom=0, top=100) == expected


def test_running_mean_leaves_out_what_was_not_measured():
    got = plots.running_means([1, 3, math.nan, 7], window=2)
    assert got == [1, 2, 3, 7]


def test_a_raster_fills_the_updated_rounds():
    figure = plots.draw([Raster("who", [RasterRow("a", [0, 2]), RasterRow("b", [])], range(4))])
    filled = [len(collection.get_paths()) for collection in figure.axes[0].collections]
    assert filled == [1, 2, 1, 0]  # background and blocks of each row


def test_long_rasters_join_consecutive_rounds():
    rounds = [*range(100), *range(110, 200)]
    assert plots._stretches(rounds) == [(0, 100), (110, 90)]
    assert plots._stretches([0, 1, 5]) == [(0, 1), (1, 1), (5, 1)]


def test_a_missing_matplotlib_is_told_with_the_install_line():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from srl_train.metrics import plots\n"
        "from srl_train.metrics.errors import PlotsError\n"
        "try: plots.draw([plots.Panel('a', [])])\n"
        "except PlotsError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "core-srl[plots]"' in told.stdout


def test_every_figure_of_a_run_is_saved(tmp_path):
    saved = figures.save_plots(write_run(tmp_path / "run"), tmp_path / "plots")
    # A run of one environment has nothing to tell apart; this one had no stages.
    absent = ("environments", "stages")
    assert [path.stem for path in saved] == [n for n in figures.FIGURES if n not in absent]
    assert all(path.stat().st_size > 5000 for path in saved)


def test_figures_that_cannot_be_written_are_told_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot write .*file/reward\.png: "):
        figures.save_plots(write_run(tmp_path / "run"), tmp_path / "file")


def test_what_was_not_measured_is_not_drawn(tmp_path):
    bare = row(0, cooperation_rate=None)
    for model in bare["models"].values():
        model |= {"cooperation_rate": None, "parse_failures": None}
    run = load(write_run(tmp_path / "run", rows=[bare]))
    assert figures.changing(figures.behaviour(run)) == ([], "")


def test_weight_changes_are_drawn_for_updates_only(tmp_path):
    run = load(write_run(tmp_path / "run", rows=[row(number) for number in range(4)]))
    change, way = plots.draw(figures.weights(run)).axes
    assert list(change.lines[0].get_xdata()) == [0, 2]  # model_0 updates in even rounds
    assert list(change.lines[2].get_xdata()) == [1, 3]  # after each line's dots comes the line
    moved = [row(number)["models"]["model_0"]["weight_change"] for number in (0, 2)]
    assert list(way.lines[1].get_ydata()) == pytest.approx([moved[0], sum(moved)])


def test_learner_metrics_get_a_panel_each(tmp_path):
    rows = [row(number) | {"mode_state": {"balance": 0.5}} for number in range(3)]
    found = figures.learning(load(write_run(tmp_path / "run", rows=rows)))
    titles = [panel.title for panel in found]
    assert titles == ["Loss", "Gradient norm", "Entropy", "The mode's balance"]


def test_what_never_changes_is_told_in_words_and_not_drawn(tmp_path):
    rows = [row(number, parse_failures=0.0, shaped_reward=0.8) for number in range(4)]
    for one in rows:
        for model in one["models"].values():
            model |= {"parse_failures": 0.0, "updated": True}
    run = load(write_run(tmp_path / "run", rows=rows))
    drawn, still = figures.changing(figures.reward(run))
    assert [panel.title for panel in drawn] == ["Raw reward per seat and step"]
    assert still == "Not drawn, for it never changed: Shaped reward, what was trained on: 0.8."
    drawn, still = figures.changing(figures.behaviour(run))
    assert [panel.title for panel in drawn] == ["Cooperation rate"]
    assert still.endswith("Parse failures per answer: 0.0 %.")
    drawn, still = figures.changing(figures.updates(run))
    assert drawn == [] and still.endswith("weights were updated: all.")
    _, still = figures.changing(figures.learning(run))  # of each model another value
    assert "Gradient norm: model_0 0.8, model_1 0.9, model_2 1, model_3 1.1" in still


def test_names_quote_the_running_mean_and_bands_show_the_spread():
    values = [0.0, 1.0] * 20  # 40 values: a window of four, of mean .5 and deviation .5
    axes = plots.draw([Panel("noisy", [Line("m", range(40), values)])]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["m 0.5"]
    [band] = axes.collections
    last = [y for x, y in band.get_paths()[0].vertices if x == 39]
    assert (min(last), max(last)) == pytest.approx((0.0, 1.0))


def test_a_band_that_is_given_is_drawn_as_it_stands():
    line = Line("mean", [0, 1, 2], [1.0, 2.0, 3.0], [0.5, 1.0, 2.0], [1.5, 3.0, 4.0])
    axes = plots.draw([Panel("seeds", [line])]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["mean 3"]
    [band] = axes.collections
    assert {y for x, y in band.get_paths()[0].vertices if x == 2} >= {2.0, 4.0}


def test_a_panel_is_no_wider_than_a_phone_and_its_text_as_large_as_a_pages():
    svg = plots.to_svg(plots.draw([panel()]), "x", "")
    width = float(re.search(r'width="([0-9.]+)pt"', svg)[1])
    assert width <= 390 * 72 / 96 * 1.1
