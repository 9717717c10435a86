"""From episodes to samples: tokens in order, masks, rewards, whole groups."""

import pytest

from srl_agents.episode import AgentStep, Decision, Episode, Tokens
from srl_train.samples import TokenSample, complete_groups, per_token, sample_of, samples_for

FIRST = Tokens((1, 2, 3), (10, 11), (-0.5, -0.25), "m@3")
SECOND = Tokens((4, 5), (12,), (-1.0,), "m@3")
CHOSEN = Tokens((6,), (13, 14), (-2.0, 0.0), "m@3", allowed=((13, 15), (14,)))


def step(agent, tokens, reward=0.0):
    return AgentStep(agent, None, Decision(action=0, text="x", tokens=tokens), reward)


def episode(*turns, seed=5, failure=None, seats=("a",)):
    return Episode("g", seed, dict.fromkeys(seats, "m"), tuple(turns), failure)


def test_one_turn():
    sample = sample_of(episode((step("a", FIRST),)), "a", [1.5], discount=0.5,
                       group=(0, 5, "a"), version=3)  # fmt: skip
    assert sample == TokenSample(
        prompt_ids=(1, 2, 3),
        completion_ids=(10, 11),
        mask=(1, 1),
        logprobs=(-0.5, -0.25),
        allowed=None,
        turns=((0, 2),),
        rewards=(1.5,),
        episode_return=1.5,
        group=(0, 5, "a"),
        version=3,
    )


def test_later_turns_are_appended_and_what_was_told_is_masked():
    turns = [(step("a", FIRST), step("b", CHOSEN)), (step("a", SECOND),), (step("a", CHOSEN),)]
    played = episode(*turns, seats=("a", "b"))
    sample = sample_of(played, "a", [1.0, 2.0, 4.0], discount=0.5, advantages=[3.0, 0.0, -1.0],
                       group=(0, 5, "a"), version=0)  # fmt: skip
    assert sample.prompt_ids == (1, 2, 3)
    #                               answer | told | answer | told | constrained answer
    assert sample.completion_ids == (10, 11, 4, 5, 12, 6, 13, 14)
    assert sample.mask == (1, 1, 0, 0, 1, 0, 1, 1)
    assert sample.logprobs == (-0.5, -0.25, 0.0, 0.0, -1.0, 0.0, -2.0, 0.0)
    assert sample.allowed == (None, None, None, None, None, None, (13, 15), (14,))
    assert sample.turns == ((0, 2), (4, 5), (6, 8))
    assert (sample.rewards, sample.episode_return) == ((1.0, 2.0, 4.0), 3.0)
    assert per_token(sample, sample.advantages) == [3.0, 3.0, 0.0, 0.0, 0.0, 0.0, -1.0, -1.0]


def test_a_constrained_seat_from_its_first_turn():
    sample = sample_of(episode((step("a", CHOSEN),)), "a", [0.0], discount=1.0,
                       group=(0, 5, "a"), version=0)  # fmt: skip
    assert sample.prompt_ids == (6,)
    assert sample.allowed == ((13, 15), (14,))


@pytest.mark.parametrize("turns", [[None], [FIRST, None]])
def test_a_decision_without_tokens_cannot_be_trained_on(turns):
    played = episode(*[(step("a", tokens),) for tokens in turns])
    with pytest.raises(ValueError, match=f"a answered turn {len(turns) - 1} without tokens"):
        sample_of(played, "a", [0.0] * len(turns), discount=1.0, group=(0, 5, "a"), version=0)


@pytest.mark.parametrize("rewards, advantages", [([], None), ([0.0, 1.0], None), ([0.0], [])])
def test_every_turn_has_one_reward_and_one_advantage(rewards, advantages):
    with pytest.raises(ValueError, match="a has 1 turns and"):
        sample_of(episode((step("a", FIRST),)), "a", rewards, discount=1.0, advantages=advantages,
                  group=(0, 5, "a"), version=0)  # fmt: skip


def test_samples_go_seat_by_seat_with_groups_together():
    seats = ("a", "b")
    played = [
        episode((step("a", FIRST), step("b", SECOND)), seed=seed, seats=seats)
        for seed in (7, 7, 8, 8)
    ]
    shaped = [{"a": [float(i)], "b": [10.0 + i]} for i in range(4)]
    samples = samples_for(("b", "a"), played, shaped, discount=1.0, round_number=2, version=6)
    assert [s.group for s in samples] == [
        *[(2, 7, "b")] * 2, *[(2, 8, "b")] * 2, *[(2, 7, "a")] * 2, *[(2, 8, "a")] * 2,
    ]  # fmt: skip
    assert [s.episode_return for s in samples] == [10.0, 11.0, 12.0, 13.0, 0.0, 1.0, 2.0, 3.0]
    assert [s.prompt_ids for s in samples] == [SECOND.prompt_ids] * 4 + [FIRST.prompt_ids] * 4
    assert {s.version for s in samples} == {6}


def test_a_group_with_a_failed_member_is_left_out_whole():
    played = [episode(seed=seed, failure="BackendError: x" if seed == 4 else None)
              for seed in range(9)]  # fmt: skip
    kept, left_out = complete_groups(played, 3)
    assert [e.seed for e in kept] == [0, 1, 2, 6, 7, 8]
    assert [e.seed for e in left_out] == [3, 4, 5]


@pytest.mark.parametrize("failures, left", [((), 0), ((0,), 2), ((1, 2), 4), ((0, 1), 2)])
def test_how_many_are_left_out(failures, left):
    played = [episode(failure="x" if i in failures else None) for i in range(6)]
    kept, left_out = complete_groups(played, 2)
    assert (len(kept), len(left_out)) == (6 - left, left)
