import dataclasses
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from srl_agents.episode import Episode
from srl_envs import registry
from srl_train.cli import main
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.report.build import write_report
from srl_train.metrics.report.comparison import compare, labels
from srl_train.metrics.report.figures import save_plots
from srl_train.metrics.report.page import escaped, table
from srl_train.metrics.report.transcript import transcript, view_of
from tests.srl_train.metrics.report.synthetic_runs import config, episode, row, stage_row, write_run

ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp; </td></table>"
VOID = {"meta", "link", "img", "br", "hr", "input"}


class Page(HTMLParser):
    """Reads a page; fails on tags that do not pair, on outside resources and on scripts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.words = [], [], set(), []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "link", "iframe", "object"), tag
        for name, value in attrs:
            assert not name.startswith("on") and name != "src", (tag, name, value)
            if name.endswith("href"):
                assert value.startswith("#"), value
                self.links.add(value[1:])
            if name == "id":
                self.ids.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def read(path):
    text = path.read_text(encoding="utf-8")
    assert "://" not in text  # nothing on the page comes from elsewhere
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert page.links <= set(page.ids)
    return page


@pytest.fixture
def undrawn(monkeypatch):
    """Leaves the drawings out, which take most of the time, where a test is not about them."""
    monkeypatch.setattr("srl_train.metrics.report.build.drawn", lambda *_: None)


def test_a_report_shows_everything(tmp_path):
    path = write_report(write_run(tmp_path / "run"))
    assert path == tmp_path / "run/report.html"
    page = read(path)
    for said in (
        "coop_compete_v0: 4 models learning together",
        "mode cooperative · updates selective · seed 0",
        "0.763 → 0.848",
        "97.7 %",
        "uniform 0.7625 · optimum 0.85",
        "Raw reward per seat and step",
        "Shaped reward, what was trained on",
        "Raw return per episode",
        "Cooperation rate",
        "Parse failures per answer",
        "Rounds in which each model's weights were updated",
        "Weight change of each update, L2 norm",
        "staleness, mean",
        "Gradient norm",
        "running mean over 4 rounds",
        "No episode failed.",
        "Round 0",
        "Round 39",
        "max_cycles: 16",
        "torch 2.13.0",
    ):
        assert said in page.text, said
    assert "partial" not in page.text


def test_seats_are_shown_in_the_words_of_the_environment(tmp_path, undrawn):
    page = read(write_report(write_run(tmp_path / "run")))
    view = registry.make("coop_compete_v0", max_cycles=16).unwrapped.text_view
    step = episode().turns[1][0]
    assert " ".join(view.describe("agent_0", step.observation).split()) in page.text
    assert " ".join(view.rules("agent_0").split()) in page.text


@pytest.mark.parametrize("place", ["answer", "failure", "config", "seat", "heard", "environment"])
def test_no_text_leaves_its_cell(tmp_path, undrawn, place):
    told, failure, sample = config(), None, episode(answer=lambda turn, seat: ATTACK)
    if place == "failure":
        failure = sample = episode(failure=f"BackendError: {ATTACK}")
    if place == "config":
        told = config(note=ATTACK)
    if place in ("seat", "heard", "environment"):
        sample = hostile(place)
    page = read(write_report(write_run(tmp_path / "run", episodes=[sample], told=told)))
    # Nothing was run or lost; spaces are folded, as the page's text is.
    assert "<script>alert(1)</script>" in page.text
    assert failure is None or "failed and was not trained on" in page.text


def hostile(place: str) -> Episode:
    from dataclasses import replace

    plain = episode()
    [first, *others] = plain.turns[0]
    if place == "seat":
        return replace(plain, seats=dict.fromkeys(plain.seats, ATTACK))
    if place == "heard":
        first = replace(first, heard=((ATTACK, ATTACK),))
    if place == "environment":
        first = replace(first, observation=ATTACK)
    return replace(plain, turns=((first, *others), *plain.turns[1:]))


def test_parse_failures_stand_out():
    shown = transcript(
        episode(3, lambda turn, seat: "I pass" if (turn, seat) == (1, 2) else None), None
    )
    assert shown.count('<tr class="failure">') == 1
    assert "could not be read: <bdi>no choice was named</bdi>" in shown
    assert "(does not write)" in shown


def test_strange_text_is_shown_safely():
    assert escaped("\x00\x1b[2J\ud800<") == r"\x00\x1b[2J\ud800&lt;"
    cut = transcript(episode(1, lambda turn, seat: "x" * 5000), None)
    assert "[…3500 more characters]" in cut
    assert "x" * 1501 not in cut


def test_long_episodes_are_folded_and_cut():
    shown = transcript(episode(100), None)
    assert "Turns 5 to 40" in shown
    assert "60 more turns are in the episode" in shown
    assert "Turn 41" not in shown


@pytest.mark.parametrize(
    ("name", "options", "found"),
    [
        ("coop_compete_v0", {"max_cycles": 16}, True),
        ("coop_compete_v0", {"num_agents": 3}, False),  # other seats
        ("coop_compete_v0", {"no_such_option": 1}, False),
        ("team_battle_v0", {}, False),  # another game
        ("my_own_v0", {}, False),
    ],
)
def test_a_view_is_used_for_its_own_game_only(name, options, found):
    assert (view_of(episode(), name, options) is not None) == found


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """A run of debates whose configuration names code, which leaves a file behind."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "judge_of_others.py").write_text(
        "from pathlib import Path\n"
        "from srl_envs.tasks.debate.heuristic_judge import RuleJudge as judge\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
    )
    sample = Episode("debate_v0", 1, {"pro_0": "model_0", "con_0": "model_0"}, ())
    told = config(environment={"name": "debate_v0", "options": {"judge": "judge_of_others:judge"}})
    yield write_run(tmp_path / "run", episodes=[sample], told=told, environment="debate_v0")
    sys.modules.pop("judge_of_others", None)


