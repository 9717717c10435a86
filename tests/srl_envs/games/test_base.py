"""Behavior that all games inherit from the base classes."""

from itertools import product

import numpy as np
import pytest

from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import NOISE_BLOCK, OBSERVATION_MODES, VectorLayout, numbers_in
from srl_envs.games.staged import Staged
from tests.srl_envs.kinds import GAMES

every_name = pytest.mark.parametrize("name", GAMES)  # test_task and test_debate have the tasks


def episode(env, seed, options=None):
    """All rewards of a full episode of fixed actions, as one list."""
    env.reset(seed=seed, options=options)
    rewards, turn = [], 0
    while env.agents:
        turn += 1
        actions = {agent: (turn + place) % 3 % 2 for place, agent in enumerate(env.agents)}
        rewards += env.step(actions)[1].values()
    return rewards


def course(env, seed, options=None):
    """All that is seen and earned in a full episode of fixed actions."""
    observations, _ = env.reset(seed=seed, options=options)
    told = [observations[agent].tolist() for agent in env.agents]
    while env.agents:
        seats = list(env.agents)
        observations, rewards, *_ = env.step({a: place % 2 for place, a in enumerate(seats)})
        told += [(rewards[agent], observations[agent].tolist()) for agent in seats]
    return told


@pytest.mark.parametrize("name", ["maze_race_v0", "social_trading_v0"])
@pytest.mark.parametrize("mode", OBSERVATION_MODES)
def test_observation_modes_agree(name, mode):
    env, plain = registry.make(name, obs_mode=mode), registry.make(name)
    observations, _ = env.reset(seed=0)
    expected, infos = plain.reset(seed=0)
    for agent, seen in observations.items():
        vector = seen if mode == "vector" else seen["observation"]
        assert np.array_equal(vector, expected[agent]) and vector.dtype == np.float32
        if mode != "vector":
            assert np.array_equal(seen["action_mask"], infos[agent]["action_mask"])
        keys = {"observation", "action_mask"} | ({"text"} if mode == "llm" else set())
        assert mode == "vector" or set(seen) == keys
        if mode == "llm":
            assert seen["text"] == plain.text_view.describe(agent, vector)


@every_name
def test_unseeded_episodes_continue_the_stream(name):
    after = {"episode": 100}
    env, again = registry.make(name, max_cycles=20), registry.make(name, max_cycles=20)
    first, second = course(env, 1, after), course(env, None, after)
    alike = name in ("maze_simple_v0", "maze_medium_v0", "maze_complex_v0")
    assert (first == second) is alike
    assert (first, second) == (course(again, 1, after), course(again, None, after))
    assert (first == course(env, 2, after)) is alike


class DecidedInRoundTwo(Staged):
    """Staged game that finishes in round two."""

    def play_round(self, chosen, over):
        if self.played == 2:
            self.finished = True
        return super().play_round(chosen, over)


@pytest.mark.parametrize("rounds", [2, 9])
def test_finished_game_is_terminated_not_truncated(rounds):
    env = DecidedInRoundTwo(num_agents=4, max_cycles=rounds)
    for _ in range(2):  # the second episode begins undecided again
        env.reset(seed=0)
        for expected in (False, True):
            _, _, terminations, truncations, _ = env.step(dict.fromkeys(env.agents, 1))
            assert terminations == dict.fromkeys(env.possible_agents, expected)
            assert truncations == dict.fromkeys(env.possible_agents, False)
        assert env.agents == []


@pytest.mark.parametrize("seats", [1, 3, NOISE_BLOCK + 1])
def test_noise_does_not_depend_on_block_size(seats):
    env = registry.make("coop_compete_v0", num_agents=seats, noise_std=0.5, max_cycles=1)
    expected = np.random.default_rng(4).standard_normal(400 * seats).clip(-8.0, 8.0) * 0.5
    drawn = []
    for turn in range(400):
        env.reset(seed=None if turn else 4)
        drawn += env.noise(seats)
    assert drawn == expected.tolist()
    env.reset(seed=4)  # discards unused numbers of the first stream
    assert env.noise(seats) == drawn[:seats]


@every_name
def test_new_max_cycles_applies_from_the_next_reset(name):
    env = registry.make(name, max_cycles=3)
    assert len(episode(env, 0)) == 3 * len(env.possible_agents)
    env.max_cycles = 5
    assert len(episode(env, 0)) == 5 * len(env.possible_agents)
    observations, _ = env.reset()
    said = env.text_view.describe(env.agents[0], observations[env.agents[0]])
    assert said.startswith(("Round 1 of 5.", "Step 1 of 5."))
    env.max_cycles = 0
    with pytest.raises(EnvConfigError, match="max_cycles"):
        env.reset()


