"""Animations contain all frames and texts."""

import base64
import io
import sys

import numpy as np
import pytest
from PIL import Image

from srl_agents.episode import AgentStep, Decision, Episode
from srl_envs import registry
from srl_extensions.pages.transcript import write_html
from srl_train.errors import RunFolderError
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


def to_html(frames, path):
    return write_html(an_episode("hi"), frames, path, 1.0)


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    frames = some_frames()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'pip install "core-srl\[render\]"'):
        to_html(iter(frames), tmp_path / "game")
    assert not (tmp_path / "game").exists()


def test_unwritable_file_raises(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot write"):
        to_html(iter(some_frames()), tmp_path / "file" / "x")


def test_page_contains_all_frames_and_texts(tmp_path):
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
