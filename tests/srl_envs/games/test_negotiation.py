"""Negotiation as an environment: observations, rewards, masks and prompts."""

import copy

import numpy as np
import pytest
from pytest import approx

from srl_envs import registry
from srl_envs.errors import EnvConfigError
from srl_envs.games.bargaining import NegotiationRules
from srl_envs.text import ParseFailure
from tests.srl_envs.games.social import fields, say

ISSUES = {"price": ["low", "high"], "delivery": ["early", "late"]}
POINTS = [((60, 0), (40, 0)), ((0, 30), (0, 70))]
RESERVATIONS = [20, 30]


def begun(**parameters):
    env = registry.make("social_negotiation_v0", **{"issues": ISSUES, **parameters})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NegotiationRules, "draw", lambda *_: (POINTS, RESERVATIONS))
        # The first seed with which agent_0 moves first.
        seed = next(s for s in range(99) if not np.random.default_rng(s).integers(2))
        observations, infos = env.reset(seed=seed)
    return env, observations, infos


def test_a_deal_pays_the_discounted_utility():
    env, observations, infos = begun(discount=0.9)
    seen = fields(env, observations["agent_1"])
    assert seen["may_move"] == [0] and seen["reservation"] == approx([0.3])
    assert seen["utility"] == approx([0, 0.3, 0, 0.7])
    assert infos["agent_0"]["action_mask"].tolist() == [1, 0, 1, 1, 1, 1, 1]
    assert infos["agent_1"]["action_mask"].tolist() == [1, 0, 0, 0, 0, 0, 0]

    observations, rewards, *_, infos = say(env, "propose price=low delivery=late", "pass")
    assert rewards == {"agent_0": 0.0, "agent_1": 0.0} and len(env.agents) == 2
    seen = fields(env, observations["agent_1"])
    assert seen["proposal"] == [0, 0, 0, 0, 1, 0, 0, 1]  # oneself first
    assert seen["worth"] == approx([0, 0.7]) and seen["stands"] == [0, 1]
    assert seen["consents"] == [0, 1]
    assert infos["agent_1"]["action_mask"].tolist() == [1] * 7

    observations, rewards, terminations, truncations, infos = say(env, "accept", "accept")
    assert rewards == approx({"agent_0": 0.9 * 0.6, "agent_1": 0.9 * 0.7})
    assert all(terminations.values()) and not any(truncations.values()) and not env.agents
    assert infos["agent_0"]["illegal"] and not infos["agent_1"]["illegal"]
    assert infos["agent_0"]["outcome"] == "agreement"
    assert infos["agent_0"]["agreement"] == {"price": "low", "delivery": "late"}
    assert infos["agent_0"]["utilities"] == {"agent_0": 0.6, "agent_1": 0.7}
    assert infos["agent_0"]["pareto_efficient"] and infos["agent_0"]["welfare_share"] == 1
    assert infos["agent_0"]["nash_product"] == approx(0.4 * 0.4)
    assert infos["agent_0"]["individually_rational"] == {"agent_0": True, "agent_1": True}
    assert fields(env, observations["agent_0"])["settled"] == [1]


def test_without_a_deal_agents_earn_reservations():
    env, *_ = begun(max_cycles=2)
    say(env, "propose price=low delivery=early", "pass")
    _, rewards, terminations, truncations, infos = say(env, "pass", "pass")
    assert rewards == {"agent_0": 0.2, "agent_1": 0.3}
    assert not any(terminations.values()) and all(truncations.values())
    assert infos["agent_1"]["outcome"] == "deadline" and infos["agent_1"]["agreement"] is None

    env, *_ = begun()
    observations, rewards, terminations, truncations, infos = say(env, "walk away", "pass")
    assert rewards == {"agent_0": 0.2, "agent_1": 0.3}
    assert all(terminations.values()) and not any(truncations.values())
    assert infos["agent_1"]["outcome"] == "walked away"
    assert fields(env, observations["agent_0"])["settled"] == [-1]