def test_a_report_runs_no_code_that_the_run_names(judged, tmp_path, undrawn):
    text = read(write_report(judged)).text
    assert "shown without their words: 'judge: judge_of_others:judge' is code" in text
    assert not (tmp_path / "ran").exists()
    assert "You are PRO in a debate" in read(write_report(judged, trusted=True)).text
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("options", [[1], {1: 2}, {"num_agents": "x"}, {"num_agents": 10**8}, 7])
def test_options_that_are_none_leave_a_report(tmp_path, undrawn, options):
    told = config(environment={"name": "coop_compete_v0", "options": options})
    assert "Sample episodes" in read(write_report(write_run(tmp_path / "run", told=told))).text


def test_numbers_are_shown_without_a_view(tmp_path, undrawn):
    own = [episode(environment="my_own_v0")]
    page = read(write_report(write_run(tmp_path / "run", episodes=own, told=config())))
    assert "0.667" in page.text


def test_failed_episodes_winners_and_idle_updates_are_told(tmp_path, undrawn):
    rows = [
        row(0, failed_episodes=2, winners={"team_a": 10, "draw": 4}),
        row(1, winners={"team_b": 16}),
    ]
    rows[0]["models"]["model_0"] |= {"updated": True, "weight_change": 0.0}
    page = read(write_report(write_run(tmp_path / "run", rows=rows)))
    assert "Failed episodes 2 of 32" in page.text
    assert "team_a team_b first tenth 4 (28.6 %) 10 (71.4 %) 0 (0.0 %)" in page.text
    assert "although no weight changed: model_0 in round 0." in page.text


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("cooperative", "Of the way to the optimum, learned 97.7 %"),
        ("competitive", "not what this mode trains for"),
    ],
)
def test_the_way_to_the_optimum_is_told_where_it_is_gone(tmp_path, undrawn, mode, said):
    folder = write_run(tmp_path / "run", told=config(mode))
    text = read(write_report(folder)).text
    assert said in text and ("learned 97.7 %" in text) is (mode == "cooperative")


