"""Samples from episodes: order of tokens, masks, rewards, complete groups."""

from dataclasses import replace

import numpy as np
import pytest

from srl_agents.episode import AgentStep, Decision, End, Episode, ModelVersion, Tokens
from srl_extensions.ppo.values import generalized_advantages
from srl_train.samples import TokenSample, sample_of, samples_for
from srl_train.trajectory import shaped_game

FIRST = Tokens((1, 2, 3), (10, 11), (-0.5, -0.25), ModelVersion("m", 3))
SECOND = Tokens((4, 5), (12,), (-1.0,), ModelVersion("m", 3))
CHOSEN = Tokens((6,), (13, 14), (-2.0, 0.0), ModelVersion("m", 3), allowed=((13, 15), (14,)))


def step(agent, tokens, reward=0.0):
    return AgentStep(agent, None, Decision(action=0, text="x", tokens=tokens), reward)


def episode(*turns, seed=5, failure=None, seats=("a",)):
    return Episode("g", seed, dict.fromkeys(seats, "m"), tuple(turns), failure)


def sampled(played, agent, rewards, discount=1.0, advantages=None):
    """The agent's sample, its turns paid these rewards."""
    one = shaped_game(played, (agent,), lambda raw: {agent: rewards}, 0.0)[agent]
    return sample_of(replace(one, advantages=advantages), discount=discount, round_number=0)


def test_an_episode_of_one_step():
    sample = sampled(episode((step("a", FIRST),)), "a", [1.5], discount=0.5)
    assert sample == TokenSample(
        prompt_ids=(1, 2, 3),
        completion_ids=(10, 11),
        mask=(1, 1),
        logprobs=(-0.5, -0.25),
        allowed=None,
        turns=((0, 2),),
        elapsed=(1,),
        rewards=(1.5,),
        episode_return=1.5,
        group=(0, 5, "a"),
        version=3,
    )


def test_later_steps_are_appended_and_observations_are_masked():
    turns = [(step("a", FIRST), step("b", CHOSEN)), (step("a", SECOND),), (step("a", CHOSEN),)]
    played = episode(*turns, seats=("a", "b"))
    sample = sampled(played, "a", [1.0, 2.0, 4.0], discount=0.5, advantages=(3.0, 0.0, -1.0))
    assert sample.prompt_ids == (1, 2, 3)
    #                               answer | told | answer | told | constrained answer
    assert sample.completion_ids == (10, 11, 4, 5, 12, 6, 13, 14)
    assert sample.mask == (1, 1, 0, 0, 1, 0, 1, 0)
    assert sample.logprobs == (-0.5, -0.25, 0.0, 0.0, -1.0, 0.0, -2.0, 0.0)
    assert sample.allowed == (None, None, None, None, None, None, (13, 15), (14,))
    assert sample.turns == ((0, 2), (4, 5), (6, 8))
    assert (sample.rewards, sample.episode_return) == ((1.0, 2.0, 4.0), 3.0)
    assert sample.advantages == (3.0, 0.0, -1.0)


def test_the_last_observation_is_not_part_of_the_completion():
    turns = [(step("a", FIRST), step("b", CHOSEN))]
    played = replace(
        episode(*turns, seats=("a", "b")),
        states=(np.zeros(2, np.float32),),
        ends={"a": End(True, "seen", (7, 8), np.full(2, 0.5, np.float32)), "b": End(False)},
    )
    cut, over = (sampled(played, seat, [1.0], discount=0.5) for seat in ("a", "b"))
    assert (cut.closing_ids, cut.closing_state) == ((7, 8), (0.5, 0.5))
    assert (over.closing_ids, over.closing_state) == (None, None)
    assert replace(cut, closing_ids=None, closing_state=None) == sampled(
        replace(played, ends={}), "a", [1.0], discount=0.5
    )


@pytest.mark.parametrize("turns", [[None], [FIRST, None]])
def test_a_decision_without_tokens_cannot_be_trained_on(turns):
    played = episode(*[(step("a", tokens),) for tokens in turns])
    with pytest.raises(ValueError, match=f"a answered turn {len(turns) - 1} without tokens"):
        sampled(played, "a", [0.0] * len(turns))