def test_agreement_in_the_last_round_counts():
    env, *_ = begun(max_cycles=2)
    say(env, "propose price=low delivery=late", "pass")
    _, _, terminations, truncations, infos = say(env, "pass", "accept")
    assert all(terminations.values()) and not any(truncations.values())
    assert infos["agent_0"]["outcome"] == "agreement"


def test_prompts():
    env, observations, _ = begun()
    view = env.text_view
    assert view.describe("agent_0", observations["agent_0"]) == (
        "Round 1 of 10. Your move. Your points: price low 60, high 0; delivery early 40, late 0. "
        "No deal: 20."
    )
    observations, *_ = say(env, "propose price=low delivery=late", "pass")
    observations, *_ = say(env, "pass", "propose price=high delivery=late")
    assert view.describe("agent_0", observations["agent_0"]).endswith(
        "No deal: 20. You earlier proposed price=low delivery=late (60 points for you). "
        "agent_1 proposed price=high delivery=late (0 points for you)."
    )
    assert "Not your move, so you can only pass." in view.describe(
        "agent_1", observations["agent_1"]
    )
    observations, *_ = say(env, "accept", "pass")
    assert "There is a deal." in view.describe("agent_1", observations["agent_1"])


@pytest.mark.parametrize(
    "answer",
    [
        "propose delivery=late price=low",
        "Propose price = low, delivery = late.",
        "I would like that.\n**propose price=low, delivery=late**",
        "action: propose  price=LOW  delivery=late",
    ],
)
def test_proposals_in_any_order(answer):
    view = begun()[0].text_view
    assert view.answers("agent_0")[view.parse("agent_0", answer)] == (
        "propose price=low delivery=late"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("propose price=low", "delivery was missing from the proposal"),
        ("Propose price=low, price=high.", "price stood twice in the proposal"),
        ("propose price=free delivery=late", "price is 'low' or 'high'"),
        ("propose low late", "a proposal names price=..., delivery=... and no more"),
        ("propose price=low\nor so", "no legal choice stood alone on the last line"),
    ],
)
def test_parse_failure_names_the_wrong_part(answer, reason):
    assert begun()[0].text_view.parse("agent_0", answer) == ParseFailure(reason)


@pytest.mark.parametrize(
    "parameters", [{}, {"offers": "simultaneous"}, {"num_agents": 3}], ids=["two", "both", "three"]
)
def test_masks_equal_legal_actions(parameters):
    env = registry.make("social_negotiation_v0", issues=ISSUES, **parameters)
    rng, ends = np.random.default_rng(0), set()
    for seed in range(6):
        _, infos = env.reset(seed=seed)
        while env.agents:
            masks = {agent: infos[agent]["action_mask"].tolist() for agent in env.agents}
            chosen = {}
            for seat, agent in enumerate(env.agents):
                legal = []
                for action in range(env.rules.num_actions):
                    acts = [0] * len(env.agents)
                    acts[seat] = action
                    legal.append(not copy.deepcopy(env.bargain).play(acts)[seat])
                assert masks[agent] == legal
                acts = np.flatnonzero(legal)
                chosen[agent] = int(rng.choice(acts[acts != 2]))  # 2 walks away
            *_, infos = env.step(chosen)
            assert not any(info["illegal"] for info in infos.values())
        ends.add(infos["agent_0"]["outcome"])
        assert all(infos[agent]["action_mask"].tolist()[0] == 1 for agent in infos)
    assert "agreement" in ends


def test_social_v0_makes_both_scenarios():
    assert registry.make("social_v0").metadata["name"] == "social_trading_v0"
    env = registry.make("social_v0", scenario="negotiation", discount=0.5)
    assert env.metadata["name"] == "social_negotiation_v0" and env.rules.discount == 0.5
    with pytest.raises(EnvConfigError, match="scenario must be one of 'trading', 'negotiation'"):
        registry.make("social_v0", scenario="war")
    with pytest.raises(EnvConfigError, match="social_trading_v0 has no parameter 'discount'"):
        registry.make("social_v0", discount=0.5)
