"""Trading as an environment: observations, rewards, masks and prompts."""

import copy

import numpy as np
import pytest

from srl_envs import registry
from srl_envs.games import trading_market as market_rules
from srl_envs.text import ParseFailure
from tests.srl_envs.games.social import fields, say

VALUES = [[3, 8, 1], [3, 2, 9], [3, 1, 8]]
STOCKS = [[4, 0, 3], [4, 2, 0], [4, 1, 1]]


def opened(**parameters):
    env = registry.make("social_trading_v0", **{"num_agents": 3, **parameters})
    drawn = copy.deepcopy((VALUES, STOCKS))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(market_rules.TradingRules, "draw", lambda rules, generator: drawn)
        observations, infos = env.reset(seed=0)
    return env, observations, infos


def test_deal_from_offer_to_delivery():
    env, observations, infos = opened(max_cycles=4)
    seen = fields(env, observations["agent_1"])
    assert seen["phase"] == [1, 0, 0] and seen["time"] == [0]
    assert seen["own_stock"] == [4, 2, 0] and seen["own_value"] == [3, 2, 9]
    assert seen["reputation"] == [0.5, 0.5] and seen["own_reputation"] == [0.5]

    observations, rewards, *_, infos = say(
        env, "offer 2 bread for 2 apple to agent_1", *["pass"] * 2
    )
    assert infos["agent_0"]["phase"] == "offers" and not infos["agent_0"]["illegal"]
    assert list(rewards.values()) == [0, 0, 0]
    seen = fields(env, observations["agent_1"])
    assert seen["phase"] == [0, 1, 0]
    assert seen["offer_to_you"] == [0, -2, 2, 0, 0, 0] and seen["offer_gain"] == [14, 0]
    seen = fields(env, observations["agent_0"])
    assert seen["own_offer_to"] == [1, 0] and seen["own_offer"] == [0, 2, -2]
    legal = np.flatnonzero(infos["agent_1"]["action_mask"]).tolist()
    assert [env.text_view.answers("agent_1")[action] for action in legal] == [
        *("pass", "decline", "accept agent_0")
    ]
    assert np.flatnonzero(infos["agent_2"]["action_mask"]).tolist() == [0]

    observations, *_, infos = say(env, "pass", "accept agent_0", "decline")
    assert [infos[agent]["illegal"] for agent in env.agents] == [False, False, True]
    assert fields(env, observations["agent_1"])["agreed"] == [1, 0]
    assert fields(env, observations["agent_0"])["own_offer_answer"] == [1]
    assert np.flatnonzero(infos["agent_0"]["action_mask"]).tolist() == [0, market_rules.DELIVER]

    observations, rewards, *_ = say(env, "deliver", "deliver", "pass")
    assert rewards == {"agent_0": 14.0, "agent_1": 14.0, "agent_2": 0.0}
    seen = fields(env, observations["agent_2"])
    assert seen["reputation"] == pytest.approx([2 / 3, 2 / 3])
    seen = fields(env, observations["agent_1"])
    assert seen["word_kept"] == [1, 0] and seen["deals"] == [1, 0] and seen["last_reward"] == [14]
    assert seen["own_stock"] == [4, 0, 2]

    *_, terminations, truncations, infos = say(env, "pass", "pass", "pass")
    assert not any(terminations.values()) and all(truncations.values()) and not env.agents
    report = {name: infos["agent_0"][name] for name in ("possible_surplus", "realised_surplus")}
    assert report == {"possible_surplus": 44, "realised_surplus": 28}
    assert infos["agent_1"]["surplus_share"] == 28 / 44 and infos["agent_1"]["gain"] == 14
    assert infos["agent_2"]["network"] == {"agent_0 agent_1": 1}


def test_broken_promises_change_reputations_of_all_observations():
    env, *_ = opened()
    say(env, "offer 2 bread for 2 apple to agent_1", "pass", "pass")
    say(env, "pass", "accept agent_0", "pass")
    observations, rewards, *_ = say(env, "deliver", "pass", "pass")
    assert rewards == {"agent_0": -2.0, "agent_1": 18.0, "agent_2": 0.0}
    assert fields(env, observations["agent_0"])["word_kept"] == [-1, 0]
    assert fields(env, observations["agent_1"])["word_kept"] == [1, 0]
    assert fields(env, observations["agent_2"])["reputation"] == pytest.approx([2 / 3, 1 / 3])
    said = env.text_view.describe("agent_0", observations["agent_0"])
    assert "agent_1 broke its word." in said and "agent_1 0.33" in said
    assert "changed their worth by -2." in said


