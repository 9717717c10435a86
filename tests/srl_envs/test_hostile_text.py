"""Hundreds of random and hostile answers to every game, in episodes of ROUNDS turns."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srl_envs import registry
from srl_envs.text import NOT_LEGAL_NOW, ParseFailure, TextEnv
from tests.srl_envs.kinds import GAMES
from tests.srl_envs.tasks.grading.hostile_answers import hostile_answers

ROUNDS = 20


@pytest.mark.parametrize("least", [100, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GAMES)
def test_no_answer_raises(name, least):
    inner = registry.make(name, max_cycles=ROUNDS)
    env, view = TextEnv(inner), inner.text_view
    words = view.answers(inner.possible_agents[0])
    said = 0

    @settings(
        # Half as many again: some games are decided before their last round.
        max_examples=max(8, 3 * least // (2 * ROUNDS * len(inner.possible_agents))),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(
        st.lists(hostile_answers(*words), min_size=ROUNDS, max_size=ROUNDS),
        st.integers(0, 2**32 - 1),
        st.integers(0, 50),
    )
    def play(answers, seed, episode):
        nonlocal said
        env.reset(seed=seed, options={"episode": episode})
        turn = 0
        while env.agents:
            seats = list(env.agents)
            spoken = {a: answers[(turn + place) % ROUNDS] for place, a in enumerate(seats)}
            texts, rewards, terminations, truncations, infos = env.step(spoken)
            turn, said = turn + 1, said + len(seats)
            for agent in seats:
                read = view.parse(agent, spoken[agent])
                if infos[agent]["parse_failure"] == NOT_LEGAL_NOW:
                    read = ParseFailure(NOT_LEGAL_NOW)
                failed = isinstance(read, ParseFailure)
                assert infos[agent]["action"] == (view.default_action if failed else read)
                assert infos[agent]["parse_failure"] == (read.reason if failed else None)
                assert texts[agent].strip() and math.isfinite(rewards[agent])
                rewards[agent] += view.parse_penalty * failed
                plain = {k: v for k, v in infos[agent].items() if not isinstance(v, np.ndarray)}
                json.dumps(plain)
            assert terminations.keys() == truncations.keys() == set(seats)
            ended = {terminations[a] or truncations[a] for a in seats}
            assert ended == {not env.agents}  # all seats at once
            assert inner.state_space.contains(inner.state())
        assert turn <= ROUNDS

    play()
    assert said >= least
