"""OurMethodPolicy: estimates payoffs, models its opponent and plays a best response.

What it uses: its own actions, its own rewards and the partner's actions. Nothing else.

What it estimates, after every episode:

- the mean and the error of its own reward in each of the four joint actions (`payoff_table`);
- how likely the partner is stationary, changing, reactive or a learner, and what each would do
  next (`opponent_model`).

What it does:

- As long as the partner keeps to the public protocol (`public_protocol`), it does so too. Two
  players of this kind measure both agreements together and then adopt the same one for good,
  whatever the noise in their rewards, because the rule depends only on actions both have seen.
- With any other partner it measures, for at most EXPLORE_EPISODES episodes, until a plan stands
  out by DOUBT standard errors, also for the case that the partner is a learner where that is
  plausible. From then on it plays, each episode, the best of three plans under its beliefs: the
  best response to the partner's replies if it is no learner (exact, by backward induction over
  the episode; taken where it stands out by DOUBT standard errors), always competing, always
  cooperating. The two constant plans are also worth what they make of a learner over the coming
  episodes: leading it to the better agreement is chosen where that repays.

It plays no lotteries: the log-probability of each of its actions is 0, and it takes no seed. It
takes no learning rate either, because its estimates are posterior means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.best_response import best_plan, shares_met
from srl_agents.baselines.coordination_protocol import (
    CYCLE,
    UNDECIDED,
    PublicProtocol,
    measuring_action,
)
from srl_agents.baselines.opponent_model import PartnerModel
from srl_agents.baselines.payoff_estimates import PayoffTable
from srl_agents.scripted.memory_one import SITUATIONS, START

TYPES = ("protocol", "stationary", "changing", "reactive", "learner")
"""The kinds of partner that are thought possible."""
EXPLORE_EPISODES = 6  # at most, with a partner who does not keep to the protocol
DOUBT = 2.0  # standard errors by which a plan has to stand out
HOLD = 1.0  # standard errors by which a constant plan has to be beaten to be left for the other
PLAUSIBLE = 0.2  # belief from which on the partner's being a learner is reckoned with


class Expectations(NamedTuple):
    """What is thought of N partners."""

    learner_N: NDArray[np.float64]
    """How likely the partner is a learner."""
    reply_NC: NDArray[np.float64]
    """Its chance of cooperating in each situation if it is not."""
    led_N2: NDArray[np.float64]
    """A learner's, over the coming episodes, if we always play 0, or 1."""


class OurMethodRuns:
    """N independent OurMethodPolicy players that go through their rounds together.

    Actions are int8 arrays (N,); an episode's rewards are (N, T). `momentum` and `types` as there.
    """

    def __init__(self, runs: int, *, momentum: float = 0.9, types: Sequence[str] = TYPES) -> None:
        if not 0.0 < momentum <= 1.0:
            raise ValueError(f"momentum must be above 0 and at most 1, got {momentum}")
        unknown = sorted(set(types) - set(TYPES))
        if unknown:
            raise ValueError(f"no partner type {unknown[0]!r}: choose among {', '.join(TYPES)}")
        self._payoffs = PayoffTable(runs)
        self._protocol = PublicProtocol(runs)
        if "protocol" not in types:
            self._protocol.followed[:] = False
        guessed = set(types) - {"protocol"}
        self._partner = PartnerModel(runs, momentum, guessed) if guessed else None
        self._own: list[NDArray[np.int8]] = []
        self._other: list[NDArray[np.int8]] = []
        self._plan_NTC: NDArray[np.int8] | None = None  # for the time outside the protocol
        self._rounds = self._episodes = 0
        self._row = np.arange(runs)
        self._lead_N = np.full(runs, UNDECIDED)  # the constant plan in use

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """Actions (1 = cooperate) and the chance of cooperating, which is 0 or 1: (N,) each."""
        action = np.where(self._protocol.followed, self._protocol.act(), self._response()).astype(
            np.int8
        )
        return action, action.astype(float)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Take in what the partners played this round."""
        own_N, _ = self.act()
        self._protocol.observe(own_N, other_N)
        self._own.append(own_N)
        self._other.append(np.asarray(other_N, np.int8))
        self._rounds += 1

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Take in the rewards of the episode, and plan the next.

        Raises ValueError where `own_NT` is not what was played since the last update.
        """
        played = np.stack(self._own, axis=1) if self._own else np.empty((self._row.size, 0))
        if not np.array_equal(played, own_NT) or not self._own:
            raise ValueError(
                f"update() got {own_NT.shape[1]} round(s) that are not the {len(self._own)} "
                "played since the last update: call act() and observe_opponent() every round"
            )
        other_NT = np.stack(self._other, axis=1)
        self._own, self._other = [], []
        self._episodes += 1
        self._payoffs.add(own_NT, other_NT, reward_NT)
        if self._partner is not None:
            self._partner.add(own_NT, other_NT)
        self._protocol.vote(*self._payoffs.gap())
        self._plan_NTC = self._planned(own_NT.shape[1])

    def _response(self) -> NDArray[np.int8]:
        """What to play with partners outside the protocol, this round."""
        if self._plan_NTC is None:
            return np.full(self._row.size, measuring_action(self._rounds % CYCLE), np.int8)
        # An episode that outlasts the one before stays with the plan for its last round.
        t = min(len(self._own), self._plan_NTC.shape[1] - 1)
        situation = 1 + 2 * self._own[-1] + self._other[-1] if self._own else START
        return np.asarray(self._plan_NTC[self._row, t, situation])

    def _planned(self, rounds: int) -> NDArray[np.int8]:
        """The plan for an episode of this many rounds, by run, round and situation."""
        payoff_N22, error_N22 = self._payoffs.mean(), self._payoffs.error()
        partner = self._expectations()

        # Always playing one action meets a cooperating partner in this share of the rounds.
        share_N2 = _mixed(partner, shares_met(partner.reply_NC, rounds), partner.led_N2)
        constant_N2 = _worth(payoff_N22, share_N2)
        gap_N, slip_N = _gap(payoff_N22, error_N22, share_N2)
        keep_N = (self._lead_N != UNDECIDED) & (np.abs(gap_N) < HOLD * slip_N)
        self._lead_N = np.where(keep_N, self._lead_N, gap_N > 0).astype(np.int8)

        # With a learner, the best response is taken for no better than leading it the wrong way.
        best = best_plan(partner.reply_NC, payoff_N22, rounds)
        with_learner_N = _worth(payoff_N22, partner.led_N2).min(axis=1)
        best_N = _mixed(partner, best.value_N, with_learner_N)
        follow_N = best_N > constant_N2.max(axis=1) + DOUBT * slip_N
        plan_NTC = np.where(follow_N[:, None, None], best.action_NTC, self._lead_N[:, None, None])
        self._lead_N = np.where(follow_N, UNDECIDED, self._lead_N)

        if self._episodes < EXPLORE_EPISODES:
            # A learner that was led the wrong way cannot be led back at a price worth paying.
            led_gap_N, led_slip_N = _gap(payoff_N22, error_N22, partner.led_N2)
            unsure_N = np.abs(gap_N) < DOUBT * slip_N
            unsure_N |= (partner.learner_N > PLAUSIBLE) & (np.abs(led_gap_N) < DOUBT * led_slip_N)
            unsure_N &= ~follow_N
            places = [(self._rounds + t) % CYCLE for t in range(rounds)]
            measure_T = np.array([measuring_action(place) for place in places], np.int8)
            plan_NTC = np.where(unsure_N[:, None, None], measure_T[:, None], plan_NTC)
            self._lead_N = np.where(unsure_N, UNDECIDED, self._lead_N)
        return plan_NTC.astype(np.int8)

    def _expectations(self) -> Expectations:
        if self._partner is None:  # nothing is thought of the partner: both actions equally likely
            runs = self._row.size
            even = np.full((runs, SITUATIONS), 0.5)
            return Expectations(np.zeros(runs), even, even[:, :2])
        partner = self._partner
        return Expectations(partner.learner(), partner.replies(), partner.led())


