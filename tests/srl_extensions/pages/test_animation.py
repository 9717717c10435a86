"""Animations hold every frame and every word."""

import base64
import io
import sys

import numpy as np
import pytest
from PIL import Image

from srl_agents.episode import AgentStep, Decision, Episode
from srl_envs import registry
from srl_extensions.pages.animation import write_gif, write_html
from srl_train.metrics.errors import RunFolderError
from tests.srl_extensions.pages.pages import blocks, document


def some_frames(count=3):
    env = registry.make("coop_compete_v0", render_mode="rgb_array", max_cycles=9)
    env.reset(seed=0)
    frames = [env.render()]
    for turn in range(count - 1):
        env.step(dict.fromkeys(env.agents, turn % 2))
        frames.append(env.render())
    return frames


def an_episode(text):
    step = AgentStep(
        "agent_0", np.zeros(2), Decision(0, text, parse_failure=text), 0.5, {}, (("agent_1", text),)
    )
    other = AgentStep("agent_1", np.zeros(2), Decision(1), 1.5)
    seats = {"agent_0": text, "agent_1": "tit_for_tat"}
    return Episode("coop_compete_v0", 7, seats, ((step, other),) * 2)


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


def to_gif(frames, path):
    return write_gif(frames, path, 1.0)


def to_html(frames, path):
    return write_html(an_episode("hi"), frames, path, 1.0)


@pytest.mark.parametrize("write", [to_gif, to_html])
def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch, write):
    frames = some_frames()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'pip install "core-srl\[render\]"'):
        write(iter(frames), tmp_path / "game")
    assert not (tmp_path / "game").exists()


@pytest.mark.parametrize("write", [to_gif, to_html])
def test_a_file_that_cannot_be_written_is_told(tmp_path, write):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot write"):
        write(iter(some_frames()), tmp_path / "file" / "x")


def test_a_page_holds_all_frames_and_words(tmp_path):
    view = registry.make("coop_compete_v0").text_view
    path = tmp_path / "game.html"
    write_html(an_episode("I think\ncooperate"), some_frames(), path, 0.5, view=view)
    [page] = blocks(document(path), "transcript")
    for turn, frame in zip(page["turns"], some_frames(), strict=True):
        picture = Image.open(io.BytesIO(base64.b64decode(turn["frame"])))
        assert np.array_equal(np.asarray(picture), frame)
    start, *turns = page["turns"]
    assert (start["number"], start["steps"]) == (0, [])
    for number, turn in enumerate(turns, start=1):
        speaking, silent = turn["steps"]
        assert turn["number"] == number
        assert speaking["answer"] == speaking["failure"] == "I think\ncooperate"
        assert speaking["heard"] == [["agent_1", "I think\ncooperate"]]
        assert (silent["answer"], silent["action"], silent["reward"]) == (None, "cooperate", "1.5")
    assert "Returns: agent_0 1, agent_1 3." in page["summary"]
    assert page["seconds"] == 0.5
