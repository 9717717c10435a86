"""Rules of trading: goods are neither created nor destroyed."""

import copy
from itertools import product

import numpy as np
import pytest

from srl_envs.games import trading_market as market_rules
from srl_envs.games.trading_market import DELIVER, FIRST_ACCEPT, PASS, Market, TradingRules

GAMES, ROUNDS = 150, 24


def moves(market, dice):
    """A move per seat: often what the phase is for, else any, legal or not."""
    rules, chosen = market.rules, []
    for seat, die in enumerate(dice):
        move = die % rules.num_actions
        if die % 10 < 8:
            makers = market.incoming[seat]
            if market.phase == market_rules.OFFERS:
                move = rules.first_offer + die % len(rules.offers)
            elif market.phase == market_rules.DELIVERIES:
                move = DELIVER
            elif makers:
                move = FIRST_ACCEPT + market.others[seat].index(makers[die % len(makers)])
        chosen.append(move)
    return chosen


def test_goods_are_conserved_and_books_balance_over_random_games():
    rng = np.random.default_rng(0)
    sizes = [
        TradingRules(seats, goods, most, agreements)
        for seats, goods, most, agreements in product(
            (2, 3, 6), (3, 5), (1, 2, 4), market_rules.AGREEMENTS
        )
    ]
    exchanged = broken = 0
    for game in range(GAMES):
        rules = sizes[game % len(sizes)]
        values, stocks = rules.draw(rng)
        there = [sum(units) for units in zip(*stocks, strict=True)]
        market = Market(rules, values, stocks)
        worth, total = list(map(market_rules.worth_of, values, stocks)), 0
        for dice in rng.integers(10**9, size=(ROUNDS, rules.num_agents)).tolist():
            before = worth
            gains, illegal = market.play(moves(market, dice))
            worth = list(map(market_rules.worth_of, values, market.stocks))
            assert gains == [now - then for now, then in zip(worth, before, strict=True)]
            assert [sum(units) for units in zip(*market.stocks, strict=True)] == there
            assert min(map(min, market.stocks)) >= 0
            assert len(illegal) == rules.num_agents
            total += sum(gains)
        assert total <= market.surplus
        assert rules.agreements == "promised" or not any(market.broken)
        exchanged += sum(map(sum, market.deals)) // 2
        broken += sum(market.broken)
    assert exchanged > GAMES and broken > GAMES / 10  # the games were not idle


def test_possible_surplus_equals_brute_force():
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = rng.integers(0, 10, (2, 3)).tolist()
        stocks = rng.integers(0, 3, (2, 3)).tolist()
        there = [sum(units) for units in zip(*stocks, strict=True)]
        gains = [
            sum(
                values[0][good] * first[good] + values[1][good] * (there[good] - first[good])
                for good in range(3)
            )
            for first in product(*(range(units + 1) for units in there))
        ]
        before = sum(map(market_rules.worth_of, values, stocks))
        assert market_rules.possible_surplus(values, stocks) == max(gains) - before


def test_markets_are_drawn_as_documented():
    rng, rules = np.random.default_rng(2), TradingRules(num_agents=6, goods=4)
    for _ in range(200):
        values, stocks = (np.array(table) for table in rules.draw(rng))
        assert (values[:, 0] == 3).all() and (stocks[:, 0] == 8).all()
        favourite = values[:, 1:] >= 8
        assert (favourite.sum(axis=1) == 1).all() and (favourite.sum(axis=0) == 2).all()
        assert values[:, 1:][~favourite].min() >= 1 and values[:, 1:][~favourite].max() <= 3
        assert values.max() <= 9
        assert stocks.min() >= 0 and stocks[:, 1:].max() <= 4


def market(stocks):
    values = [[3, 8, 1], [3, 2, 9], [3, 1, 8]]
    rules = TradingRules(3, 3, 2)
    return Market(rules, values, copy.deepcopy(stocks))


def offer(rules, *fields):
    return rules.first_offer + rules.offers.index(fields)


STOCKS = [[4, 0, 3], [4, 2, 0], [4, 1, 1]]


def struck():
    """A market in which seat 1 has just been offered 2 bread for 2 apple by seat 0, and accepts."""
    shop = market(STOCKS)
    assert shop.surplus == (12 * 3 + 3 * 8 + 4 * 9) - (15 + 16 + 21)
    assert shop.play([offer(shop.rules, 0, 2, 2, 1, 2), PASS, PASS]) == ([0] * 3, [False] * 3)
    assert shop.incoming == [[], [0], []]
    return shop, shop.play([PASS, FIRST_ACCEPT, PASS])


@pytest.mark.parametrize(
    ("first", "second", "gains", "reputations", "deals"),
    [
        (DELIVER, DELIVER, [14, 14, 0], [2 / 3, 2 / 3, 0.5], 1),  # 2*8 - 2*1; 2*9 - 2*2
        (DELIVER, PASS, [-2, 18, 0], [2 / 3, 1 / 3, 0.5], 0),
        (PASS, DELIVER, [16, -4, 0], [1 / 3, 2 / 3, 0.5], 0),
        (PASS, PASS, [0, 0, 0], [1 / 3, 1 / 3, 0.5], 0),
        (DELIVER, 4, [-2, 18, 0], [2 / 3, 1 / 3, 0.5], 0),  # an illegal action is a pass
    ],
)
def test_promises_kept_and_broken(first, second, gains, reputations, deals):
    shop, answered = struck()
    assert answered == ([0, 0, 0], [False] * 3) and shop.phase == market_rules.DELIVERIES
    assert shop.stocks == STOCKS and shop.parties() == {0, 1}
    got, illegal = shop.play([first, second, PASS])
    assert got == gains and illegal == [False, second == 4, False]
    assert [shop.reputation(seat) for seat in range(3)] == reputations
    assert shop.deals[0][1] == shop.deals[1][0] == deals
    assert shop.phase == market_rules.OFFERS and not shop.agreed


def test_agents_cannot_promise_more_than_their_stock():
    shop = market([[4, 0, 1], [4, 2, 0], [4, 2, 1]])
    rules = shop.rules
    one_bread = offer(rules, 0, 2, 1, 1, 1)
    wants_bread = offer(rules, 0, 1, 1, 2, 1)  # seat 2 to seat 0: an apple for its only bread
    assert shop.play([one_bread, PASS, wants_bread])[1] == [False] * 3
    assert not shop.can_accept(0, 2)  # the bread is spoken for
    _, illegal = shop.play([FIRST_ACCEPT + 1, FIRST_ACCEPT, PASS])
    assert illegal == [True, False, False] and shop.answers == [market_rules.ACCEPTED, 0, 0]


def test_accepting_one_offer_declines_the_others():
    shop = market([[4, 0, 3], [4, 2, 3], [4, 3, 1]])
    rules = shop.rules
    shop.play([offer(rules, 1, 2, 1, 1, 1), offer(rules, 1, 2, 1, 1, 1), PASS])
    assert shop.incoming[2] == [0, 1]
    shop.play([PASS, PASS, FIRST_ACCEPT + 1])
    assert shop.answers == [market_rules.DECLINED, market_rules.ACCEPTED, market_rules.UNANSWERED]
