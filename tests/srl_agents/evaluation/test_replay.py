"""Replays of recorded episodes; modified records are rejected."""

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from srl_agents.episode import Decision, from_json, to_json
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.replay import remade, replay
from srl_agents.rollout import play, play_many
from srl_agents.scripted import Always
from srl_agents.scripted.registry import classic_policy
from srl_envs import registry
from srl_envs.games.maze_levels import LAYOUTS
from srl_envs.text import TextEnv
from srl_envs.wrappers import CustomRewards
from tests.srl_envs.kinds import writes


def recorded(name, *, seed=5, reset_options=None, **options):
    """Return an episode read from its record."""
    env = registry.make(name, **options)
    seats = dict.fromkeys(env.possible_agents, classic_policy("uniform", env))
    wanted = None if reset_options is None else [reset_options]
    [episode] = play_many(lambda: env, seats, [seed], reset_options=wanted)
    return from_json(to_json(episode))


PICTURED = [name for name in registry.names() if not writes(name)]


@pytest.mark.parametrize("name", sorted(set(registry.names()) - set(PICTURED)))
def test_answers_are_replayed(name):
    env = registry.make(name, max_cycles=3)
    seats = dict.fromkeys(env.possible_agents, Says("Answer: 1", "Answer: 1"))
    [episode] = play_many(lambda: env, seats, [5])
    episode = from_json(to_json(episode))
    again = list(replay(episode, remade(episode, render_mode="ansi")))
    assert len(again) == 1 + len(episode.turns) and "Answer: 1" in again[1]


@pytest.mark.parametrize("name", PICTURED)
def test_every_environment_is_replayed(name):
    options = {} if "social" in name else {"max_cycles": 12}
    episode = recorded(name, reset_options={"episode": 30}, **options)
    assert episode.made_as == {"name": name, "options": options}
    frames = list(replay(episode, remade(episode)))
    assert len(frames) == 1 + len(episode.turns)
    assert {(frame.shape, frame.dtype) for frame in frames} == {(frames[0].shape, np.dtype("u1"))}
    assert all(not np.array_equal(*two) for two in pairwise(frames))
    again = list(replay(episode, remade(episode, render_mode=None)))
    assert again == [None] * len(frames)


def test_options_and_reset_options_are_restored():
    episode = recorded("maze_v0", width=5, height=5, split="any", reset_options={"level_seed": 7})
    env = remade(episode)
    list(replay(episode, env))
    assert (env.width, env.level.seed) == (5, 7)


def change(episode, **changes):
    """Return the episode with a changed step of agent_1 in turn 2."""
    first, (one, two), *rest = episode.turns
    changed = dataclasses.replace(two, **changes)
    return dataclasses.replace(episode, turns=(first, (one, changed), *rest))


@pytest.fixture(scope="module")
def episode():
    return recorded("coop_compete_pair_v0", max_cycles=3)


def with_action(episode, action):
    decision = dataclasses.replace(episode.turns[1][1].decision, action=action)
    return change(episode, decision=decision)


FORGERIES = {
    "reward": (
        lambda one: change(one, reward=one.turns[1][1].reward + 1e-6),
        "^turn 2, agent_1: the recorded reward",
    ),
    "action": (
        lambda one: with_action(one, 1 - one.turns[1][1].decision.action),
        "^turn 2, agent_0",
    ),
    "impossible action": (lambda one: with_action(one, 9), "turn 2 .* action 9 of agent_1"),
    "start": (lambda one: dataclasses.replace(one, seed=6), "^turn 1, agent_0"),
    "too few turns": (
        lambda one: dataclasses.replace(one, turns=one.turns[:2]),
        "ends after turn 2",
    ),
    "too many turns": (
        lambda one: dataclasses.replace(one, turns=(*one.turns, one.turns[0])),
        "turn 4: .* active are none",
    ),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_modified_record_is_rejected(episode, forgery):
    forge, reason = FORGERIES[forgery]
    forged = forge(episode)
    with pytest.raises(EpisodeError, match=reason):
        list(replay(forged, remade(forged)))


def test_a_failed_episode_replays_to_its_failure(episode):
    failed = dataclasses.replace(
        episode, turns=episode.turns[:2], ends={}, failure="BackendError: gone"
    )
    assert len(list(replay(failed, remade(failed)))) == 3


@pytest.mark.parametrize(
    "made",
    [
        {"name": "os:system", "options": {"command": "echo started"}},
        {"name": "debate_v0", "options": {"judge": "os:getpid"}},
        {"name": "multitask_v0", "options": {"environments": {"a": {"name": "os:getpid"}}}},
    ],
)
def test_a_record_cannot_run_code(episode, made):
    forged = dataclasses.replace(episode, made_as=made)
    with pytest.raises(EpisodeError, match=r"is code that a record names.*, or construct the env"):
        remade(forged, render_mode=None)


def test_a_trusted_record_may_name_code(episode):
    made = {
        "name": "srl_envs.games.coop_compete:parallel_env",
        "options": episode.made_as["options"],
    }
    options = {"variant": "pair", "num_agents": 2} | made["options"]
    trusted = dataclasses.replace(episode, made_as=made | {"options": options})
    assert len(list(replay(trusted, remade(trusted, trusted=True)))) == 4


class Says:
    """Policy with one constant action."""

    def __init__(self, action, text=None):
        self.decision = Decision(action, text)

    def start(self, seed):
        return None

    def act(self, seen, states):
        return [self.decision] * len(seen), list(states)


@pytest.mark.parametrize("wrap", [TextEnv, CustomRewards])
def test_a_wrapped_environment_is_replayed_with_its_wrapper(wrap):
    def make():
        return wrap(registry.make("coop_compete_pair_v0", max_cycles=2, render_mode="ansi"))

    seats = dict.fromkeys(make().possible_agents, Says("compete" if wrap is TextEnv else 0))
    episode = play(make(), seats, seed=0)
    assert episode.made_as is None
    with pytest.raises(EpisodeError, match="construct the environment yourself and call replay"):
        remade(episode)
    shown = list(replay(from_json(to_json(episode)), make()))
    assert shown[-1].startswith("coop_compete_v0 round 2/2")


def test_options_that_are_not_plain_data_are_not_recorded():
    level = LAYOUTS["simple"]
    env = registry.make("maze_v0", layout=level, max_cycles=2)
    episode = play(env, {"agent_0": Always(0)}, seed=0)
    assert env.made_as["options"]["layout"] is level and episode.made_as is None
    assert json.loads(to_json(episode))["made_as"] is None
