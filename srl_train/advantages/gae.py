"""Generalized advantage estimation of one episode, per turn or per token, in float64.

Axes are in the names: _T the actions of one agent in one episode, _T1 one more.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from srl_train.advantages.returns import Floats
from srl_train.data.samples import TokenSample

Level = Literal["turn", "token"]
"""What counts as one action: a whole answer, or each of its tokens."""


@dataclass(frozen=True)
class Actions:
    """What one agent did in one episode, as a critic sees it."""

    spans: tuple[tuple[int, int], ...]
    """Of each action, the completion tokens (start, stop) that are it. Its value is the estimate
    at the token before `start`, when nothing of the action was known."""
    rewards: tuple[float, ...]
    discounts: tuple[float, ...]
    """Of whatever comes after each action."""
    turns: tuple[int, ...]
    """The number of the turn that each action belongs to, from 0."""


def actions_of(sample: TokenSample, level: Level, discount: float) -> Actions:
    """The actions of a sample: its turns, or the tokens of its answers that it chose.

    A turn's reward is that of its last action, and `discount` applies for each turn of the game
    from there to the next; between the tokens of one answer no time passes (discount 1). An answer
    that left nothing to choose is one action, its last token.
    """
    after = [discount**turns for turns in sample.elapsed]
    if level == "turn":
        count = len(sample.turns)
        return Actions(sample.turns, sample.rewards, tuple(after), tuple(range(count)))
    spans, rewards, discounts, turns = [], [], [], []
    for turn, (start, stop) in enumerate(sample.turns):
        chosen = [token for token in range(start, stop) if sample.mask[token]] or [stop - 1]
        spans += [(token, token + 1) for token in chosen]
        rewards += [0.0] * (len(chosen) - 1) + [sample.rewards[turn]]
        discounts += [1.0] * (len(chosen) - 1) + [after[turn]]
        turns += [turn] * len(chosen)
    return Actions(tuple(spans), tuple(rewards), tuple(discounts), tuple(turns))


def generalised_advantages(
    rewards_T: Sequence[float] | Floats,
    values_T1: Sequence[float] | Floats,
    discounts_T: Sequence[float] | Floats,
    lambda_: float,
) -> Floats:
    """Advantages by GAE (Schulman et al. 2016, eq. 16), with a discount of its own per action.

    delta_t = r_t + discount_t * v_{t+1} - v_t,  A_t = delta_t + discount_t * lambda * A_{t+1}.
    The last value is of what comes after the episode: 0 for a game that ends.
    """
    advantages_T = np.zeros(len(rewards_T))
    running = 0.0
    for t in reversed(range(len(rewards_T))):
        surprise = rewards_T[t] + discounts_T[t] * values_T1[t + 1] - values_T1[t]
        running = surprise + discounts_T[t] * lambda_ * running
        advantages_T[t] = running
    return advantages_T


def standardised(advantages: Floats, kinds: Sequence[Hashable] | None = None) -> Floats:
    """Less a mean, then divided by their standard deviation (of the population) + 1e-8.

    The mean is over all advantages; with `kinds`, over those of the same kind: a baseline (see
    Greensmith et al. 2004, sec. 3). An advantage alone of its kind takes the mean of all.
    """
    members: dict[Hashable, list[int]] = {}
    for number, kind in enumerate(kinds or ()):
        members.setdefault(kind, []).append(number)
    means = np.full(len(advantages), advantages.mean())
    for alike in members.values():
        if len(alike) > 1:
            means[alike] = advantages[alike].mean()
    shifted = advantages - means
    scaled: Floats = shifted / (shifted.std() + 1e-8)
    return scaled


def explained_variance(values: Floats, returns: Floats) -> float | None:
    """1 - Var(returns - values) / Var(returns): 1 is a perfect critic, 0 one that says nothing.

    None where all returns are equal, and there is nothing to explain.
    """
    spread = returns.var()
    return None if spread == 0.0 else float(1.0 - (returns - values).var() / spread)
