"""Solved problems and pass@k: by hand, by enumeration, and from episodes."""

import json
import re
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest

from srl_agents.episode import Decision
from srl_agents.errors import BackendError
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.scripted.registry import classic_policy
from srl_envs.scenarios import scenario
from srl_extensions.judging.scenarios import (
    check_pass_at,
    pass_at_k,
    play_scenario,
    score,
    scored,
    solved,
)

DIGITS = scenario("math_v0.one_digit_unseen")


@dataclass
class Pupil:
    """Policy that adds and subtracts, with a wrong answer in half of the cases."""

    name: str = "pupil"
    right: float = 0.5

    def start(self, seed):
        return np.random.default_rng(seed)

    def act(self, seen, states):
        pairs = zip(seen, states, strict=True)
        said = [self.answer(one.observation["text"], rng) for one, rng in pairs]
        return [Decision(text, text=text) for text in said], list(states)

    def answer(self, told, rng):
        first, sign, second = re.search(r"(\d) ([+-]) (\d)", told).groups()
        truth = int(first) + int(second) if sign == "+" else int(first) - int(second)
        return f"Answer: {truth if rng.random() < self.right else 99}"


class Broken(Pupil):
    """Policy whose backend raises an error."""

    def act(self, seen, states):
        raise BackendError("the machine is on fire")


def test_samples_share_a_problem():
    played = play_scenario(DIGITS, Pupil(), 6, seed=1, samples=8)
    assert len(played) == 48
    problems = [episode.turns[-1][0].info["problem"] for episode in played]
    answers = [episode.turns[-1][0].decision.text for episode in played]
    for start in range(0, 48, 8):
        assert len(set(problems[start : start + 8])) == 1
        assert len({episode.seed for episode in played[start : start + 8]}) == 1
    assert any(len(set(answers[start : start + 8])) == 2 for start in range(0, 48, 8))
    once = play_scenario(DIGITS, Pupil(), 6, seed=1)
    assert [episode.seed for episode in once] == [episode.seed for episode in played[::8]]


def test_shares_and_estimates_follow_the_counts():
    with pytest.raises(ValueError, match="pass_at must be"):
        score(DIGITS, Pupil(), 2, samples=2, pass_at=(3,))
    result = score(DIGITS, Pupil(right=0.3), 12, seed=2, samples=4, pass_at=(4, 1, 2))
    found = result.solved
    assert [one.n for one in found.problems] == [4] * 12
    # The same counts, from the episodes.
    counts = [
        sum(episode.returns["agent_0"] == 1.0 for episode in result.episodes[start : start + 4])
        for start in range(0, 48, 4)
    ]
    assert [one.c for one in found.problems] == counts and 0 < sum(counts) < 48
    assert found.share == pytest.approx(sum(counts) / 48)
    assert [one.k for one in found.pass_at] == [1, 2, 4]
    for one in found.pass_at:
        own = [pass_at_k(4, c, one.k) for c in counts]
        assert one.estimate == pytest.approx(np.mean(own)) and one.problems == 12
        names = [each.problem for each in found.problems]
        assert one.interval == bootstrap_interval(own, 2, names)
        assert one.interval[0] < one.estimate < one.interval[1]
    assert found.pass_at[0].estimate == found.share
    assert found.pass_at[2].estimate == pytest.approx(np.mean([c > 0 for c in counts]))
    assert result.outcomes["success"] == pytest.approx(found.share)


def test_intervals_are_over_problems():
    """More samples do not narrow intervals if each problem is always or never solved."""

    class Certain(Pupil):
        def answer(self, told, rng):
            return super().answer(told, np.random.default_rng(len(told) + ord(told[0])))

    few = score(DIGITS, Certain(), 10, samples=1)
    many = score(DIGITS, Certain(), 10, samples=6)
    assert few.solved.share == many.solved.share not in (0.0, 1.0)
    assert many.solved.interval == pytest.approx(few.solved.interval)
    assert many.focal_interval == pytest.approx(few.focal_interval)


def test_record_has_the_difficulty_of_each_problem():
    both = replace(DIGITS, options={"difficulty": (1, 2), "max_cycles": 1})

    class Guess(Pupil):
        def answer(self, told, rng):
            return f"Answer: {rng.integers(4)}"

    record = json.loads(json.dumps(score(both, Guess(), 30, samples=2).as_record()))["solved"]
    assert {one["difficulty"] for one in record["problems"]} == {1, 2}
    assert record["pass_at"][1]["k"] == 2 and len(record["pass_at"][1]["interval"]) == 2


def test_failed_samples_are_excluded():
    played = play_scenario(DIGITS, Pupil(), 4, samples=3)
    broken = play_scenario(DIGITS, Broken(), 4, samples=3)
    mixed = [*broken[:1], *played[1:3], *broken[3:6], *played[6:]]
    found = scored(DIGITS, mixed, 0).solved
    assert [one.n for one in found.problems] == [2, 0, 3, 3]
    assert [(one.k, one.problems) for one in found.pass_at] == [(1, 3), (3, 2)]
    nobody = solved(DIGITS, [*played[:2], *broken[2:3]], 0, pass_at=(3,)).pass_at[0]
    assert (nobody.estimate, nobody.interval, nobody.problems) == (None, None, 0)
    with pytest.raises(ValueError, match=r"every episode of .* failed"):
        solved(DIGITS, broken, 0)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("coop_compete_pair_v0.pavlov", "'success'"),
        ("debate_v0.both_sides", "2 focal agents"),
    ],
)
def test_games_without_problems_are_refused(name, says):
    with pytest.raises(ValueError, match=says):
        check_pass_at(scenario(name), 1, (1,))
    if name.startswith("coop"):
        pavlov = scenario(name)
        with pytest.raises(ValueError, match=says):
            score(pavlov, classic_policy("pavlov", pavlov.make()), 2, pass_at=(1,))


def test_pass_at_k_is_the_share_of_subsets_with_a_solution():
    for n, c, k in product(range(1, 8), range(8), range(1, 8)):
        if c <= n and k <= n:
            chosen = list(combinations(range(n), k))
            share = sum(min(one) < c for one in chosen) / len(chosen)
            assert pass_at_k(n, c, k) == pytest.approx(share)
    assert pass_at_k(2000, 1, 1000) == pytest.approx(0.5)