@pytest.mark.parametrize("gone", ["metrics.jsonl", "summary.json", "config.yaml", "episodes"])
def test_a_partial_run_gets_a_partial_report(tmp_path, undrawn, gone):
    folder = write_run(tmp_path / "run")
    (folder / gone).rename(tmp_path / "away")
    assert "This report is partial." in read(write_report(folder)).text


def test_only_a_configuration_is_enough(tmp_path):
    (tmp_path / "config.yaml").write_text("seed: 3\nenvironment: {name: coop_compete_v0}\n")
    page = read(write_report(tmp_path, tmp_path / "pages/out.html"))
    assert "no round has ended" in page.text
    assert page.links == {"configuration"}  # no part of the page is empty


def test_a_failing_disk_is_told_in_one_line(tmp_path, undrawn):
    folder = write_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot write"):
        write_report(folder, tmp_path / "file/report.html")


def test_two_runs_side_by_side(tmp_path):
    write_run(tmp_path / "friends")
    falling = [row(n, raw_reward=0.7, cooperation_rate=0.1, winners={"draw": 3}) for n in range(40)]
    write_run(tmp_path / "rivals", rows=falling, told=config("competitive", seed=1), evaluation={})
    path = compare([tmp_path / "friends", tmp_path / "rivals"])
    assert path == tmp_path / "comparison.html"
    text = read(path).text
    for said in (
        "2 runs side by side",
        "friends 97.8 %",  # the curve's name and the last value of its running mean
        "rivals 0.7",
        "mode cooperative competitive",
        "raw reward, last tenth 0.8492 0.7",
        "cooperation, last tenth 97.8 % 10.0 %",
        "won by draw, last tenth \N{EN DASH} 100.0 %",
        "mode.name cooperative competitive",
        "seed 0 1",
    ):
        assert said in text, said


def test_a_run_of_stages_alone_has_a_report_of_its_own(tmp_path, capsys):
    measured = {"raw_reward": 0.8, "standard_error": 0.002, "episodes": 64, "per_model": {}}
    folder = write_run(
        tmp_path / "run", rows=[], told=config(rounds=0, sft={"epochs": 2}, dpo={"epochs": 1}),
        stage_rows=[stage_row(0, "sft", 0), stage_row(1, "sft", 1), stage_row(2, "dpo", 0)],
        evaluation={"before": measured, "after_sft": measured | {"raw_reward": 0.8123}},
    )  # fmt: skip
    assert main(["report", str(folder)]) == 0
    page = read(folder / "report.html")
    for said in (
        "coop_compete_v0: 4 models, SFT and DPO",
        "Passes over data SFT 2, DPO 1",
        "SFT: loss of each step",
        "DPO: loss of each step",
        "SFT model_0 2 64 900 0.6 0.4",
        "after sft 0.8123 0.002",
    ):
        assert said in page.text, said
    # Nothing is told of rounds that were never meant to be played.
    assert "partial" not in page.text and "Failed episodes" not in page.text
    sections = [one for one in page.ids if "-" not in one]
    assert sections == ["stages", "reward", "models", "episodes", "configuration"]


def test_stages_stand_before_the_rounds(tmp_path, undrawn, capsys):
    evaluation = {
        when: {"raw_reward": value, "per_model": {}}
        for when, value in (("before", 0.76), ("after_sft", 0.8123), ("after", 0.85))
    }
    folder = write_run(
        tmp_path / "run", told=config(sft={"epochs": 2}), stage_rows=[stage_row(0, "sft", 0)],
        evaluation=evaluation,
    )  # fmt: skip
    assert main(["report", str(folder)]) == 0
    assert "0.8123 after sft" in capsys.readouterr().out
    page = read(folder / "report.html")
    assert "4 models learning together after SFT" in page.text
    assert "before 0.76 after sft 0.8123 after 0.85" in page.text
    assert "1 of 2 passes of sft are done." in page.text