IMPOSSIBLE = [
    (
        lambda actions: actions | {next(iter(actions)): 10**6},
        "action 1000000 of .*_0 is outside Discrete",
    ),
    (lambda actions: actions | {next(iter(actions)): -1}, "action -1 of .*_0 is outside"),
    (lambda actions: actions | {next(iter(actions)): 1.0}, "action 1.0 of .*_0 is outside"),
    (lambda actions: actions | {next(iter(actions)): "cooperate"}, "'cooperate' .* is outside"),
    (lambda actions: actions | {next(iter(actions)): np.array([1])}, "is outside"),
    (lambda actions: dict(list(actions.items())[1:]), "no action for .*_0: step.. needs one"),
    (lambda actions: actions | {"nobody_7": 1}, "an action for 'nobody_7', which is not among"),
    (lambda actions: list(actions.values()), "must be a mapping"),
    (lambda actions: {}, "no action for"),
]


@every_name
def test_invalid_actions_raise_and_change_nothing(name):
    env, untouched = registry.make(name), registry.make(name)
    for change, said in IMPOSSIBLE:
        env.reset(seed=0)
        untouched.reset(seed=0)
        actions = dict.fromkeys(env.agents, 1)
        with pytest.raises(EnvError, match=said):
            env.step(change(actions))
        assert env.step(actions)[1] == untouched.step(actions)[1], said


@every_name
def test_wrong_order_of_calls(name):
    env = registry.make(name, max_cycles=1, render_mode="ansi")
    for early in (lambda: env.step({}), env.state, env.render):
        with pytest.raises(EnvError, match=r"reset\(\)"):
            early()
    episode(env, 0)
    with pytest.raises(EnvError, match="without a running episode"):
        env.step(dict.fromkeys(env.possible_agents, 0))
    assert env.step({}) == ({},) * 5


@every_name
def test_returned_objects_belong_to_the_caller(name):
    env, untouched = (registry.make(name, max_cycles=400) for _ in range(2))
    kept = []
    for one in (env, untouched):
        one.reset(seed=0, options={"episode": 100})
    while env.agents and len(kept) < 400:
        actions = {a: (len(kept) + place) % 2 for place, a in enumerate(env.agents)}
        spoilt, expected = env.step(actions), untouched.step(actions)
        for agent in actions:
            assert np.array_equal(spoilt[0][agent], expected[0][agent])
            assert np.array_equal(
                spoilt[4][agent]["action_mask"], expected[4][agent]["action_mask"]
            )
            spoilt[0][agent][:] = -7.0
            spoilt[4][agent]["action_mask"][:] = 9
        assert spoilt[1:4] == expected[1:4]
        for part in spoilt:
            part.clear()
        kept.append((expected[0], {agent: seen.copy() for agent, seen in expected[0].items()}))
    for shown, as_it_was in kept:  # nothing that was handed out is written again
        assert all(np.array_equal(shown[agent], as_it_was[agent]) for agent in shown)


def test_packed_fields_contain_the_numbers_of_an_observation():
    layout = VectorLayout({"time": 1, "own": 2})
    for dtype in (np.float32, np.float64):
        time, own = layout.packed(np.array([0.5, 1.0, -2.25], dtype))
        assert numbers_in(time) == [0.5] and numbers_in(own) == [1.0, -2.25]
    assert layout.packed({"observation": np.array([0.5, 1.0, -2.25])}) == (time, own)


@pytest.mark.parametrize("rounds", [3, 6])
def test_optimum_of_a_maze_is_the_return_of_the_best_of_all_ways(rounds):
    env, found = registry.make("maze_v0", layout=["A..", "#.#", "..G"], max_cycles=rounds), []
    for ways in product(range(4), repeat=rounds):
        env.reset()
        found.append(sum(env.step({"agent_0": way})[1]["agent_0"] for way in ways if env.agents))
    before, known = env.state(), env.baselines()
    assert known["optimum"] == pytest.approx(max(found)) and (env.state() == before).all()


def test_optimum_of_negotiations_agrees_with_the_last_infos():
    env, found = registry.make("social_negotiation_v0", offers="simultaneous", max_cycles=1), []
    for seed in range(64):
        env.reset(seed=seed)
        end = env.step(dict.fromkeys(env.agents, 0))[4]["agent_0"]
        found.append(sum(end["utilities"].values()) / 2 / end["welfare_share"])
    assert env.baselines()["optimum"] == pytest.approx(np.mean(found))
