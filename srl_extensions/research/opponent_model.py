"""Credit without the luck of other agents' actions: `credit.name: opponent_model`."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from srl_train.credit import (
    AgentRoles,
    CreditScheme,
    Group,
    normalize_steps,
    per_agent,
)
from srl_train.trajectory import Game

Action = int | str
"""Index of a discrete action, or the text of a free-text action."""
Joint = tuple[tuple[Action, ...], tuple[Action, ...]]
"""Actions of the teammates and of the opponents at one step, each sorted."""


def opponent_model(discount: float, scale: str) -> CreditScheme:
    """Apply `agent_turn` to rewards without the luck that is due to other agents' actions.

    From the other episodes of a group, for each agent: pay(a, o) is the mean reward at steps where
    it chose a and the others chose o (the mean of all steps if the pair did not occur), and p(o |
    h) is how often the others chose o after the same history h of own and other actions. The reward
    becomes

        r_t - l_t,    l_t = pay(a_t, o_t) - sum over o of p(o | h_t) * pay(a_t, o).

    l_t is a control variate as in AIVAT (Burch et al. 2018), with a baseline conditioned on the
    others' simultaneous actions as in COMA (Foerster et al. 2018, eq. 4) and factorized baselines
    (Wu et al. 2018). Episodes that share h_t draw the others' actions from one distribution,
    whatever a_t is, and pay comes from other episodes: l_t has mean zero given h_t and a_t, so
    expectations do not change. Replies to the agent's own action stay in later rewards.

    Where no history is shared, the result equals `agent_turn`. Random events that both sides
    observe are not part of h; they can correlate the actions and bias the estimate.
    """
    return per_agent(
        lambda group, agent, roles: normalize_steps(
            rewards_without_luck(group, agent, roles), discount, scale
        )
    )


def rewards_without_luck(group: Group, agent: str, roles: AgentRoles) -> list[list[float]]:
    """Return the agent's rewards r_t - l_t by episode and step, see `opponent_model`."""
    joint = [_other_actions(game, agent, roles) for game in group]
    tables = [
        _RewardSums.of(game[agent].actions, others, game[agent].shaped)
        for game, others in zip(group, joint, strict=True)
    ]
    total = _RewardSums.merged(tables)
    replies: dict[tuple[tuple[Action, Joint], ...], Counter[Joint]] = defaultdict(Counter)
    histories = []
    for game, others in zip(group, joint, strict=True):
        steps = tuple(zip(game[agent].actions, others, strict=True))
        histories.append([steps[:number] for number in range(len(steps))])
        for history, other in zip(histories[-1], others, strict=True):
            replies[history][other] += 1

    def luck(number: int, step: int) -> float:
        seen = replies[histories[number][step]]
        if len(seen) < 2:
            return 0.0
        own = group[number][agent].actions[step]
        pay = {other: total.mean_without(tables[number], (own, other)) for other in seen}
        expected = math.fsum(n * pay[other] for other, n in seen.items()) / seen.total()
        return pay[joint[number][step]] - expected

    return [
        [float(reward) - luck(number, step) for step, reward in enumerate(game[agent].shaped)]
        for number, game in enumerate(group)
    ]


def _other_actions(game: Game, agent: str, roles: AgentRoles) -> list[Joint]:
    opponents = roles.opponents(agent)
    teammates = [each for each in roles.agents if each != agent and each not in opponents]

    def chosen(agents: Sequence[str], step: int) -> tuple[Action, ...]:
        actions = [game[each].actions for each in agents]
        return tuple(sorted((own[step] for own in actions if step < len(own)), key=str))

    steps = range(len(game[agent].steps))
    return [(chosen(teammates, step), chosen(opponents, step)) for step in steps]


class _RewardSums(NamedTuple):
    """Sums and counts of rewards, by (own action, other actions) and over all steps."""

    by_pair: Mapping[tuple[Action, Joint], tuple[float, int]]
    overall: tuple[float, int]

    @classmethod
    def of(
        cls, actions: Sequence[Action], others: Sequence[Joint], rewards: Sequence[float]
    ) -> _RewardSums:
        pairs = zip(actions, others, strict=True)
        steps = [({pair: (float(r), 1)}) for pair, r in zip(pairs, rewards, strict=True)]
        return cls(_added(steps), (math.fsum(map(float, rewards)), len(rewards)))

    @classmethod
    def merged(cls, tables: Sequence[_RewardSums]) -> _RewardSums:
        overall = math.fsum(t.overall[0] for t in tables), sum(t.overall[1] for t in tables)
        return cls(_added([table.by_pair for table in tables]), overall)

    def mean_without(self, part: _RewardSums, pair: tuple[Action, Joint]) -> float:
        """Return the pair's mean outside `part`, else the mean of all steps there, else 0."""
        for whole, own in (
            (self.by_pair.get(pair, (0.0, 0)), part.by_pair.get(pair, (0.0, 0))),
            (self.overall, part.overall),
        ):
            if whole[1] > own[1]:
                return (whole[0] - own[0]) / (whole[1] - own[1])
        return 0.0


def _added(
    tables: Sequence[Mapping[tuple[Action, Joint], tuple[float, int]]],
) -> dict[tuple[Action, Joint], tuple[float, int]]:
    sums: dict[tuple[Action, Joint], tuple[float, int]] = {}
    for table in tables:
        for pair, (value, count) in table.items():
            before, number = sums.get(pair, (0.0, 0))
            sums[pair] = (before + value, number + count)
    return sums


def build_scheme(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme (CREDIT_SCHEMES)."""
    return opponent_model(discount, scale)
