"""Generators of word problems: a short story, a number to find.

1: one sum or difference; 2: one product or quotient; 3: two operations; 4: prices with change,
rates; 5: percentages, shares and speeds in three operations or more.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from srl_envs.tasks.mathematics.formatting import between, problem
from srl_envs.tasks.problem import Problem, pick

FAMILY = "word problems"
NAMES = ("Ada", "Ben", "Chloe", "David", "Elif", "Farid", "Grace", "Hiro", "Ines", "Jonas")
THINGS = ("apples", "books", "cards", "coins", "marbles", "pencils", "shells", "stamps")


def draw(rng: np.random.Generator, difficulty: int) -> Problem:
    """A problem of difficulty 1 to 5."""
    stories = (
        (_more, _left),
        (_boxes, _shared),
        (_boxes_and_more, _compared),
        (_change, _rate),
        (_discount, _shares, _journey),
    )[difficulty - 1]
    told: Problem = pick(rng, stories)(rng, difficulty)
    return told


def _dollars(cents: int) -> str:
    """Whole, or with both places: 3, 2.30."""
    return f"{cents // 100}.{cents % 100:02d}".removesuffix(".00")


def _two(rng: np.random.Generator) -> tuple[str, str, str]:
    first, second = rng.choice(len(NAMES), size=2, replace=False)
    return NAMES[int(first)], NAMES[int(second)], pick(rng, THINGS)


def _more(rng: np.random.Generator, level: int) -> Problem:
    who, giver, things = _two(rng)
    had, got = between(rng, 2, 30), between(rng, 2, 30)
    asked = (
        f"{who} has {had} {things}. {giver} gives {who} {got} more. "
        f"How many {things} does {who} have now?"
    )
    return problem(FAMILY, level, asked, had + got, operations=1, key=f"{had} plus {got}")


def _left(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    gone = between(rng, 2, 30)
    had = gone + between(rng, 1, 30)
    asked = (
        f"{who} has {had} {things} and gives {gone} of them to {other}. How many {things} are left?"
    )
    return problem(FAMILY, level, asked, had - gone, operations=1, key=f"{had} less {gone}")


def _boxes(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    boxes, each = between(rng, 13, 40), between(rng, 13, 24)
    asked = f"{who} packs {boxes} boxes with {each} {things} in each. How many {things} is that?"
    return problem(FAMILY, level, asked, boxes * each, operations=2, key=f"{boxes} times {each}")


def _shared(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    friends, each = between(rng, 3, 12), between(rng, 13, 40)
    asked = (
        f"{who} shares {friends * each} {things} equally among {friends} friends. "
        f"How many {things} does each friend get?"
    )
    key = f"{friends * each} among {friends}"
    return problem(FAMILY, level, asked, each, operations=2, key=key)


def _boxes_and_more(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    boxes, each, more = between(rng, 11, 30), between(rng, 12, 24), between(rng, 20, 99)
    asked = (
        f"{who} has {boxes} boxes of {each} {things}. {other} brings {more} {things} more. "
        f"How many {things} are there in all?"
    )
    key = f"{boxes} times {each} plus {more}"
    return problem(FAMILY, level, asked, boxes * each + more, operations=3, key=key)


def _compared(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    own, factor, less = between(rng, 100, 250), between(rng, 3, 9), between(rng, 11, 99)
    asked = (
        f"{who} has {own} {things}. {other} has {factor} times as many, less {less}. "
        f"How many {things} do they have together?"
    )
    key = f"{own} and {factor} times less {less}"
    return problem(FAMILY, level, asked, own + factor * own - less, operations=3, key=key)


def _change(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    count, price, other = between(rng, 3, 12), between(rng, 105, 999), between(rng, 105, 1999)
    spent = count * price + other
    paid = (spent // 1000 + between(rng, 1, 5)) * 10
    asked = (
        f"{who} buys {count} {things} at {_dollars(price)} dollars each and a bag for "
        f"{_dollars(other)} dollars, and pays with {paid} dollars. How many dollars does {who} get "
        "back?"
    )
    change = Fraction(paid * 100 - spent, 100)
    key = f"{paid} less {count} times {price} less {other}"
    return problem(FAMILY, level, asked, change, operations=4, key=key)


def _rate(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    hours, one, two = between(rng, 11, 40), between(rng, 12, 60), between(rng, 12, 60)
    start = between(rng, 100, 500)
    asked = (
        f"A shop has {start} {things}. Every hour {who} brings {one} more and {other} brings {two} "
        f"more. How many {things} does the shop have after {hours} hours?"
    )
    key = f"{start} plus {hours} times {min(one, two)} and {max(one, two)}"
    return problem(FAMILY, level, asked, start + hours * (one + two), operations=4, key=key)


def _discount(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    while True:
        count, price = between(rng, 12, 60), between(rng, 11, 95)
        off, tax = 5 * between(rng, 2, 12), between(rng, 2, 19)
        total = Fraction(count * price * (100 - off) * (100 + tax), 10_000)
        if (100 * total).denominator == 1:  # nobody pays parts of a cent
            break
    asked = (
        f"{who} orders {count} {things} at {price} dollars each. The order is reduced by {off} "
        f"percent, and then {tax} percent tax is added. How many dollars does {who} pay?"
    )
    key = f"{count} times {price} off {off} tax {tax}"
    return problem(FAMILY, level, asked, total, operations=7, key=key)


def _shares(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    below, part = between(rng, 3, 9), between(rng, 2, 5)
    unit, more = between(rng, 101, 300), between(rng, 101, 300)
    total = below * part * unit
    kept = total - total // below
    asked = (
        f"{who} has {total} {things} and gives 1/{below} of them to {other}. Then {who} sells "
        f"1/{part} of what is left and buys {more} more. How many {things} does {who} have now?"
    )
    key = f"{total} less 1/{below} less 1/{part} plus {more}"
    answer = Fraction(kept * (part - 1), part) + more
    return problem(FAMILY, level, asked, answer, operations=6, key=key)


def _journey(rng: np.random.Generator, level: int) -> Problem:
    who, _, _ = _two(rng)
    slow, fast = between(rng, 30, 59), between(rng, 60, 120)
    first, second = between(rng, 2, 9), between(rng, 2, 9)
    asked = (
        f"{who} travels {first} hours at {slow} km per hour and then {second} hours at {fast} km "
        f"per hour, with a rest of {(rest := between(rng, 11, 59))} minutes in between. What is "
        f"{who}'s mean speed in km per hour over the whole time, the rest included?"
    )
    answer = Fraction(60 * (first * slow + second * fast), 60 * (first + second) + rest)
    key = f"{first} at {slow}, {second} at {fast}, rest {rest}"
    return problem(FAMILY, level, asked, answer, operations=7, key=key)
