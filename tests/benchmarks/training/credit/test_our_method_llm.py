"""The ablation is played as it says: partners, settings, and what the best answer is worth."""

import pytest

from benchmarks.training.credit import our_method_llm
from benchmarks.training.credit.our_method_llm import MIXTURE, PARTNERS, DrawnPartner, best_value
from srl_agents.scripted.memory_one import Always
from srl_envs import registry


def env(**options):
    return registry.make(
        "coop_compete_v0", variant="pair", num_agents=2, max_cycles=2, noise_std=0.0, **options
    )


def test_the_best_answer_by_hand():
    # .7 + .25 * .8 = .9 both cooperating, .75 both competing, .6 apart
    game = env(cooperation_level=0.8)
    assert best_value(game, "tit_for_tat") == pytest.approx(0.9)
    assert best_value(game, "always_compete") == pytest.approx(0.75)
    assert best_value(game, "uniform") == pytest.approx(0.75)  # (.9 + .6) / 2
    assert best_value(game, MIXTURE) == pytest.approx(0.8)
    # Where competing pays, competing at once costs one round apart, (.6 + .95) / 2; turning
    # after a round of both cooperating costs as much.
    assert best_value(env(cooperation_level=0.0), "tit_for_tat") == pytest.approx((0.6 + 0.95) / 2)


def test_a_drawn_partner_stays_who_it_is_for_a_game():
    partner = DrawnPartner([Always(0), Always(1)])
    states = [partner.start(seed) for seed in range(200)]
    assert 70 < sum(who for who, _ in states) < 130
    seen = [None] * len(states)

    class Anything:
        observation = None

    decisions, after = partner.act([Anything()] * len(seen), states)
    assert [d.action for d in decisions] == [who for who, _ in states]
    assert [who for who, _ in after] == [who for who, _ in states]


@pytest.mark.slow
def test_the_whole_table(small):
    options = {"variant": "pair", "num_agents": 2, "max_cycles": 2}
    request = small(games=4, rounds=1, rollout__groups_per_round=1, environment__options=options)
    result = our_method_llm.measure(request, partners=(PARTNERS[0], MIXTURE))
    assert [row["partner"] for row in result.rows] == [PARTNERS[0], MIXTURE]
    text = our_method_llm.OUR_METHOD_LLM.markdown(result, request)
    assert text.count("| one of the three |") == 2 and "1 rounds of 2 games of 2 turns" in text
