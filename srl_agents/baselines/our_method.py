"""OurMethodPolicy: a learner for repeated matrix games, from actions and own rewards.

Its criteria are those of Powers, Shoham and Vu 2007: the best response against bounded memory, a
fair and efficient outcome in self-play, and the maximin value against all. In order of priority:

- `handshake`: agree on a fair cycle with another OurMethodPolicy. - `_guarded`: play the maximin
strategy after losses. - `worth_exploring`: play the optimistic plan if its information is worth
the cost. - `_leads`: lead a learner with a constant action. - otherwise play the best response
to the beliefs (`opponent_model`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, log, pi

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.handshake import CALL, COINS, Handshake
from srl_agents.baselines.learners import Uniforms, drawn
from srl_agents.baselines.opponent_model import COUNTED, PartnerModel, PayoffTable
from srl_agents.baselines.solutions import CYCLE, Plan, best_plan, maximin, plan_value, shares_met
from srl_agents.scripted.memory_one import START

TYPES = ("own kind", "stationary", "changing", "conditional", "reactive", "learner")
UNDECIDED = -1
STANDS_OUT = 2.0  # standard errors by which the best response has to beat a constant plan
HOLD = 1.0  # standard errors by which a constant plan has to be beaten to be left for the other
PLAUSIBLE = 0.2  # belief from which on the partner's being a learner is reckoned with
MEASURING = 6  # episodes at most in which a learner is led nowhere until it is clear whereto
MUCH = 1e9  # what measuring is worth, so that nothing is explored instead
OPTIMISM = 2.0  # standard deviations in the optimistic plan
LOOKS = 0.25  # share of an episode that is thought to be spent in a situation of interest
LOOKAHEAD = 1  # future episodes that use the information: partners may change
GUARD_SHARE = 0.005  # of the range of payoffs, per round, that may be lost: see `_guarded`
GUARD_ROUNDS = 32  # rounds of that range that may be lost in addition
BARGAIN_SHARE = 0.03  # of the range by which an agreement may pay less than the maximin value
PATIENCE = 4  # handshakes that led to nothing before calls go unheard,
DEAF = 64  # for so many rounds, doubled each time

_CALL_CODE = int("".join(map(str, CALL)), 2)
_erf = np.vectorize(erf, otypes=[float])


class OurMethodRuns:
    """N independent OurMethodPolicy players, one per seed, stepped together.

    Actions are int8 arrays (N,); rewards of an episode are (N, T). Parameters as in
    OurMethodPolicy.
    """

    def __init__(
        self,
        seeds: Sequence[int | np.random.SeedSequence],
        *,
        actions: int = 2,
        momentum: float = 0.9,
        types: Sequence[str] = TYPES,
    ) -> None:
        if actions < 2:
            raise ValueError(f"actions must be at least 2, got {actions}")
        if not 0.0 < momentum <= 1.0:
            raise ValueError(f"momentum must be above 0 and at most 1, got {momentum}")
        unknown = sorted(set(types) - set(TYPES))
        if unknown:
            raise ValueError(f"no partner type {unknown[0]!r}: choose among {', '.join(TYPES)}")
        if not set(types) & set(COUNTED):
            raise ValueError(f"types must have one of {', '.join(COUNTED)}, got {tuple(types)}")
        runs = len(seeds)
        self._actions, self._row = actions, np.arange(runs)
        self._uniforms = Uniforms(seeds)
        self._coins_NC = (self._uniforms.take(COINS) < 0.5).astype(int).T
        self._payoffs = PayoffTable(runs, actions)
        guessed = [kind for kind in types if kind != "own kind"]
        self._partner = PartnerModel(runs, momentum, guessed, actions)
        self._own: list[NDArray[np.int8]] = []
        self._other: list[NDArray[np.int8]] = []
        self._now: tuple[NDArray[np.int8], NDArray[np.float64]] | None = None
        self._rounds = self._episodes = 0

        self._listens = "own kind" in types
        self._talks = {
            n: Handshake(actions, self._coins_NC[n], calls=True)
            for n in (range(runs) if self._listens else ())
        }
        self._register_N = np.zeros(runs, np.int64)  # the partner's last actions, as bits
        self._deaf_N = np.zeros(runs, np.int64)  # until this round
        self._failures_N = np.zeros(runs, np.int64)
        self._agreed_N = np.zeros(runs, bool)
        self._since_N = np.zeros(runs, np.int64)  # the round an agreement began
        self._cycle_2NL = np.zeros((2, runs, CYCLE), np.int8)  # own and partner's part of it

        self._plan_NTC: NDArray[np.int8] | None = None
        self._lead_N = np.full(runs, UNDECIDED)  # the constant plan in use
        self._earned_N = np.zeros(runs)
        self._sober_N = np.zeros(runs, bool)  # leads and explores no more
        self._guarded_N = np.zeros(runs, bool)
        self._maximin_NK = np.full((runs, actions), 1.0 / actions)

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        if self._now is None:
            action_N, chance_N = self._response()
            for n, talk in self._talks.items():
                action_N[n], chance_N[n] = talk.act(), 1.0
            if self._agreed_N.any():
                place_N = (self._rounds - self._since_N) % CYCLE
                action_N = np.where(
                    self._agreed_N, self._cycle_2NL[0, self._row, place_N], action_N
                ).astype(np.int8)
                chance_N[self._agreed_N] = 1.0
            self._now = action_N, chance_N
        return self._now

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        own_N, _ = self.act()
        other_N = np.asarray(other_N, np.int8)
        if self._agreed_N.any():
            place_N = (self._rounds - self._since_N) % CYCLE
            self._agreed_N &= other_N == self._cycle_2NL[1, self._row, place_N]
        self._own.append(own_N)
        self._other.append(other_N)
        self._now = None
        self._rounds += 1
        if self._listens:
            self._talk(other_N)

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Learn the rewards of an episode; raise ValueError if `own_NT` was not played."""
        played = np.stack(self._own, axis=1) if self._own else np.empty((self._row.size, 0))
        if not np.array_equal(played, own_NT) or not self._own:
            raise ValueError(
                f"update() got {own_NT.shape[1]} round(s) that are not the {len(self._own)} "
                "played since the last update: call act() and observe_opponent() every round"
            )
        other_NT = np.stack(self._other, axis=1)
        self._own, self._other, self._now = [], [], None
        self._episodes += 1
        self._payoffs.add(own_NT, other_NT, reward_NT)
        self._earned_N += reward_NT.sum(axis=1)
        mean_NKK = self._payoffs.mean()
        for n in self._talks:
            self._tell(n)
        self._guarded_N = self._guarded(mean_NKK)
        if not self._agreed_N.all():
            self._partner.add(own_NT, other_NT)
            self._plan_NTC = self._planned(mean_NKK, own_NT.shape[1])

    def _talk(self, other_N: NDArray[np.int8]) -> None:
        bits_N = (2 * self._register_N + other_N) % 2 ** len(CALL)
        self._register_N = np.where(other_N <= 1, bits_N, 0)
        for n, talk in list(self._talks.items()):
            talk.observe(int(other_N[n]))
            if talk.agreed is not None:
                self._cycle_2NL[:, n] = talk.agreed
                self._agreed_N[n], self._since_N[n] = True, self._rounds
            elif talk.over:
                self._failures_N[n] += 1
                patience = min(int(self._failures_N[n]) - PATIENCE, 20)
                if patience >= 0:
                    self._deaf_N[n] = self._rounds + DEAF * 2**patience
            if talk.over or talk.agreed is not None:
                del self._talks[n]
        called_N = (self._register_N == _CALL_CODE) & (self._rounds >= self._deaf_N)
        for n in np.flatnonzero(called_N & ~self._agreed_N).tolist():
            if n not in self._talks:
                self._talks[n] = Handshake(self._actions, self._coins_NC[n], calls=False)
                self._tell(n)

    def _tell(self, n: int) -> None:
        payoffs = self._payoffs.of(n)
        self._talks[n].know(payoffs.mean()[0], payoffs.count[0], float(payoffs.noise()[0]))

    def _response(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        uniform_N = self._uniforms.take(1)[0]
        chance_N = np.ones(self._row.size)
        if self._plan_NTC is None:  # nothing is known: every action twice, and again
            action_N = np.full(self._row.size, self._rounds // 2 % self._actions, np.int8)
        else:
            # An episode that outlasts the one before stays with the plan for its last round.
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

    def _guarded(self, mean_NKK: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return where losses against the maximin value exceed the bound: (N,).

        At half of the bound a player stops leading and exploring (safety; Powers et al. 2007).
        """
        self._maximin_NK, value_N = maximin(mean_NKK)
        range_N = np.ptp(mean_NKK, axis=(1, 2))
        own_NL, other_NL = self._cycle_2NL
        promised_N = mean_NKK[self._row[:, None], own_NL, other_NL].mean(axis=1)
        self._agreed_N &= promised_N > value_N - BARGAIN_SHARE * range_N
        lost_N = value_N * self._rounds - self._earned_N
        bound_N = range_N * (GUARD_SHARE * self._rounds + GUARD_ROUNDS)
        self._sober_N |= lost_N > bound_N
        return np.asarray(lost_N > 2.0 * bound_N)

    def _planned(self, payoff_NKK: NDArray[np.float64], rounds: int) -> NDArray[np.int8]:
        reply_NCK, error_NKK = self._partner.replies(), self._payoffs.error()
        best = best_plan(reply_NCK, payoff_NKK, rounds)
        # With a learner a plan is taken for no better than leading it the wrong way.
        learner_N, wrong_N = np.zeros(self._row.size), np.zeros(self._row.size)
        plan_NTC, value_N = best.action_NTC, best.value_N
        if self._actions == 2:
            learner_N = self._partner.learner()
            led_N2 = _worth(payoff_NKK, self._partner.led())
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
        learner_N: NDArray[np.float64],
        led_N2: NDArray[np.float64],
        reply_NC: NDArray[np.float64],
        payoff_NKK: NDArray[np.float64],
        error_NKK: NDArray[np.float64],
    ) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        rounds = best.action_NTC.shape[1]
        share_N2 = shares_met(reply_NC, rounds)
        slip_N = _slip(error_NKK, share_N2)
        with_N2, alone_N2 = learner_N[:, None] * led_N2, _worth(payoff_NKK, share_N2)
        constant_N2 = with_N2 + (1.0 - learner_N[:, None]) * alone_N2
        gap_N = constant_N2[:, 1] - constant_N2[:, 0]
        keep_N = (self._lead_N != UNDECIDED) & (np.abs(gap_N) < HOLD * slip_N)
        lead_N = np.where(keep_N, self._lead_N, gap_N > 0)
        lead_value_N = constant_N2[self._row, lead_N]
        best_N = best.value_N + learner_N * (led_N2.min(axis=1) - best.value_N)
        follow_N = best_N > lead_value_N + STANDS_OUT * slip_N
        # A learner that was led the wrong way cannot be led back at a price worth paying.
        led_slip_N = _slip(error_NKK, self._partner.led())
        unsure_N = (learner_N > PLAUSIBLE) & (np.ptp(led_N2, axis=1) < STANDS_OUT * led_slip_N)
        unsure_N &= ~follow_N & (self._episodes < MEASURING)
        self._lead_N = np.where(follow_N | unsure_N, UNDECIDED, lead_N)
        plan_NTC = np.where(follow_N[:, None, None], best.action_NTC, lead_N[:, None, None])
        measure_T = np.arange(rounds) // 2 % 2
        plan_NTC = np.where(unsure_N[:, None, None], measure_T[:, None], plan_NTC)
        value_N = np.where(follow_N, best_N, lead_value_N)
        return plan_NTC.astype(np.int8), np.where(unsure_N, MUCH, value_N)


def worth_exploring(
    cost_N: NDArray[np.float64], spread_N: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return True where a plan of this expected cost is worth an episode.

    The plan's value is normal with this spread; the benefit is the expected surplus over
    LOOKAHEAD episodes (value of information; Dearden, Friedman and Andre 1999).
    """
    spread_N = np.maximum(spread_N, 1e-12)
    return np.asarray(LOOKAHEAD * spread_N * _surplus(cost_N / spread_N) > cost_N + 1e-9)


class OurMethodPolicy:
    """Learner for repeated matrix games, from actions and own rewards.

    Args:
        seed: Seed of tie-breaks and mixed strategies; two players need different seeds.
        actions: Number of actions.
        momentum: Weight that evidence keeps from episode to episode, in (0, 1].
        types: Partner types that are considered possible.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        actions: int = 2,
        momentum: float = 0.9,
        types: Sequence[str] = TYPES,
    ) -> None:
        seeds = [np.random.SeedSequence(seed)]
        self._runs = OurMethodRuns(seeds, actions=actions, momentum=momentum, types=types)
        self._actions = actions
        self._asked = False

    def act(self) -> tuple[int, float]:
        [action], [chance] = self._runs.act()
        self._asked = True
        return int(action), log(chance)

    def observe_opponent(self, opp_action: int) -> None:
        """Observe the partner's action; raise ValueError for an invalid one or without act()."""
        if opp_action not in range(self._actions):
            allowed = "0 (compete) or 1 (cooperate)"
            if self._actions > 2:
                allowed = f"0 to {self._actions - 1}"
            raise ValueError(f"opp_action must be {allowed}, got {opp_action!r}")
        if not self._asked:
            raise ValueError("observe_opponent() follows act(): call act() once every round first")
        self._asked = False
        self._runs.observe_opponent(np.array([opp_action], np.int8))

    def update(self, trajectories: Sequence[tuple[int, float, float]], env: object = None) -> None:
        """Learn from an episode of (action, log-probability, reward).

        `env` is ignored. Raises ValueError if the actions are not those played.
        """
        actions = np.array([[action for action, _, _ in trajectories]], np.int8)
        rewards = np.array([[reward for _, _, reward in trajectories]], float)
        self._runs.update(actions, rewards)


def _surplus(distance_N: NDArray[np.float64]) -> NDArray[np.float64]:
    density_N = np.exp(-0.5 * distance_N**2) / np.sqrt(2.0 * pi)
    tail_N = 0.5 * (1.0 - _erf(distance_N / np.sqrt(2.0)))
    return np.asarray(density_N - distance_N * tail_N)


def _worth(payoff_N22: NDArray[np.float64], share_N2: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(payoff_N22[:, :, 0] + share_N2 * (payoff_N22[:, :, 1] - payoff_N22[:, :, 0]))


def _slip(error_N22: NDArray[np.float64], share_N2: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard error of the difference in worth between always playing 0 and 1: (N,)."""
    weight_N22 = np.stack([1.0 - share_N2, share_N2], axis=2)
    return np.asarray(np.sqrt(np.square(weight_N22 * error_N22).sum(axis=(1, 2))))
