import dataclasses
import sys

import numpy as np
import pytest

from srl_envs import registry
from srl_envs.games import rendering
from srl_envs.games.rendering import COLOURS, INK, LINE, SHOWN_ROUNDS, Frame, Scene, ansi, rgb_array

SCENE = Scene(
    headline="game_v0 round 1/9",
    agents=("agent_0", "agent_10"),
    choices=(1, 0),
    rewards=(0.5, 1.0),
    answers=("compete", "cooperate"),
    ceiling=1.0,
)
UNPLAYED = Scene(
    SCENE.headline, SCENE.agents, (None, None), (None, None), SCENE.answers, SCENE.ceiling
)


def test_text():
    assert ansi(SCENE) == (
        "game_v0 round 1/9\n"
        "agent_0   cooperate  ##########            0.500\n"
        "agent_10  compete    ####################  1.000\n"
    )
    assert ansi(UNPLAYED) == "game_v0 round 1/9\nagent_0   -\nagent_10  -\n"


def coloured(frame, colour):
    return (frame == np.array(colour, dtype=np.uint8)).all(axis=2)


def test_picture():
    frame, before = rgb_array(SCENE), rgb_array(UNPLAYED)
    assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3
    assert frame.shape == before.shape
    cooperating, competing = coloured(frame, (0, 114, 178)), coloured(frame, (213, 94, 0))
    # The seats are lines below the headline; each is in its action's colour and nobody else's.
    assert cooperating.any(axis=1).nonzero()[0].max() < competing.any(axis=1).nonzero()[0].min()
    # 160 pixels of bar: half filled, and full
    assert cooperating.sum(axis=1).max() >= 80 and cooperating.sum(axis=1).max() < 160
    assert competing.sum(axis=1).max() >= 160
    assert not coloured(before, (0, 114, 178)).any()


@pytest.mark.parametrize(
    ("name", "colour"),
    [("red_0", "red"), ("Blue", "blue"), ("green-team", "green"), ("redoubt", None), ("", None)],
)
def test_names_of_colours(name, colour):
    assert rendering.named_colour(name) == (colour and rendering.NAMED[colour])


def test_who_is_called_by_a_colour_is_drawn_in_it_whatever_he_chose():
    names = ("red_0", "blue_0")
    for choices in ((1, 0), (0, 1)):
        frame = picture(agents=names, teams=("a", "b"), choices=choices)
        red, blue = frame[56:78].astype(int), frame[104:126].astype(int)
        filled = [line[(line.max(axis=2) - line.min(axis=2)) > 60] for line in (red, blue)]
        assert (filled[0].argmax(axis=1) == 0).all() and (filled[1].argmax(axis=1) == 2).all()
    assert not np.array_equal(frame, picture(agents=names, teams=("a", "b"), choices=(1, 0)))


def picture(**changes):
    return rgb_array(dataclasses.replace(SCENE, **changes))


def test_totals_and_a_strip_of_the_last_rounds():
    rounds = [((1, 0), (0.5, 1.0)), ((1, 1), (0.25, 0.0))]
    frames = [picture(past=rounds[:played]) for played in (0, 1, 2)]
    assert len({frame.shape for frame in frames}) == 1
    strips = [frame[32:, -8 - SHOWN_ROUNDS * 6 :] for frame in frames]
    cooperated = [coloured(strip, COLOURS[1]) for strip in strips]
    assert not cooperated[0].any()
    # A column of 5 pixels for each cooperation, as high of 18 as the reward; at least 2.
    assert [int(strip.sum()) for strip in cooperated[1:]] == [5 * 9, 5 * (9 + 4 + 2)]
    assert int(coloured(strips[1], COLOURS[0]).sum()) == 5 * 18
    totals = [frame[:, :-260] for frame in frames]
    assert not np.array_equal(totals[1], totals[2])


@pytest.mark.parametrize("teams", [(), ("a", "b")])
@pytest.mark.parametrize("reward", [1e5, -123456.789, 1e6, -1.5e30])
def test_great_rewards_stay_in_their_columns(reward, teams):
    past = [((1, 0), (reward, 3 * reward))] * 9
    frame = picture(rewards=(reward, 3 * reward), past=past, teams=teams, ceiling=abs(reward))
    plain = picture(rewards=(0.0, 0.0), past=past[:0], teams=teams)
    inked = coloured(frame[52:], INK).any(axis=0)
    strip = frame.shape[1] - 8 - SHOWN_ROUNDS * 6
    number, total = strip - 8 - 9 * 8 - 8 - 7 * 8, strip - 8 - 9 * 8
    assert frame.shape == plain.shape
    assert inked[number : total - 8].any() and inked[total : strip - 8].any()
    assert not inked[total - 8 : total].any() and not inked[strip - 8 : strip].any()


