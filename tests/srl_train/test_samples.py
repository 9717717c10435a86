"""From episodes to samples: tokens in order, masks, rewards, whole groups."""

import pytest

from srl_agents.episode import AgentStep, Decision, Episode, Tokens
from srl_train.samples import TokenSample, complete_groups, sample_of, samples_for

FIRST = Tokens((1, 2, 3), (10, 11), (-0.5, -0.25), "m@3")
SECOND = Tokens((4, 5), (12,), (-1.0,), "m@3")
CHOSEN = Tokens((6,), (13, 14), (-2.0, 0.0), "m@3", allowed=((13, 15), (14,)))


def step(agent, tokens, reward=0.0):
    return AgentStep(agent, None, Decision(action=0, text="x", tokens=tokens), reward)


def episode(*turns, seed=5, failure=None, seats=("a",)):
    return Episode("g", seed, dict.fromkeys(seats, "m"), tuple(turns), failure)


def test_one_turn():
    sample = sample_of(episode((step("a", FIRST),)), "a", 1.5, (0, 5, "a"), 3)
    assert sample == TokenSample(
        prompt_ids=(1, 2, 3),
        completion_ids=(10, 11),
        mask=(1, 1),
        logprobs=(-0.5, -0.25),
        allowed=None,
        reward=1.5,
        group=(0, 5, "a"),
        version=3,
    )


def test_later_turns_are_appended_and_what_was_told_is_masked():
    turns = [(step("a", FIRST), step("b", CHOSEN)), (step("a", SECOND),), (step("a", CHOSEN),)]
    sample = sample_of(episode(*turns, seats=("a", "b")), "a", 0.0, (0, 5, "a"), 0)
    assert sample.prompt_ids == (1, 2, 3)
    #                               answer | told | answer | told | constrained answer
    assert sample.completion_ids == (10, 11, 4, 5, 12, 6, 13, 14)
    assert sample.mask == (1, 1, 0, 0, 1, 0, 1, 1)
    assert sample.logprobs == (-0.5, -0.25, 0.0, 0.0, -1.0, 0.0, -2.0, 0.0)
    assert sample.allowed == (None, None, None, None, None, None, (13, 15), (14,))


def test_a_constrained_seat_from_its_first_turn():
    sample = sample_of(episode((step("a", CHOSEN),)), "a", 0.0, (0, 5, "a"), 0)
    assert sample.prompt_ids == (6,)
    assert sample.allowed == ((13, 15), (14,))


@pytest.mark.parametrize("turns", [[None], [FIRST, None]])
def test_a_decision_without_tokens_cannot_be_trained_on(turns):
    played = episode(*[(step("a", tokens),) for tokens in turns])
    with pytest.raises(ValueError, match=f"a answered turn {len(turns) - 1} without tokens"):
        sample_of(played, "a", 0.0, (0, 5, "a"), 0)


def test_samples_go_seat_by_seat_with_groups_together():
    seats = ("a", "b")
    played = [
        episode((step("a", FIRST), step("b", SECOND)), seed=seed, seats=seats)
        for seed in (7, 7, 8, 8)
    ]
    shaped = [{"a": float(i), "b": 10.0 + i} for i in range(4)]
    samples = samples_for(("b", "a"), played, shaped, round_number=2, version=6)
    assert [s.group for s in samples] == [
        *[(2, 7, "b")] * 2, *[(2, 8, "b")] * 2, *[(2, 7, "a")] * 2, *[(2, 8, "a")] * 2,
    ]  # fmt: skip
    assert [s.reward for s in samples] == [10.0, 11.0, 12.0, 13.0, 0.0, 1.0, 2.0, 3.0]
    assert [s.prompt_ids for s in samples] == [SECOND.prompt_ids] * 4 + [FIRST.prompt_ids] * 4
    assert {s.version for s in samples} == {6}


def test_shaped_returns_must_match_the_episodes():
    with pytest.raises(ValueError, match="shorter"):
        samples_for(("a",), [episode((step("a", FIRST),))] * 2, [{"a": 0.0}], round_number=0,
                    version=0)  # fmt: skip


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
