"""Random and hostile answers by the hundred to every game: none raises, and the rules hold.

They come in episodes of ROUNDS turns.
"""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srl_envs import registry
from srl_envs.text import NOT_LEGAL_NOW, ParseFailure, TextEnv
from tests.srl_envs.kinds import GAMES
from tests.srl_envs.tasks.grading.hostile_answers import hostile_answers

ROUNDS = 20


def coop_compete_holds(env, rewards, infos):
    assert all(reward >= 0.0 for reward in rewards.values())
    assert all(0.0 <= info["cooperation_ratio"] <= 1.0 for info in infos.values())


def staged_holds(env, rewards, infos):
    coop_compete_holds(env, rewards, infos)
    for info in infos.values():
        assert info["phase"] in ("warmup", "divergence")
        assert info["phase"] == "divergence" or set(rewards.values()) == {0.7}


def bandit_holds(env, rewards, infos):
    assert set(rewards.values()) <= {0.0, 1.0}
    assert all(0.0 <= info["regret"] <= 1.0 for info in infos.values())


def maze_holds(env, rewards, infos):
    level = env.level
    for seat, (agent, info) in enumerate(infos.items()):
        trail = env._trails[seat]
        assert all(level.doors[place] for place in trail)  # nobody stands in a wall
        assert all(there == here or there in level.doors[here] for here, there in pairwise(trail))
        assert info["steps"] == len(trail) - 1 <= env.played
        arrived = env._places[seat] == env._goals[seat]
        assert info["success"] is arrived
        if arrived:
            assert rewards[agent] in (10.0, 0.0)
        elif env.agents:
            farthest = env.width + env.height - 2
            assert -0.1 - 0.01 * farthest <= rewards[agent] <= -0.11
        else:
            assert rewards[agent] == -1.0
    assert bool(env.agents) or env.finished or env.played == env.rounds


def trading_holds(env, rewards, infos):
    market = env.market
    there = [sum(units) for units in zip(*market.first_stocks, strict=True)]
    assert [sum(units) for units in zip(*market.stocks, strict=True)] == there
    assert min(map(min, market.stocks)) >= 0
    assert not any(info["illegal"] for info in infos.values())


def negotiation_holds(env, rewards, infos):
    bargain = env.bargain
    assert all(0.0 <= reward <= 1.0 for reward in rewards.values())
    assert env.finished is (bargain.agreed is not None or bargain.walked_away)
    assert sum(bargain.stands) <= 1


HOLDS = {
    "social_trading_v0": trading_holds,
    "social_negotiation_v0": negotiation_holds,
    "coop_compete_v0": coop_compete_holds,
    "team_battle_v0": coop_compete_holds,
    "staged_v0": staged_holds,
    "bandit_v0": bandit_holds,
    "maze_v0": maze_holds,
}


@pytest.mark.parametrize("least", [100, pytest.param(5000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GAMES)
def test_no_answer_breaks_a_game(name, least):
    inner = registry.make(name, max_cycles=ROUNDS)
    env, view = TextEnv(inner), inner.text_view
    holds = HOLDS[inner.metadata["name"]]
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
            holds(inner, {a: round(r, 9) for a, r in rewards.items()}, infos)
            assert inner.state_space.contains(inner.state())
        assert turn <= ROUNDS

    play()
    assert said >= least