def test_the_strip_shows_the_last_rounds_only():
    early, late = ((0, 0), (1.0, 1.0)), ((1, 1), (1.0, 1.0))
    many = picture(choices=(1, 1), past=[early] * 7 + [late] * SHOWN_ROUNDS)
    assert many.shape == picture(past=[]).shape
    assert not coloured(many, COLOURS[0]).any()


def test_notes_stand_beside_the_seats():
    assert not np.array_equal(picture(notes=("adversary", "")), picture(notes=("", "adversary")))
    assert picture(notes=("", "")).shape == picture().shape


def test_teams_stand_together_and_are_summed_up():
    rounds = [((1, 0), (0.5, 1.0))]
    plain, teams = picture(past=rounds), picture(past=rounds, teams=("a", "b"))
    assert teams.shape[0] == plain.shape[0] + 2 * LINE
    together = picture(past=rounds, teams=("a", "a"))
    assert together.shape[0] == plain.shape[0] + LINE
    other = picture(past=[((1, 0), (0.5, 3.0))], teams=("a", "a"))
    assert not np.array_equal(together[56:78], other[56:78])  # the team's mean


def test_what_is_drawn_over_the_edge_is_cut_off():
    frame = Frame(8, 20)
    empty = frame.pixels()
    frame.write("wide", 2, 10, (9, 9, 9))
    frame.box(2, 30, 5, 5, (9, 9, 9))
    frame.box(0, 0, 5, 0, (9, 9, 9))
    changed = (frame.pixels() != empty).any(axis=2)
    assert changed[:, 10:].any() and not changed[:, :10].any()


def test_a_missing_pillow_is_told_with_its_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    env = registry.make("coop_compete_v0", render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(ImportError, match=r'pip install "core-srl\[render\]"'):
        env.render()
    assert ansi(SCENE)


@pytest.mark.parametrize(
    ("reward", "ceiling", "filled"), [(-1.0, 1.0, 0), (0.0, 1.0, 0), (5.0, 1.0, 20), (1.0, 0.0, 0)]
)
def test_bars_stay_within_their_track(reward, ceiling, filled):
    scene = Scene("", ("a_0",), (0,), (reward,), ("x",), ceiling)
    assert ansi(scene).count("#") == filled
    assert rgb_array(scene).dtype == np.uint8


@pytest.mark.parametrize(
    "name", [n for n in registry.names() if "free text" not in registry.entry(n).tags]
)
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
    if "maze" not in registry.entry(name).tags:
        assert all(word in shown["ansi"] for word in words)
        assert all(agent in shown["ansi"] for agent in env.possible_agents)


def test_the_headline_tells_the_phase():
    env = registry.make("team_battle_v0", warmup_episodes=10, render_mode="ansi", max_cycles=9)
    env.reset(seed=0)
    assert env.render().splitlines()[0] == "team_battle_v0 round 0/9 warmup"
    env.reset(seed=0, options={"episode": 10})
    assert env.render().splitlines()[0] == "team_battle_v0 round 0/9 battle"


def test_the_headline_tells_the_phase_of_the_round_that_is_shown():
    env = registry.make("social_trading_v0", num_agents=3, render_mode="ansi")
    env.reset(seed=0)
    assert env.render().splitlines()[0].endswith("round 0/30 offers")  # what is due
    told = []
    for _ in range(2):
        env.step(dict.fromkeys(env.agents, 0))
        told.append(env.render().splitlines()[0].split()[-1])
    assert told[0] == "offers"
    bandit = registry.make("bandit_v0", render_mode="ansi", max_cycles=4, switch_pull=3)
    bandit.reset(seed=0)
    told = []
    while bandit.agents:
        bandit.step(dict.fromkeys(bandit.agents, 0))
        told.append(bandit.render().splitlines()[0].split()[-1])
    assert told == ["before", "before", "before", "after"]


def test_nothing_is_kept_for_pictures_that_nobody_draws():
    env = registry.make("coop_compete_v0")
    env.reset(seed=0)
    env.step(dict.fromkeys(env.agents, 1))
    assert env._past == []


def test_a_new_episode_begins_with_an_empty_picture():
    env = registry.make("team_battle_v0", render_mode="rgb_array")
    env.reset(seed=0)
    start = env.render()
    env.step(dict.fromkeys(env.agents, 1))
    assert not np.array_equal(env.render(), start)
    env.reset(seed=0, options={"episode": 0})
    assert np.array_equal(env.render(), start)


def test_a_staged_game_shows_who_is_an_adversary():
    env = registry.make("staged_v0", num_agents=4)
    env.reset(seed=0)
    assert env._scene().notes == ("adversary", "", "", "")
    battle = registry.make("team_battle_v0", team_size=(1, 2))
    battle.reset(seed=0)
    assert battle._scene().teams == ("team_a", "team_b", "team_b")