def test_runs_that_differ_only_in_their_seed_are_one_band_with_its_interval(tmp_path, capsys):
    folders = []
    for seed, reward in enumerate((0.80, 0.81, 0.82)):
        rows = [row(n, raw_reward=reward + n / 1000) for n in range(10)]
        after = {"after": {"raw_reward": reward, "per_model": {}}}
        folders.append(
            write_run(tmp_path / f"ours-seed{seed}", rows, told=config(seed=seed), evaluation=after)
        )
    folders.append(write_run(tmp_path / "theirs", told=config("competitive")))
    assert main(["report", *map(str, folders), "--out", str(tmp_path / "out.html")]) == 0
    # t(2) = 4.3027; standard deviation .01, of three: half the interval is .02484
    said = "ours (3 seeds): mean raw reward 0.8100 evaluated after training (95 % interval 0.7852"
    assert said in capsys.readouterr().out
    page = read(tmp_path / "out.html")
    assert "raw reward, evaluated after 0.81 ± 0.02484 0.848" in page.text
    assert "ours (3 seeds) 0.818" in page.text  # the curve: .81, and the mean of the last 3 rounds
    assert "seed 0, 1, 2 0" in page.text
    assert "Each run" in page.text


def test_a_seed_given_twice_is_no_second_sample(tmp_path, undrawn):
    folders = [write_run(tmp_path / name, told=config(seed=1)) for name in ("a", "b")]
    assert "seeds" not in read(compare(folders, tmp_path / "out.html")).text


def test_a_column_in_which_nothing_was_measured_is_left_out():
    made = table(["a", "b"], [("1", "\N{EN DASH}"), ("2", "\N{EN DASH}")])
    assert ">a<" in made and ">b<" not in made and made.count("<td") == 2


def test_equal_configurations_are_called_equal(tmp_path):
    folders = [write_run(tmp_path / name / "run") for name in ("a", "b")]
    text = read(compare(folders, tmp_path / "out.html")).text
    assert "their configurations are equal" in text
    assert "a/run" in text


def test_comparing_needs_two_different_runs(tmp_path):
    folder = write_run(tmp_path / "run")
    with pytest.raises(RunFolderError, match="needs two runs"):
        compare([folder])
    with pytest.raises(RunFolderError, match="given twice"):
        labels([folder, folder])
    with pytest.raises(RunFolderError, match="no run at"):
        compare([folder, tmp_path / "nowhere"])


def test_a_table_sets_numbers_right():
    made = table(["name", "value"], [("a", "1.5 %"), ("b", "\N{EN DASH}")])
    assert re.findall(r"<td[^>]*>", made) == ["<td>", '<td class="number">'] * 2


def test_names_are_no_formulas(tmp_path):
    name = r"$\frac{1}$"
    rows = [row(number) for number in range(3)]
    for entry in rows:
        entry["models"] = {name: entry["models"]["model_0"]}
    run = write_run(tmp_path / "run", rows=rows)
    assert name in read(write_report(run)).text
    assert (save_plots(run, tmp_path / "plots")[0]).stat().st_size > 1000


@pytest.mark.parametrize("seen", [None, {}, {"observation": {"a": 1}}, np.ones(1), np.ones(30)])
def test_what_is_no_observation_of_the_game_is_shown_as_it_stands(tmp_path, undrawn, seen):
    turn, *turns = episode().turns
    odd = dataclasses.replace(turn[0], observation=seen)
    played = dataclasses.replace(episode(), turns=((odd, *turn[1:]), *turns))
    page = read(write_report(write_run(tmp_path / "run", episodes=[played])))
    view = registry.make("coop_compete_v0", max_cycles=16).unwrapped.text_view
    assert " ".join(view.rules("agent_0").split()) in page.text