def test_samples_are_ordered_by_agent_and_group():
    seats = ("a", "b")
    played = [
        episode((step("a", FIRST), step("b", SECOND)), seed=seed, seats=seats)
        for seed in (7, 7, 8, 8)
    ]
    games = [
        shaped_game(one, seats, lambda raw, i=i: {"a": [float(i)], "b": [10.0 + i]}, 0.0)
        for i, one in enumerate(played)
    ]
    samples, left_out = samples_for(
        dict.fromkeys("ba", games), group_size=2, discount=1.0, round_number=2
    )
    assert left_out == {"a": 0, "b": 0}
    assert [s.group for s in samples] == [
        *[(2, 7, "b")] * 2, *[(2, 8, "b")] * 2, *[(2, 7, "a")] * 2, *[(2, 8, "a")] * 2,
    ]  # fmt: skip
    assert [s.episode_return for s in samples] == [10.0, 11.0, 12.0, 13.0, 0.0, 1.0, 2.0, 3.0]
    assert [s.prompt_ids for s in samples] == [SECOND.prompt_ids] * 4 + [FIRST.prompt_ids] * 4
    assert {s.version for s in samples} == {3}


def not_asked(agent):
    return AgentStep(agent, None, Decision(action=0, asked=False), 0.0)


def test_rewards_of_steps_without_a_query_count_for_the_previous_answer():
    turns = [not_asked("a"), step("a", FIRST), not_asked("a"), not_asked("a"), step("a", CHOSEN),
             not_asked("a")]  # fmt: skip
    played = replace(
        episode(*[(one,) for one in turns]), states=tuple(np.full(1, float(n)) for n in range(6))
    )
    sample = sampled(played, "a", [64.0, 1.0, 2.0, 4.0, 8.0, 16.0], discount=0.5,
                     advantages=(0.0, 1.0, 0.0, 0.0, 2.0, 0.0))  # fmt: skip
    assert sample.prompt_ids == (1, 2, 3) and sample.completion_ids == (10, 11, 6, 13, 14)
    assert sample.turns == ((0, 2), (3, 5)) and sample.elapsed == (3, 2)
    assert sample.rewards == (1 + 2 / 2 + 4 / 4, 8 + 16 / 2)
    assert sample.episode_return == 64 + 1 / 2 + 2 / 4 + 4 / 8 + 8 / 16 + 16 / 32
    # From the first step on, GAE without a critic gives the same return.
    discounts = [0.5**steps for steps in sample.elapsed]
    worth = generalized_advantages(sample.rewards, [0.0] * 3, discounts, 1.0)
    assert 64 + 0.5 * worth[0] == sample.episode_return
    assert sample.advantages == (1.0, 2.0)
    assert sample.states == ((1.0,), (4.0,))


def test_an_agent_that_was_never_queried_has_no_sample():
    played = episode((not_asked("a"), step("b", FIRST)), seats=("a", "b", "c"))
    for seat, rewards in (("a", [1.0]), ("c", [])):
        assert sampled(played, seat, rewards) is None


def test_groups_in_which_an_agent_was_never_queried_are_left_out_for_it():
    both, alone = (step("a", FIRST), step("b", SECOND)), (step("a", FIRST),)
    played = [episode(turn, seed=number // 2, seats=("a", "b"))
              for number, turn in enumerate((both, both, both, alone, alone, alone))]  # fmt: skip
    games = [shaped_game(one, "ab", lambda raw: raw, 0.0) for one in played]
    samples, left_out = samples_for(
        dict.fromkeys("ab", games), group_size=2, discount=1.0, round_number=0
    )
    assert [one.group for one in samples] == [
        *[(0, start, "a") for start in (0, 0, 1, 1, 2, 2)], (0, 0, "b"), (0, 0, "b"),
    ]  # fmt: skip
    assert left_out == {"a": 0, "b": 4}
