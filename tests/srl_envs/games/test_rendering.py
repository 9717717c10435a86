import sys

import numpy as np
import pytest

from srl_envs import registry
from srl_envs.games.rendering import INK, PAPER, picture


def test_picture_shows_the_text():
    frame, before, blank = map(picture, ("game\nagent_0  0.5  compete", "game\nagent_0  -", " "))
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    assert frame.shape == before.shape
    assert np.unique(blank).tolist() == [PAPER]
    assert (frame == INK).sum() > (before == INK).sum() > 0


def test_missing_pillow_error_contains_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    env = registry.make("coop_compete_v0", render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(ImportError, match=r'pip install "core-srl\[render\]"'):
        env.render()


@pytest.mark.parametrize("name", ["coop_compete_v0", "maze_race_v0", "social_trading_v0"])
def test_every_mode_of_every_environment(name, capsys):
    shown = {}
    for mode in ("ansi", "rgb_array", "human"):
        env = registry.make(name, render_mode=mode)
        env.reset(seed=0)
        before = env.render()
        _, infos = env.reset(seed=0)
        last = {a: int(np.flatnonzero(infos[a]["action_mask"])[-1]) for a in env.agents}
        words = [env.text_view.answers(agent)[action] for agent, action in last.items()]
        env.step(last)
        shown[mode] = env.render()
        if mode == "rgb_array":
            assert shown[mode].shape == before.shape and not np.array_equal(shown[mode], before)
        env.close()
    assert shown["human"] is None
    # reset, render, reset, step and render wrote the round each
    assert capsys.readouterr().out.count("round") == 5
    assert shown["ansi"].startswith(f"{env.metadata['name']} round 1/{env.max_cycles}")
    if not name.startswith("maze"):
        assert all(word in shown["ansi"] for word in words)
        assert all(agent in shown["ansi"] for agent in env.possible_agents)


def test_text():
    env = registry.make("coop_compete_pair_v0", noise_std=0.0, max_cycles=9, render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == ("coop_compete_v0 round 0/9\nagent_0           -\nagent_1           -\n")
    env.step({"agent_0": 1, "agent_1": 0})
    assert env.render() == (
        "coop_compete_v0 round 1/9\nagent_0    0.600  cooperate\nagent_1    0.600  compete\n"
    )