def test_prompts():
    env, observations, _ = opened(max_cycles=9)
    view = env.text_view
    assert view.describe("agent_0", observations["agent_0"]) == (
        "Round 1 of 9. Now offers. You hold 4 coin (worth 3 each), 0 apple (worth 8), "
        "3 bread (worth 1). You value apple most."
    )
    offer = "offer 2 bread for 2 apple to agent_1"
    observations, *_ = say(env, offer, "pass", "offer 1 bread for 2 coin to agent_1")
    assert view.describe("agent_1", observations["agent_1"]) == (
        "Round 2 of 9. Now answers. You hold 4 coin (worth 3 each), 2 apple (worth 2), 0 bread "
        "(worth 9). Offers to you: agent_0 gives you 2 bread for 2 apple (worth 14 more to you); "
        "agent_2 gives you 1 bread for 2 coin (worth 3 more to you). Accept one, decline or pass."
    )
    observations, *_ = say(env, "pass", "accept agent_0", "pass")
    assert view.describe("agent_1", observations["agent_1"]).endswith(
        "You owe agent_0 2 apple for 2 bread. Deliver or pass."
    )
    assert view.describe("agent_0", observations["agent_0"]).endswith(
        "You owe agent_1 2 bread for 2 apple. Deliver or pass."
    )
    assert view.describe("agent_2", observations["agent_2"]).endswith(
        "agent_1 declined your offer of 1 bread for 2 coin. You owe nothing, so you can only pass."
    )


def test_binding_agreements_have_no_deliveries():
    env, *_ = opened(agreements="binding")
    say(env, "offer 2 bread for 2 apple to agent_1", "pass", "pass")
    observations, rewards, *_ = say(env, "pass", "accept agent_0", "pass")
    assert rewards == {"agent_0": 14.0, "agent_1": 14.0, "agent_2": 0.0}
    assert fields(env, observations["agent_0"])["phase"] == [1, 0, 0]
    assert "deliver" not in env.text_view.rules("agent_0")


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("Offer 2 apples for 1 bread to agent_2.", "offer 2 apple for 1 bread to agent_2"),
        ("I need bread.\n\noffer  1 coin for 2  breads to agent_0", None),
        ("Answer: offers 1 coin for 2 bread to agent_0", "offer 1 coin for 2 bread to agent_0"),
        ("**accept agent_0**", "accept agent_0"),
        ("<answer>decline</answer>", "decline"),
        ("accepts agent_2", "accept agent_2"),
    ],
)
def test_sentences_are_parsed(answer, meant):
    view = opened()[0].text_view
    expected = meant or "offer 1 coin for 2 bread to agent_0"
    assert view.parse("agent_1", answer) == view.answers("agent_1").index(expected)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("offer 3 apple for 1 bread to agent_2", "an offer is for 1 to 2 of each good"),
        ("offer 1 apple for 1 apples to agent_2", "an offer of apple for apple exchanges nothing"),
        ("Hm.\noffer 1 apple for 1 bread to agent_7", "agent_7 is not a trader here"),
        ("offer 1 apple for 1 bread to agent_1", "agent_1 is you"),
        ("offer one apple", "an offer reads 'offer 1 coin for 1 apple to agent_0'"),
        ("accept agent_9", "agent_9 is not a trader here"),
        ("offer 1 apple\nfor now", "no legal choice stood alone on the last line"),
    ],
)
def test_parse_failure_names_the_wrong_part(answer, reason):
    assert opened()[0].text_view.parse("agent_1", answer) == ParseFailure(reason)


@pytest.mark.parametrize("agreements", market_rules.AGREEMENTS)
def test_masks_equal_legal_actions(agreements):
    env = registry.make("social_trading_v0", num_agents=3, agreements=agreements, max_cycles=12)
    rng, phases = np.random.default_rng(0), set()
    for seed in range(3):
        _, infos = env.reset(seed=seed)
        while env.agents:
            phases.add(env.market.phase)
            masks = {agent: infos[agent]["action_mask"].tolist() for agent in env.agents}
            for seat, agent in enumerate(env.agents):
                legal = [not is_illegal(env.market, seat, act) for act in range(len(masks[agent]))]
                assert masks[agent] == legal
            # Mostly not the first legal action, which passes.
            legal = {agent: np.flatnonzero(mask) for agent, mask in masks.items()}
            chosen = {
                a: int(rng.choice(acts[1:] if len(acts) > 1 else acts)) for a, acts in legal.items()
            }
            *_, infos = env.step(chosen)
            assert not any(info["illegal"] for info in infos.values())
    assert len(phases) == (2 if agreements == "binding" else 3)


def is_illegal(market, seat, action):
    """Return the result of one action on a copy of the market, while all others pass."""
    twin = market_rules.Market(
        market.rules, market.values, [list(stock) for stock in market.stocks]
    )
    twin.phase, twin.offers = market.phase, list(market.offers)
    twin.incoming, twin.agreed = [list(makers) for makers in market.incoming], list(market.agreed)
    chosen = [market_rules.PASS] * market.rules.num_agents
    chosen[seat] = action
    return twin.play(chosen)[1][seat]
