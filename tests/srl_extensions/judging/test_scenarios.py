"""Scores in scenarios: returns per capita, outcomes, seeds and failures."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from srl_agents.episode import Decision
from srl_agents.errors import BackendError, PolicyError, RolloutError
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.scripted import Always, Uniform
from srl_agents.scripted.registry import classic_policy
from srl_envs import scenarios
from srl_envs.scenarios import Scenario, scenario
from srl_extensions.judging.scenarios import (
    AT_THE_END,
    JUDGED,
    SUMMED,
    play_scenario,
    score,
)

PAIR = scenario("coop_compete_pair_v0.pavlov")
# Three focal seats and one in the background, without noise: every return is known.
QUIET = Scenario(
    "quiet", "coop_compete_v0", "", ("agent_0", "agent_2", "agent_3"),
    {"agent_1": "always_compete"}, {"num_agents": 4, "max_cycles": 2, "noise_std": 0.0},
)  # fmt: skip


@dataclass
class Named:
    """Policy that always chooses one action, with a name."""

    name: str
    action: int = 1

    def start(self, seed):
        return None

    def act(self, seen, states):
        return [Decision(self.action) for _ in seen], list(states)


class Failing(Named):
    """Policy whose backend raises an error."""

    def act(self, seen, states):
        raise BackendError("the machine is on fire")


class Writer(Named):
    """Policy that always writes the same answer."""

    def act(self, seen, states):
        return [Decision("Answer: 4", text="Answer: 4") for _ in seen], list(states)


def test_returns_are_per_focal_agent():
    result = score(QUIET, Always(1), episodes=3)
    # A cooperator earns 0.7 + 0.25 * 0.6 * 2 / 3 a round, a competitor 0.7 + 0.25 * 0.4 * 0.
    assert result.focal_return == pytest.approx(2 * 0.8)
    assert result.background_return == pytest.approx(2 * 0.7)
    assert result.focal_interval == pytest.approx((1.6, 1.6))
    assert result.cooperation_rate == 1.0, "the background's actions do not count"
    assert (result.parse_failures, result.failed) == (0.0, 0)
    assert result.focal == ("always_cooperate",)


def test_the_seed_determines_the_games():
    one, again, other = (score(PAIR, Uniform(), episodes=6, seed=s) for s in (4, 4, 5))
    assert one == again
    assert one.focal_return != other.focal_return
    against_other = score(PAIR, Always(0), episodes=6, seed=4)
    assert [e.seed for e in one.episodes] == [e.seed for e in against_other.episodes]


def test_episodes_record_policies_and_scenario():
    [episode] = play_scenario(QUIET, [Named("a"), Named("b", 0)], episodes=1)
    assert episode.seats == {
        "agent_0": "a", "agent_1": "always_compete", "agent_2": "b", "agent_3": "a",
    }  # fmt: skip
    assert episode.extra["scenario"] == "quiet"
    assert episode.extra["focal_agents"] == ["agent_0", "agent_2", "agent_3"]


@pytest.mark.parametrize(
    ("names", "seated"),
    [
        ("ab", ["aba", "bab", "aba", "bab"]),
        ("abc", ["abc", "abc", "abc", "abc"]),
        ("abcd", ["abc", "dab", "cda", "bcd"]),
    ],
)
def test_policies_are_assigned_in_order(names, seated):
    result = score(QUIET, [Named(name) for name in names], episodes=4)
    dealt = ["".join(e.seats[seat] for seat in QUIET.focal) for e in result.episodes]
    assert dealt == seated
    assert set(result.focal) == set(names)


def test_failed_episodes_are_counted_and_excluded():
    result = score(PAIR, [Failing("broken"), Named("whole")], episodes=6)
    assert result.failed == 3 and result.focal == ("broken", "whole")
    whole = [e for e in result.episodes if e.failure is None]
    assert result.focal_return == pytest.approx(np.mean([e.focal_return for e in whole]))
    broken = next(e for e in result.episodes if e.failure is not None)
    assert broken.focal_return is None and "on fire" in broken.failure
    with pytest.raises(RolloutError, match=r"every episode .* on fire"):
        score(PAIR, Failing("broken"), episodes=2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: score(PAIR, [], episodes=2), "focal must .* empty"),
        (lambda: score(PAIR, Always(1), episodes=0), "episodes must be .* got 0"),
        (lambda: score(PAIR, Always(1), samples="2"), "samples must be .* got '2'"),
        (lambda: score(PAIR, Always(1), seed=-1), "seed must be .* got -1"),
    ],
)
def test_arguments_out_of_range_are_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize("focal", ["uniform", None, [Always(1), "uniform"], Always])
def test_objects_without_policy_methods_are_refused(focal):
    with pytest.raises(PolicyError, match="focal must be a policy"):
        score(PAIR, focal, episodes=2)
    with pytest.raises(PolicyError, match="exactly one policy"):
        score(PAIR, Always(1), episodes=2, background={"agent_2": Always(1)})


def test_outcomes_by_hand():
    regret = score(scenario("bandit_v0.right_spoils"), Named("right", 1), episodes=3)
    assert regret.outcomes["regret"] == pytest.approx(24 * 0.4)
    race = scenario("maze_race_v0.random_walker")
    result = score(race, classic_policy("explorer", race.make()), episodes=20)
    assert result.outcomes["success"] == result.outcomes["won"] == 1.0
    assert result.background_return < result.focal_return


@pytest.mark.parametrize("name", scenarios.names())
def test_every_scenario_can_be_played_and_scored(name):
    found = scenario(name)
    env = found.make()
    writes = not isinstance(env.action_space(found.focal[0]), Discrete)
    policy = Writer("writer") if writes else classic_policy("uniform", env)
    result = score(found, policy, episodes=2)
    assert result.failed == 0 and np.isfinite(result.focal_return)
    assert (result.background_return is None) == (not found.background)
    json.dumps(result.as_record(), allow_nan=False)


ADAPTS = {  # game -> scripted policy that beats every constant in its scenarios, except in these
    "coop_compete_v0": ("tit_for_tat", {
        "two_and_two_bullies": "alternator", "two_and_two_pavlovs": "pavlov",
        "changing_or_leaving": "alternator",
    }),
    "coop_compete_pair_v0": ("tit_for_tat", {
        "bully": "bully", "pavlov_or_bully": "pavlov", "alternator_or_bully": "bully",
    }),
    "team_battle_v0": ("bully", {
        "against_tit_for_tat": "alternator", "against_bullies": "grim_trigger",
        "against_generous": "grim_trigger", "against_alternators": "suspicious_tit_for_tat",
    }),
    "staged_v0": ("tit_for_tat", {
        "among_bullies": "bully", "adversary_of_a_cooperator": "bully",
        "adversary_of_a_bully": "grim_trigger", "adversary_of_a_generous_one": "alternator",
        "adversary_of_an_alternator": "suspicious_tit_for_tat",
    }),
    "bandit_v0": ("thompson_sampling", {
        "among_learners": "win_stay_lose_shift", "right_spoils_unseen": "win_stay_lose_shift",
    }),
    "coop_compete_v1": ("explore_then_commit", {"strangers_unseen": "tit_for_tat"}),
    "coop_compete_pair_v1": ("tit_for_tat", {}),
    "team_battle_v1": ("explore_then_commit", {}),
    "staged_v1": ("explore_then_commit", {}),
    "bandit_v1": ("win_stay_lose_shift", {}),
}  # fmt: skip
CLOSE = {
    "which_custom", "changing_or_leaving", "among_learners", "three_kinds_unseen", "alone",
    "alone_unseen",
}  # fmt: skip
"""Scenarios in which 16 episodes are too few for a significant difference."""


FAST = ("coop_compete_pair_v0", "bandit_v0")


@pytest.mark.parametrize(
    "game", [pytest.param(g, marks=() if g in FAST else pytest.mark.slow) for g in ADAPTS]
)
def test_adaptation_beats_every_constant_in_matrix_games(game):
    for name in scenarios.names(game):
        if name == "coop_compete_pair_v0.pavlov":
            continue
        found = scenario(name)
        usual, others = ADAPTS[game]
        own = name.partition(".")[2]
        best = classic_policy(others.get(own, usual), found.make())
        episodes = 48 if own in CLOSE else 16
        adapted, *constant = (
            np.array([one.focal_return for one in score(found, who, episodes).episodes])
            for who in (best, Named("0", 0), Named("1", 1))
        )
        for returns in constant:
            low, _ = bootstrap_interval((adapted - returns).tolist(), seed=0)
            assert low > 0, name


def test_a_third_of_the_matrix_scenarios_is_held_out():
    matrix = [name for game in ADAPTS for name in scenarios.names(game)]
    held_out = sum(scenario(name).holdout for name in matrix)
    assert len(matrix) >= 24 and 3 * held_out >= len(matrix)


def test_documentation_explains_every_outcome():
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / "environments" / "scenarios.md").read_text(encoding="utf-8")
    for key in (*AT_THE_END, *SUMMED, *JUDGED):
        assert f"`{key}`" in page
