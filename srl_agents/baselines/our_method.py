"""OurMethodPolicy: a learner for repeated matrix games that observes actions and its own rewards.

Its criteria are those of Powers, Shoham and Vu 2007: the best response to opponents of bounded
memory, a fair and efficient outcome in self-play, and the maximin value against all opponents. An
episode is played by the first rule that applies:

- `handshake`: agree on a fair cycle with another OurMethodPolicy;
- `_guarded`: after losses, play the maximin strategy;
- `worth_exploring`: play the optimistic plan, if its information is worth the cost;
- `_leads`: lead an opponent that learns with a constant action;
- otherwise, play the best response to the beliefs of `opponent_model`.

Suffixes of array names are their axes: N runs, T rounds, K actions of either player, C situations.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, log, pi

import numpy as np

from srl_agents.arrays import Actions, Bools, Floats
from srl_agents.baselines.handshake import CALL, COINS, Handshake
from srl_agents.baselines.learners import Uniforms, drawn
from srl_agents.baselines.opponent_model import PartnerModel, PayoffTable
from srl_agents.baselines.solutions import CYCLE, Plan, best_plan, maximin, plan_value, shares_met
from srl_agents.scripted.memory_one import START

UNDECIDED = -1
RESPONSE_MARGIN = 2.0  # standard errors by which the best response must beat a constant plan
SWITCH_MARGIN = 1.0  # standard errors by which the other constant plan must be better to switch
PLAUSIBLE = 0.2  # minimum belief in a learner for which the better lead is measured
MEASURING = 6  # maximum number of episodes that measure it
MUCH = 1e9  # value of a measuring episode, so that it is not replaced by exploration
OPTIMISM = 2.0  # standard deviations added by the optimistic plan
LOOKS = 0.25  # assumed share of an episode's rounds that are spent in one situation
LOOKAHEAD = 1  # future episodes that use the information, few because partners may change
GUARD_SHARE = 0.005  # allowed loss per round, as a share of the range of payoffs: see `_guarded`
GUARD_ROUNDS = 32  # additional allowed loss, in rounds of the full range
BARGAIN_SHARE = 0.03  # share of the range by which an agreement may pay less than maximin
PATIENCE = 4  # failed handshakes after which calls are ignored,
DEAF = 64  # for this number of rounds, doubled after each further failure

_CALL_CODE = int("".join(map(str, CALL)), 2)
_erf = np.vectorize(erf, otypes=[float])


class OurMethodRuns:
    """N independent runs of OurMethodPolicy in array form, one per seed; raises its errors."""

    def __init__(
        self,
        seeds: Sequence[int | np.random.SeedSequence],
        *,
        actions: int = 2,
        momentum: float = 0.9,
    ) -> None:
        if actions < 2:
            raise ValueError(f"actions must be at least 2, got {actions}")
        if not 0.0 < momentum <= 1.0:
            raise ValueError(f"momentum must be above 0 and at most 1, got {momentum}")
        runs = len(seeds)
        self._actions, self._row = actions, np.arange(runs)
        self._uniforms = Uniforms(seeds)
        self._coins_NC = (self._uniforms.take(COINS) < 0.5).astype(int).T
        self._payoffs = PayoffTable(runs, actions)
        self._partner = PartnerModel(runs, momentum, actions)
        self._own: list[Actions] = []
        self._other: list[Actions] = []
        self._now: tuple[Actions, Floats] | None = None
        self._rounds = self._episodes = 0

        self._handshakes = {
            n: Handshake(actions, self._coins_NC[n], calls=True) for n in range(runs)
        }
        self._register_N = np.zeros(runs, np.int64)  # last actions of the partner, as bits
        self._deaf_N = np.zeros(runs, np.int64)  # round until which calls are ignored
        self._failures_N = np.zeros(runs, np.int64)  # failed handshakes
        self._agreed_N = np.zeros(runs, bool)
        self._since_N = np.zeros(runs, np.int64)  # first round of the agreement
        self._cycle_2NL = np.zeros((2, runs, CYCLE), np.int8)  # own and partner's actions

        self._plan_NTC: Actions | None = None
        self._lead_N = np.full(runs, UNDECIDED)  # current constant action
        self._earned_N = np.zeros(runs)  # sum of all rewards
        self._sober_N = np.zeros(runs, bool)  # no more leading and exploring
        self._guarded_N = np.zeros(runs, bool)
        self._maximin_NK = np.full((runs, actions), 1.0 / actions)

    def act(self) -> tuple[Actions, Floats]:
        if self._now is None:
            action_N, chance_N = self._response()
            for n, handshake in self._handshakes.items():
                action_N[n], chance_N[n] = handshake.act(), 1.0
            agreed_N = self._agreed_N
            place_N = (self._rounds - self._since_N) % CYCLE
            action_N[agreed_N] = self._cycle_2NL[0, self._row, place_N][agreed_N]
            chance_N[agreed_N] = 1.0
            self._now = action_N, chance_N
        return self._now

    def observe_opponent(self, other_N: Actions) -> None:
        own_N, _ = self.act()
        other_N = np.asarray(other_N, np.int8)
        place_N = (self._rounds - self._since_N) % CYCLE
        self._agreed_N &= other_N == self._cycle_2NL[1, self._row, place_N]
        self._own.append(own_N)
        self._other.append(other_N)
        self._now = None
        self._rounds += 1
        self._negotiate(other_N)

    def update(self, own_NT: Actions, reward_NT: Floats) -> None:
        played = np.stack(self._own, axis=1) if self._own else np.empty((self._row.size, 0))
        if not np.array_equal(played, own_NT) or not self._own:
            raise ValueError(
                f"update() must receive the {len(self._own)} actions since the last update, got "
                f"{own_NT.shape[1]} others: call act() and observe_opponent() every round"
            )
        other_NT = np.stack(self._other, axis=1)
        self._own, self._other, self._now = [], [], None
        self._episodes += 1
        self._payoffs.add(own_NT, other_NT, reward_NT)
        self._earned_N += reward_NT.sum(axis=1)
        mean_NKK = self._payoffs.mean()
        self._inform(list(self._handshakes))
        self._guarded_N = self._guarded(mean_NKK)
        if not self._agreed_N.all():
            self._partner.add(own_NT, other_NT)
            self._plan_NTC = self._planned(mean_NKK, own_NT.shape[1])

    def _negotiate(self, other_N: Actions) -> None:
        bits_N = (2 * self._register_N + other_N) % 2 ** len(CALL)
        self._register_N = np.where(other_N <= 1, bits_N, 0)
        for n, handshake in list(self._handshakes.items()):
            handshake.observe(int(other_N[n]))
            if handshake.agreed is not None:
                self._cycle_2NL[:, n] = handshake.agreed
                self._agreed_N[n], self._since_N[n] = True, self._rounds
            elif handshake.over:
                self._failures_N[n] += 1
                doublings = min(int(self._failures_N[n]) - PATIENCE, 20)
                if doublings >= 0:
                    self._deaf_N[n] = self._rounds + DEAF * 2**doublings
            if handshake.over or handshake.agreed is not None:
                del self._handshakes[n]
        called_N = (self._register_N == _CALL_CODE) & (self._rounds >= self._deaf_N)
        for n in np.flatnonzero(called_N & ~self._agreed_N).tolist():
            if n not in self._handshakes:
                self._handshakes[n] = Handshake(self._actions, self._coins_NC[n], calls=False)
                self._inform([n])

    def _inform(self, runs: Sequence[int]) -> None:
        if runs:
            mean_NKK, noise_N = self._payoffs.mean(), self._payoffs.noise()
            for n in runs:
                self._handshakes[n].know(mean_NKK[n], self._payoffs.count[n], float(noise_N[n]))

    def _response(self) -> tuple[Actions, Floats]:
        uniform_N = self._uniforms.take(1)[0]
        chance_N = np.ones(self._row.size)
        if self._plan_NTC is None:  # Before the first update: each action twice, in turn.
            action_N = np.full(self._row.size, self._rounds // 2 % self._actions, np.int8)
        else:
            # In an episode longer than the last one, the plan of the last round is repeated.
            t = min(len(self._own), self._plan_NTC.shape[1] - 1)
            place_N = np.full(self._row.size, START)
            if self._own:
                place_N = 1 + self._actions * self._own[-1].astype(int) + self._other[-1]
            action_N = self._plan_NTC[self._row, t, place_N]
        if self._guarded_N.any():
            mixed_N = drawn(self._maximin_NK, uniform_N)
            action_N = np.where(self._guarded_N, mixed_N, action_N).astype(np.int8)
            mixed_chance_N = self._maximin_NK[self._row, action_N]
            chance_N = np.where(self._guarded_N, mixed_chance_N, chance_N)
        return action_N, chance_N

    def _guarded(self, mean_NKK: Floats) -> Bools:
        self._maximin_NK, value_N = maximin(mean_NKK)
        range_N = np.ptp(mean_NKK, axis=(1, 2))
        own_NL, other_NL = self._cycle_2NL
        promised_N = mean_NKK[self._row[:, None], own_NL, other_NL].mean(axis=1)
        self._agreed_N &= promised_N > value_N - BARGAIN_SHARE * range_N
        lost_N = value_N * self._rounds - self._earned_N
        bound_N = range_N * (GUARD_SHARE * self._rounds + GUARD_ROUNDS)
        self._sober_N |= lost_N > bound_N
        return np.asarray(lost_N > 2.0 * bound_N)

    def _planned(self, payoff_NKK: Floats, rounds: int) -> Actions:
        reply_NCK, error_NKK = self._partner.replies(), self._payoffs.error()
        best = best_plan(reply_NCK, payoff_NKK, rounds)
        # Against a learner, a plan is assumed to be as bad as the worse constant action.
        learner_N, wrong_N = np.zeros(self._row.size), np.zeros(self._row.size)
        plan_NTC, value_N = best.action_NTC, best.value_N
        if self._actions == 2:
            learner_N = self._partner.learner()
            led_N2 = _mean_rewards(payoff_NKK, self._partner.led())
            wrong_N = led_N2.min(axis=1)
            plan_NTC, value_N = self._leads(
                best, learner_N, led_N2, reply_NCK[:, :, 1], payoff_NKK, error_NKK
            )
        upper_NKK = payoff_NKK + OPTIMISM * error_NKK
        looks = max(1, int(LOOKS * rounds))
        doubt_NC = np.minimum(OPTIMISM * self._partner.doubt(looks), 1.0)
        hoped = best_plan(reply_NCK, upper_NKK, rounds, doubt_NC)
        found_N = plan_value(hoped.action_NTC, reply_NCK, payoff_NKK)
        expected_N = found_N + learner_N * (wrong_N - found_N)
        spread_N = (1.0 - learner_N) * (hoped.value_N - found_N) / OPTIMISM
        explores_N = worth_exploring(value_N - expected_N, spread_N)
        plan_NTC = np.where(explores_N[:, None, None], hoped.action_NTC, plan_NTC)
        return np.where(self._sober_N[:, None, None], best.action_NTC, plan_NTC).astype(np.int8)

    def _leads(
        self,
        best: Plan,
        learner_N: Floats,
        led_N2: Floats,
        reply_NC: Floats,
        payoff_NKK: Floats,
        error_NKK: Floats,
    ) -> tuple[Actions, Floats]:
        rounds = best.action_NTC.shape[1]
        share_N2 = shares_met(reply_NC, rounds)
        gap_error_N = _gap_error(error_NKK, share_N2)
        with_N2, alone_N2 = learner_N[:, None] * led_N2, _mean_rewards(payoff_NKK, share_N2)
        constant_N2 = with_N2 + (1.0 - learner_N[:, None]) * alone_N2
        gap_N = constant_N2[:, 1] - constant_N2[:, 0]
        keep_N = (self._lead_N != UNDECIDED) & (np.abs(gap_N) < SWITCH_MARGIN * gap_error_N)
        lead_N = np.where(keep_N, self._lead_N, gap_N > 0)
        lead_value_N = constant_N2[self._row, lead_N]
        best_N = best.value_N + learner_N * (led_N2.min(axis=1) - best.value_N)
        follow_N = best_N > lead_value_N + RESPONSE_MARGIN * gap_error_N
        # Leading a learner back from the wrong action costs more than it gains, so the first
        # episodes measure which action is better.
        led_error_N = _gap_error(error_NKK, self._partner.led())
        close_N = np.ptp(led_N2, axis=1) < RESPONSE_MARGIN * led_error_N
        unsure_N = (learner_N > PLAUSIBLE) & close_N
        unsure_N &= ~follow_N & (self._episodes < MEASURING)
        self._lead_N = np.where(follow_N | unsure_N, UNDECIDED, lead_N)
        plan_NTC = np.where(follow_N[:, None, None], best.action_NTC, lead_N[:, None, None])
        measure_T = np.arange(rounds) // 2 % 2
        plan_NTC = np.where(unsure_N[:, None, None], measure_T[:, None], plan_NTC)
        value_N = np.where(follow_N, best_N, lead_value_N)
        return plan_NTC.astype(np.int8), np.where(unsure_N, MUCH, value_N)


def worth_exploring(cost_N: Floats, spread_N: Floats) -> Bools:
    """Return (N,): True where the information from playing a plan is worth its cost.

    `cost_N` is the plan's expected loss of reward per round against the best known plan, `spread_N`
    the standard deviation of its value (value of information; Dearden, Friedman and Andre 1999).
    """
    spread_N = np.maximum(spread_N, 1e-12)
    return np.asarray(LOOKAHEAD * spread_N * _surplus(cost_N / spread_N) > cost_N + 1e-9)


class OurMethodPolicy:
    """Learner for repeated matrix games that observes actions and its own rewards.

    Every round, call `act` and then `observe_opponent`; after every episode, call `update`.

    Args:
        seed: Seed of mixed strategies and of the bits that choose a leader; None draws a seed. Two
            players of one game need different seeds.
        actions: Number of actions.
        momentum: Fraction of the evidence about the opponent that is kept per episode, in (0, 1].

    Raises:
        ValueError: `actions` is below 2, or `momentum` is not in (0, 1].
    """

    def __init__(self, *, seed: int | None = None, actions: int = 2, momentum: float = 0.9) -> None:
        seeds = [np.random.SeedSequence(seed)]
        self._runs = OurMethodRuns(seeds, actions=actions, momentum=momentum)
        self._actions = actions
        self._has_acted = False

    def act(self) -> tuple[int, float]:
        """Return the round's action, the same in each call, and its natural log-probability."""
        [action], [chance] = self._runs.act()
        self._has_acted = True
        return int(action), log(chance)

    def observe_opponent(self, opp_action: int) -> None:
        """Record the opponent's action, which ends the round.

        Raises ValueError if the action is out of range, or `act` was not called in this round.
        """
        if opp_action not in range(self._actions):
            allowed = "0 (compete) or 1 (cooperate)"
            if self._actions > 2:
                allowed = f"0 to {self._actions - 1}"
            raise ValueError(f"opp_action must be {allowed}, got {opp_action!r}")
        if not self._has_acted:
            raise ValueError("observe_opponent() follows act(): call act() once every round first")
        self._has_acted = False
        self._runs.observe_opponent(np.array([opp_action], np.int8))

    def update(self, trajectories: Sequence[tuple[int, float, float]], env: object = None) -> None:
        """Update the estimates and the plan after an episode.

        Args:
            trajectories: (own action, log-probability, reward) of each round of the episode; the
                log-probability is ignored.
            env: Ignored.

        Raises:
            ValueError: No rounds, or actions that differ from those since the last update.
        """
        actions = np.array([[action for action, _, _ in trajectories]], np.int8)
        rewards = np.array([[reward for _, _, reward in trajectories]], float)
        self._runs.update(actions, rewards)


def _surplus(distance_N: Floats) -> Floats:
    density_N = np.exp(-0.5 * distance_N**2) / np.sqrt(2.0 * pi)
    tail_N = 0.5 * (1.0 - _erf(distance_N / np.sqrt(2.0)))
    return np.asarray(density_N - distance_N * tail_N)


def _mean_rewards(payoff_N22: Floats, share_N2: Floats) -> Floats:
    return np.asarray(payoff_N22[:, :, 0] + share_N2 * (payoff_N22[:, :, 1] - payoff_N22[:, :, 0]))


def _gap_error(error_N22: Floats, share_N2: Floats) -> Floats:
    weight_N22 = np.stack([1.0 - share_N2, share_N2], axis=2)
    return np.asarray(np.sqrt(np.square(weight_N22 * error_N22).sum(axis=(1, 2))))
