"""Recorded ends of agents, and their last observations."""

import numpy as np
import pytest

from srl_agents.episode import End, from_json, to_json
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play, play_many
from srl_agents.scripted import Always
from srl_envs import registry
from tests.fakes import ScriptedBackend
from tests.srl_agents.rollout.endless import Endless, endless
from tests.srl_agents.rollout.test_rollout import Ledger, Scribe


def writer(env, backend=None, **settings):
    return TextPolicy(backend or ScriptedBackend(lambda request: "yes"), env.text_view, **settings)


def test_terminations_truncations_and_failures_are_distinguished():
    env = Endless(("a", "b", "c"), cut={"a": 2, "c": 3}, over={"b": 1, "c": 3})
    episode = play(env, dict.fromkeys(env.possible_agents, Always(0)), 0)
    # c reached its limit in the very step that ended its game: it ended
    assert episode.ends == {"a": End(True, 1), "b": End(False), "c": End(False)}

    broken = play(Ledger({"a": 1, "b": 3}, breaks_at=1), {"a": Scribe("p"), "b": Scribe("q")}, 0)
    assert broken.failure and broken.ends == {"a": End(False)}


def test_the_last_observation_of_a_truncated_agent_is_recorded():
    env = registry.make("coop_compete_pair_v0", max_cycles=2)
    episode = play(env, dict.fromkeys(env.possible_agents, Always(1)), 0)
    env.reset(seed=0)
    for _ in range(2):
        seen, *_ = env.step(dict.fromkeys(env.possible_agents, 1))
    for agent, end in from_json(to_json(episode)).ends.items():
        assert end.truncated and end.prompt_ids is None and end.state is None
        np.testing.assert_array_equal(end.observation, seen[agent])


@pytest.mark.parametrize("answer", ["yes", "hm"], ids=["read", "unread"])
def test_tokens_of_the_last_observation_equal_the_next_prompt(answer):
    env, longer = endless(cut={"a": 2}), endless(cut={"a": 3})
    short, long = (
        play(game, {"a": writer(game, ScriptedBackend([answer] * 3))}, 0) for game in (env, longer)
    )
    assert short.turns == long.turns[:2]
    assert short.ends["a"].prompt_ids == long.turns[2][0].decision.tokens.prompt_ids
    assert from_json(to_json(short)) == short


def test_no_tokens_if_the_time_is_shown_or_the_episode_terminated():
    told = endless(cut={"a": 2}, tells_time=True)
    assert play(told, {"a": writer(told)}, 0).ends == {"a": End(True, 1)}
    over = endless(over={"a": 2}, cut={"b": 9})
    assert play(over, {"a": writer(over)}, 0).ends == {"a": End(False)}
    ours = registry.make("coop_compete_pair_v0", max_cycles=2)
    seat = writer(ours, ScriptedBackend(lambda request: "cooperate"))
    ends = play(ours, dict.fromkeys(ours.possible_agents, seat), 0).ends
    assert all(end.truncated and end.prompt_ids is None for end in ends.values())


def test_the_last_state_is_recorded_with_the_states():
    env = endless(cut={"a": 1})
    without, held = (
        play_many(lambda: env, {"a": writer(env)}, [0], record_states=states)[0]
        for states in (False, True)
    )
    assert without.ends["a"].state is None
    assert held.ends["a"].state.tolist() == [1.0, 0.5] and len(held.states) == 1
    told = endless(cut={"a": 1}, tells_time=True)
    [episode] = play_many(lambda: told, {"a": writer(told)}, [0], record_states=True)
    assert episode.ends["a"].state is None
