import argparse
import json

import pytest

from benchmarks import records
from benchmarks.records import Check


def test_a_block_is_replaced_and_nothing_else(tmp_path):
    text = (
        "above\n<!-- one: begin -->\nold\n<!-- one: end -->\n<!-- two: begin --><!-- two: end -->"
    )
    file = tmp_path / "page.md"
    file.write_text(text)
    records.paste(file, "one", "new")
    assert file.read_text() == (
        "above\n<!-- one: begin -->\nnew\n<!-- one: end -->\n<!-- two: begin --><!-- two: end -->"
    )


@pytest.mark.parametrize("text", ["", "<!-- one: begin -->", "<!-- one: end -->"])
def test_a_file_without_the_markers_is_refused(text, tmp_path):
    file = tmp_path / "page.md"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"page.md has no block .*one: begin"):
        records.paste(file, "one", "new")
    assert file.read_text() == text


def test_results_are_kept_with_their_circumstances(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(records, "_commit", lambda: "0123abc")
    docs, json_file = tmp_path / "results.md", tmp_path / "one.json"
    docs.write_text("<!-- one: begin -->\n<!-- one: end -->\n")
    records.keep("one", {"x": 1}, "| x |", argparse.Namespace(json=json_file, docs=docs))
    assert capsys.readouterr().out == "| x |\n"
    record = json.loads(json_file.read_text())
    assert record["result"] == {"x": 1}
    circumstances = record["circumstances"]
    assert {"command", "commit", "machine", "versions"} <= circumstances.keys()
    text = docs.read_text()
    assert circumstances["commit"] in text and "| x |" in text
    assert "CPU cores" in circumstances["machine"]


def test_changed_sources_are_not_recorded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(records, "_commit", lambda: "0123abc+changes")
    parser = records.parser("What it measures.")
    for option in ("--json", "--docs"):
        with pytest.raises(SystemExit):
            parser.parse_args([option, str(tmp_path / "one")])
        assert "the sources differ from their commit" in capsys.readouterr().err
    asked = parser.parse_args([])
    records.keep("one", {}, "| x |", asked)  # to look at, not to keep
    asked.json = tmp_path / "one.json"  # changed while it was measured
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        records.keep("one", {}, "| x |", asked)
    assert not asked.json.exists()


def test_a_check_says_whether_it_held(capsys):
    asked = argparse.Namespace(json=None, docs=None)
    held, missed = Check("a", True, "1 of 1"), Check("a", False, "0 of 1")
    assert records.keep("one", {}, "| x |", asked, [held]) == 0
    assert records.keep("one", {}, "| x |", asked, [held, missed]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[-3:] == ["", "- held: a (1 of 1)", "- NOT HELD: a (0 of 1)"]
