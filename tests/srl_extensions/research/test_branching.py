"""Branches are tried on copies, worth what the game pays there, and leave the game as it was."""

import threading
from collections import Counter
from functools import partial

import numpy as np
import pytest

from srl_agents.episode import Decision
from srl_agents.errors import PolicyError
from srl_agents.evaluation.replay import replay
from srl_agents.rollout import play_many
from srl_agents.scripted import Uniform
from srl_extensions.research.branching import BranchingGame
from tests.srl_agents.rollout.carry_game import CarryGame


class Draws:
    """Draws 0 or 1 from its seed; counts its memories, which are (name, seed, turn)."""

    def __init__(self):
        self.open = Counter()
        self.made = 0

    def new(self, seed, turn):
        self.made += 1
        self.open[self.made] += 1
        return self.made, seed, turn

    def start(self, seed):
        return self.new(seed, 0)

    def branch(self, state, seed):
        return self.new(seed, state[2])

    async def act(self, seen, states):
        drawn = [np.random.default_rng([seed, turn]).integers(2) for _, seed, turn in states]
        after = [(name, seed, turn + 1) for name, seed, turn in states]
        return [Decision(int(one)) for one in drawn], after

    def leave(self, state):
        self.open[state[0]] -= 1


def paid(episode, agent, turn):
    return sum(step.reward for step in episode.steps_of(agent)[turn:])


def played(policy, seeds=(3, 4, 5), agents=("a", "b"), env=CarryGame, b=None):
    make_game = partial(BranchingGame, branching=agents, count=4, value=paid) if agents else None
    seats = {"a": policy, "b": b or policy}
    return play_many(env, seats, list(seeds), make_game=make_game)


def test_answer_value_uses_the_other_agents_first_answers():
    for episode in played(Draws()):
        a, b = ([s for s in episode.siblings if s.agent == agent] for agent in "ab")
        assert [s.turn for s in a] == [s.turn for s in b] == [0, 1]
        carried = 0
        for turn, (own, other) in enumerate(zip(a, b, strict=True)):
            mine, theirs = ([d.action for d in one.decisions] for one in (own, other))
            assert len(mine) == 4
            assert own.values == tuple(2 * one - theirs[0] + carried for one in mine)
            assert other.values == tuple(2 * one - mine[0] + carried for one in theirs)
            # The episode continued with the best of each, the first of equals.
            chosen = [step.decision for step in episode.turns[turn]]
            assert chosen[0] is own.decisions[own.values.index(max(own.values))]
            assert chosen[1] is other.decisions[other.values.index(max(other.values))]
            carried = chosen[0].action
        assert episode.branch_steps == 2 * (1 + 2 * 3)
        assert len(list(replay(episode, CarryGame()))) == 3
    assert len({d.action for s in episode.siblings for d in s.decisions}) == 2


def test_every_memory_is_released_once():
    policy = Draws()
    again = played(policy)
    assert policy.made >= 3 * (2 + 2 * 2 * 3)
    assert not any(policy.open.values())
    assert [one.siblings for one in again] == [one.siblings for one in played(Draws())]


def test_other_agents_are_not_branched():
    [episode] = played(Draws(), seeds=[3], agents=("a",), b=Uniform(3))
    assert {s.agent for s in episode.siblings} == {"a"}
    [plain] = played(Draws(), seeds=[3], agents=(), b=Uniform(3))
    assert episode.steps_of("b")[0].decision == plain.steps_of("b")[0].decision


def test_policy_without_branches_is_refused():
    with pytest.raises(PolicyError, match=r"b is played by .*, which cannot branch"):
        played(Draws(), b=Uniform(3))


class Connected(CarryGame):
    """Holds what cannot be copied."""

    def reset(self, seed=None, options=None):
        self.connection = threading.Lock()
        return super().reset(seed, options)


def test_environment_without_copies_fails_the_episode():
    policy = Draws()
    [episode] = played(policy, seeds=[0], env=Connected)
    assert episode.failure.startswith("EnvError: carry cannot be copied: ")
    assert not any(policy.open.values())
