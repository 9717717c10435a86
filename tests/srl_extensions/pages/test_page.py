"""Pages in a browser: drawing, blocked scripts and no requests."""

import base64
import hashlib
import json
import re
from typing import get_args

import pytest

from srl_extensions.pages.document import (
    Block,
    Cards,
    Document,
    Figure,
    Line,
    Notes,
    PageSection,
    Panel,
    RoundProgress,
    Runs,
    Table,
    Text,
    Transcript,
    asset,
    hashes,
    html,
    to_json,
    write_page,
)
from srl_extensions.pages.report import write_report
from tests.srl_extensions.pages.pages import Drawn, document, in_a_browser, words
from tests.srl_extensions.pages.synthetic_runs import stage_row, write_run

RUN = "document.title='run'"
EVIL = f'</script></bdi><img src=x onerror="{RUN}"><script>{RUN}</script>'
HOSTILE = f"{EVIL}<!--<script>\x1b[2J\x07\u202e\u2028 ${{1}} &lt;"


def turn(number, steps, frame=None):
    return {"number": number, "steps": steps, "frame": frame}


def everywhere(text: str) -> Document:
    """Return a document with all kinds of blocks and `text` in each text field."""
    line = Line(text, [0, 1, 2], [0.1, 0.5, float("nan")])
    step = dict.fromkeys(("agent", "player", "saw", "answer", "failure", "action", "reward"), text)
    step |= {"heard": [(text, text)], "asked": True}
    turns = [turn(number, [step]) for number in range(1, 7)]
    pictured = [turn(0, [], b"\x89PNG"), turn(1, [step], b"\x89PNG")]
    blocks = [
        Figure([Panel(text, [line, Line(text, [0], [1.0])], [(text, 0.7)], across=text),
                Panel(text, [line], percent=True)], text),
        Table([text], [[text]]),
        Cards([(text, text, text)]),
        Notes(text, [text]),
        Text(text), Text(text, "heading"), Text(text, "listing"), Text(text, "bad"),
        RoundProgress(0.5, [text]),
        Transcript(text, text, [(text, text)], turns, left_out=3),
        Transcript(text, None, [], pictured, 0, 1.0),
    ]  # fmt: skip
    return Document(text, text, blocks, [PageSection(text, [Text(text)])])


@pytest.mark.browser
def test_hostile_text_is_never_markup(tmp_path):
    path = write_page(everywhere(HOSTILE), tmp_path / "page.html")
    harmless = write_page(everywhere("harmless words"), tmp_path / "harmless.html")
    drawn, said = in_a_browser(path, tmp_path / "browser")
    tame, said_of_tame = in_a_browser(harmless, tmp_path / "browser")
    assert said == said_of_tame == []
    assert drawn.tags == tame.tags
    assert len(drawn.attributes) == len(tame.attributes)
    assert drawn.text.count(EVIL) > 40
    assert drawn.text.count(EVIL) == tame.text.count("harmless words")
    assert not any(name.startswith("on") for name, _ in drawn.attributes)


@pytest.mark.browser
def test_report_is_drawn_without_console_messages(tmp_path):
    stages = [stage_row(0, "sft", 0), stage_row(1, "sft", 1)]
    path = write_report(write_run(tmp_path / "a", stage_rows=stages))
    drawn, said = in_a_browser(path, tmp_path / "browser")
    assert said == []
    assert drawn.tags.count("canvas") >= 2
    for section in document(path)["sections"]:
        assert words(section["title"]) in drawn.text


@pytest.mark.browser
def test_lines_are_smoothed_and_legends_have_the_last_value(tmp_path):
    values = [0.0, 1.0] * 20
    panels = [
        Panel("noisy", [Line("mean", range(40), values)]),
        Panel("still", [Line("a", [0, 1], [0.25, 0.25])], percent=True),
    ]
    path = write_page(Document("", "", [Figure(panels, "")]), tmp_path / "page.html")
    drawn, _ = in_a_browser(path, tmp_path / "browser")
    assert "mean 0.5" in drawn.text  # of the last four values
    assert "constant: 25.0 %" in drawn.text


@pytest.mark.browser
def test_foreign_scripts_are_blocked(tmp_path):
    text = html(everywhere("x")).replace("<main>", "<main><script>console.log('ran')</script>")
    (tmp_path / "page.html").write_text(text)
    _, said = in_a_browser(tmp_path / "page.html", tmp_path / "browser")
    assert len(said) == 1 and "Content Security Policy" in said[0]


@pytest.mark.browser
def test_animation_controls(tmp_path):
    turns = [turn(number, [], b"%d" % number) for number in range(4)]
    text = html(Document("", "", [Transcript("", None, [], turns, 0, 0.001)]))
    clicks = """
      const [play, back, on] = document.querySelectorAll("button");
      const seen = [], tell = () => seen.push(document.querySelector("img").src.split(",")[1]);
      tell(); on.click(); tell(); on.click(); tell(); back.click(); tell();
      document.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"})); tell();
      console.log(seen.map(atob).join(" "));
      play.click();
      setTimeout(() => { tell(); console.log(atob(seen.at(-1)) + play.textContent); }, 200);
    """
    text = text.replace("script-src ", f"script-src {hashes([clicks])} ")
    (tmp_path / "page.html").write_text(
        text.replace("</body>", f"<script>{clicks}</script></body>")
    )
    _, said = in_a_browser(tmp_path / "page.html", tmp_path / "browser")
    assert [re.search(r'"(.*?)"', line)[1] for line in said] == ["0 1 2 1 0", "3play"]


def test_every_kind_of_block_has_a_drawing_function():
    kinds = {one.__name__.lower() for one in (*get_args(Block), Panel)}
    [table] = re.findall(r"const DRAW = \{(.*?)\};", asset("page.js"), re.S)
    drawn = {entry.split(":")[0].strip() for entry in table.split(",")}
    only_live = set(re.findall(r"^DRAW\.(\w+) =", asset("live.js"), re.M))
    assert drawn | only_live == kinds
    assert only_live == {Runs.__name__.lower()}
    data = to_json(everywhere("x"))
    assert drawn == {kind for kind in kinds if f'"kind":"{kind}"' in data}


def test_content_security_policy_allows_only_the_assets():
    text = html(everywhere(HOSTILE))
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        own = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.S)
        digests = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in own]
        assert rules[rule] == " ".join(f"'sha256-{digest}'" for digest in digests)
        assert len(own) == {"script": 2, "style": 2}[tag]
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    assert "unsafe" not in policy and "http" not in policy


def test_json_cannot_end_its_script_element():
    data = to_json(everywhere(HOSTILE))
    assert not set(data) & set("<>&\u2028\x1b\u202e") and data.isascii()
    assert EVIL in json.loads(data)["title"]
    assert r"\x1b[2J\x07\u202e" in json.loads(data)["title"]  # as printable() writes them
    assert Drawn(html(everywhere(HOSTILE))).tags == Drawn(html(everywhere("x"))).tags


def test_page_makes_no_requests_and_has_the_license_of_uplot():
    text = html(everywhere("x"))
    assert "Copyright (c) 2022 Leon Sorokin" in text
    linked = set(re.findall(r'https?://[^\s"\'<)]+', text))
    assert linked <= {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot"}
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(", text)