class OurMethodPolicy:
    """One player: the documented face of the method.

    `momentum` in (0, 1] is what the evidence about the partner keeps of its weight from one
    episode to the next: 1 never forgets, lower values follow partners that change. `types` are the
    kinds of partner thought possible, by default all; fewer show what each is good for.
    """

    def __init__(self, *, momentum: float = 0.9, types: Sequence[str] = TYPES) -> None:
        self._runs = OurMethodRuns(1, momentum=momentum, types=types)
        self._asked = False

    def act(self) -> tuple[int, float]:
        """The action of this round (1 = cooperate) and its log-probability, which is always 0."""
        [action], _ = self._runs.act()
        self._asked = True
        return int(action), 0.0

    def observe_opponent(self, opp_action: int) -> None:
        """Take in what the partner played in the round that act() was last asked for.

        Raises ValueError for anything but 0 and 1, and where act() was not called before.
        """
        if opp_action not in (0, 1):
            raise ValueError(f"opp_action must be 0 (compete) or 1 (cooperate), got {opp_action!r}")
        if not self._asked:
            raise ValueError("observe_opponent() follows act(): call act() once every round first")
        self._asked = False
        self._runs.observe_opponent(np.array([opp_action], np.int8))

    def update(self, trajectories: Sequence[tuple[int, float, float]], env: object = None) -> None:
        """Learn from an episode: its (action, log-probability, reward) in the order played.

        `env` is there for callers that pass it and is never looked at: the cooperation level, the
        payoffs and the partner's rewards stay unknown to the method. Raises ValueError where the
        actions are not those played since the last update.
        """
        actions = np.array([[action for action, _, _ in trajectories]], np.int8)
        rewards = np.array([[reward for _, _, reward in trajectories]], float)
        self._runs.update(actions, rewards)


def _worth(payoff_N22: NDArray[np.float64], share_N2: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean reward of always playing 0, or 1, against a partner that cooperates in these shares."""
    return np.asarray(payoff_N22[:, :, 0] + share_N2 * (payoff_N22[:, :, 1] - payoff_N22[:, :, 0]))


def _gap(
    payoff_N22: NDArray[np.float64], error_N22: NDArray[np.float64], share_N2: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How much more always playing 1 is worth than always playing 0, and its standard error."""
    worth_N2 = _worth(payoff_N22, share_N2)
    weight_N22 = np.stack([1.0 - share_N2, share_N2], axis=2)
    error_N = np.sqrt(np.square(weight_N22 * error_N22).sum(axis=(1, 2)))
    return worth_N2[:, 1] - worth_N2[:, 0], np.asarray(error_N)


def _mixed(
    partner: Expectations, without: NDArray[np.float64], with_: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The expectation of what is `with_` a learner, and `without` one: (N, ...)."""
    learner = partner.learner_N.reshape(-1, *[1] * (without.ndim - 1))
    return np.asarray(without + learner * (with_ - without))
