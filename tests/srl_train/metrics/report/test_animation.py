"""Animations hold every frame and every word, and nothing that a browser could run or fetch."""

import base64
import builtins
import hashlib
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from srl_agents.episode import AgentStep, Decision, Episode
from srl_envs import registry
from srl_train.metrics.errors import PlotsError, RunFolderError
from srl_train.metrics.report.animation import png, write_gif, write_html

EVIL = '</bdi><script>alert("1")</script><img src="https://elsewhere.example/x.png" onerror=go()>'


def some_frames(count=3):
    env = registry.make("coop_compete_v0", render_mode="rgb_array", max_cycles=9)
    env.reset(seed=0)
    frames = [env.render()]
    for turn in range(count - 1):
        env.step(dict.fromkeys(env.agents, turn % 2))
        frames.append(env.render())
    return frames


def an_episode(text, turns=2, failure=None):
    step = AgentStep(
        "agent_0", np.zeros(2), Decision(0, text, parse_failure=text), 0.5, {}, (("agent_1", text),)
    )
    other = AgentStep("agent_1", np.zeros(2), Decision(1), 1.5)
    seats = {"agent_0": text, "agent_1": "tit_for_tat"}
    return Episode("coop_compete_v0", 7, seats, ((step, other),) * turns, failure)


def test_a_frame_as_png_is_the_frame():
    for frame in some_frames():
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(png(frame)))), frame)


def test_a_gif_has_every_frame_and_stands_at_the_end(tmp_path):
    frames = some_frames(5)
    path = write_gif(iter(frames), tmp_path / "new" / "game.gif", seconds=0.25)
    with Image.open(path) as image:
        assert image.n_frames == 5 and image.info["loop"] == 0
        for number, frame in enumerate(frames):
            image.seek(number)
            assert image.info["duration"] == (750 if number == 4 else 250)
            # A GIF has 256 colours: the pale edges of letters are shared among them.
            apart = np.abs(np.asarray(image.convert("RGB")).astype(int) - frame)
            assert apart.max() < 40 and apart.mean() < 0.5
    assert list(path.parent.iterdir()) == [path]


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def without_pillow(name, *args, **kwargs):
        if name == "PIL":
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pillow)
    with pytest.raises(PlotsError, match=r'pip install "core-srl\[plots\]"'):
        write_gif(iter(some_frames()), tmp_path / "game.gif", seconds=1.0)
    page = write_html(an_episode("hi"), some_frames(), tmp_path / "game.html", 1.0)
    assert page.stat().st_size > 1000


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    for write in (write_gif, lambda *rest: write_html(an_episode("hi"), *rest)):
        with pytest.raises(RunFolderError, match="cannot write"):
            write(iter(some_frames()), tmp_path / "file" / "x", 1.0)


def written(tmp_path, episode, frames=None, **more):
    path = tmp_path / "game.html"
    return write_html(episode, frames or some_frames(), path, 0.5, **more).read_text("utf-8")


def test_a_page_holds_all_frames_and_words(tmp_path):
    view = registry.make("coop_compete_v0").text_view
    page = written(tmp_path, an_episode("I think\ncooperate"), view=view)
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert [base64.b64decode(data) for data in pictures] == [png(f) for f in some_frames()]
    assert page.count('<bdi class="said">I think\ncooperate</bdi>') == 2
    assert page.count("heard agent_1:") == 2 and page.count("the default:") == 2
    assert page.count("<td>cooperate</td>") == 2  # agent_1's action, in words
    assert "Turn 2 of 2" in page and "Returns: agent_0 1, agent_1 3." in page
    assert 'data-wait="500"' in page


def test_a_page_of_some_turns_numbers_them_right(tmp_path):
    page = written(tmp_path, an_episode("hi"), some_frames()[1:], first=1)
    assert "Turn 1 of 2" in page and "The start" not in page
    assert page.count('<bdi class="said">hi</bdi>') == 2


class Elements(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def test_what_was_said_does_nothing(tmp_path):
    page = Elements(written(tmp_path, an_episode(EVIL, failure=EVIL)))
    tame = Elements(written(tmp_path, an_episode("x", failure="x")))
    assert page.tags == tame.tags and page.tags.count("script") == 1
    assert len(page.attributes) == len(tame.attributes)
    for name, value in page.attributes:
        assert not name.startswith("on") and name not in ("href", "action", "srcset")
        assert name != "src" or value.startswith("data:image/png;base64,")
    text = written(tmp_path, an_episode("x"))
    without_pictures = re.sub(r'src="data:[^"]+"', "", text)
    assert "//" not in without_pictures and "url(" not in without_pictures


def test_the_page_allows_its_own_script_and_nothing_else(tmp_path):
    page = written(tmp_path, an_episode("hi"))
    [script] = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy == (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'"
    )


def test_very_long_words_are_cut(tmp_path):
    page = written(tmp_path, an_episode("x" * 10_000))
    assert "8500 more characters" in page and "x" * 1501 not in page
