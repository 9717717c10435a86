"""Failures of environments, backends and policies in play and play_many."""

import re
from dataclasses import replace

import pytest

from srl_agents import rollout
from srl_agents.rollout import play, play_many
from srl_agents.scripted import Always
from srl_envs import make
from tests.srl_agents.rollout.test_rollout import Ledger, Scribe


def games(*envs):
    waiting = iter(envs)
    return lambda: next(waiting)


def test_an_environment_error_fails_only_its_own_episode():
    seats = {"a": Scribe("p"), "b": Scribe("q")}
    make = games(Ledger(), Ledger(breaks_at=1), Ledger())
    whole = [play(Ledger(), seats, seed) for seed in (1, 2, 3)]
    episodes = play_many(make, seats, [1, 2, 3])
    assert [episodes[0], episodes[2]] == [whole[0], whole[2]]
    assert episodes[1] == replace(
        whole[1], turns=whole[1].turns[:1], ends={}, failure="EnvError: it broke"
    )


def test_rewards_without_an_acting_agent_are_an_environment_error():
    class Misspelled(Ledger):
        def step(self, actions):
            observations, rewards, *rest = super().step(actions)
            return observations, {"a": rewards["a"], "bb": rewards["b"]}, *rest

    episode = play(Misspelled(), {"a": Scribe("p"), "b": Scribe("q")}, 1)
    assert re.fullmatch(
        r"EnvError: .* must include each acting agent \(a, b\), got a, bb: b is missing",
        episode.failure,
    )


def test_other_exceptions_are_raised_and_environments_closed():
    class Faulty(Scribe):
        def act(self, seen, states):
            raise KeyError("programming error")

    made = [Ledger(), Ledger()]
    seats = dict.fromkeys("ab", Faulty("p"))
    with pytest.raises(KeyError):
        play(Ledger(), seats, 1)
    with pytest.raises(KeyError):
        play_many(games(*made), seats, [1, 2])
    assert [env.closed for env in made] == [1, 0], "no further environment is constructed"
    with pytest.raises(ValueError, match="seats must name a policy"):
        play_many(games(*made), {"a": Scribe("p")}, [1])
    assert made[0].closed == 2


def test_a_backend_error_fails_only_the_episodes_that_queried_it():
    flaky = Scribe("flaky", fails_at_call=2)
    seats = {"a": flaky, "b": Scribe("steady")}
    make = games(Ledger({"a": 1, "b": 1}), Ledger(), Ledger({"a": 1, "b": 3}))
    over, struck, after = play_many(make, seats, [1, 2, 3])
    assert over.failure is None and len(over.turns) == 1
    assert struck.failure == "BackendError: no answer" and len(struck.turns) == 1
    assert after.failure is None and len(after.turns) == 3
    assert len(flaky.calls) == 4, "a failed episode sends no more requests"


def test_an_episode_without_an_end_fails_with_the_name_of_its_environment(monkeypatch):
    monkeypatch.setattr(rollout, "MOST_STEPS", 3)
    env = make("coop_compete_v0", variant="pair", max_cycles=10)
    played = play(env, dict.fromkeys(env.possible_agents, Always(0)), 0)
    assert len(played.turns) == 3
    assert played.failure == "EnvError: coop_compete_v0 did not end in 3 steps"


@pytest.mark.parametrize("setting", ["seats", "policy_seeds", "reset_options", "names", "extra"])
def test_lists_have_one_entry_per_seed(setting):
    lists = {"seats": dict.fromkeys("ab", Scribe("p")), setting: [{}]}
    with pytest.raises(ValueError, match=f"{setting} must have one entry per seed"):
        play_many(Ledger, seeds=[1, 2], **lists)
