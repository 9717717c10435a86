"""Methods that the general suite compares with: EXP3, fictitious play and S++."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.learners import Uniforms, drawn
from srl_agents.baselines.opponent_model import PayoffTable
from srl_agents.baselines.solutions import best_plan, maximin
from srl_agents.scripted.memory_one import START, situations

EPOCH = 4  # rounds: a cycle of two joint actions, twice
PUNISHED = 16  # rounds after which a leader may be left even while it punishes
LEARNING = 0.99  # what a round keeps of the aspiration
DISCOUNT = 0.95  # of the model's values
FIRST_SWEEPS, SWEEPS = 100, 4  # of value iteration: at first, and every epoch
MARGIN = 0.02  # payoff by which what a leader asks for is better than the partner's punishment
SAFE, MODEL, FIRST_LEADER = 0, 1, 2  # the experts' places


class EXP3Runs:
    """N independent EXP3 learners (Auer, Cesa-Bianchi, Freund and Schapire 2002, fig. 1).

    Weights move at the end of an episode, by the estimates of all its rounds. Rewards are within
    [0, 1], up to noise. `exploration` is the share of uniform play, gamma.
    """

    def __init__(
        self,
        seeds: Sequence[int | np.random.SeedSequence],
        *,
        actions: int = 2,
        exploration: float = 0.1,
    ) -> None:
        self._exploration, self._row = exploration, np.arange(len(seeds))
        self._logits_NK = np.zeros((len(seeds), actions))
        self._uniforms = Uniforms(seeds)
        self._chance_NK = self._chances()

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        action_N = drawn(self._chance_NK, self._uniforms.take(1)[0]).astype(np.int8)
        return action_N, self._chance_NK[self._row, action_N]

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Ignore the opponent."""

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        actions = self._logits_NK.shape[1]
        for action in range(actions):
            reward_N = (reward_NT * (own_NT == action)).sum(axis=1)
            estimate_N = reward_N / self._chance_NK[:, action]
            self._logits_NK[:, action] += self._exploration / actions * estimate_N
        self._chance_NK = self._chances()

    def _chances(self) -> NDArray[np.float64]:
        weight_NK = np.exp(self._logits_NK - self._logits_NK.max(axis=1, keepdims=True))
        greedy_NK = weight_NK / weight_NK.sum(axis=1, keepdims=True)
        even = self._exploration / weight_NK.shape[1]
        return np.asarray((1.0 - self._exploration) * greedy_NK + even)


class FictitiousPlayRuns:
    """N independent players of the best response to the frequencies seen (Brown 1951).

    Frequencies are counted for every outcome of the round before (each action once beforehand), and
    the response is exact over the episode. The first episode is played at random; nothing is
    explored after it.
    """

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence], *, actions: int = 2) -> None:
        runs = len(seeds)
        self._actions, self._row = actions, np.arange(runs)
        self._uniforms = Uniforms(seeds)
        self._payoffs = PayoffTable(runs, actions)
        self._count_NCK = np.ones((runs, 1 + actions * actions, actions))
        self._plan_NTC: NDArray[np.int8] | None = None
        self._place_N = np.full(runs, START)
        self._own_N = np.zeros(runs, np.int8)
        self._other: list[NDArray[np.int8]] = []

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        if self._plan_NTC is None:
            drawn_N = self._uniforms.take(1)[0] * self._actions
            self._own_N = drawn_N.astype(np.int8)
            return self._own_N, np.full(self._row.size, 1.0 / self._actions)
        t = min(len(self._other), self._plan_NTC.shape[1] - 1)
        self._own_N = self._plan_NTC[self._row, t, self._place_N]
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        self._other.append(other_N)
        self._place_N = 1 + self._actions * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        other_NT = np.stack(self._other, axis=1)
        self._other, self._place_N = [], np.full_like(self._place_N, START)
        self._payoffs.add(own_NT, other_NT, reward_NT)
        place_NT = situations(own_NT, other_NT, self._actions)
        np.add.at(self._count_NCK, (self._row[:, None], place_NT, other_NT), 1.0)
        reply_NCK = self._count_NCK / self._count_NCK.sum(axis=2, keepdims=True)
        plan = best_plan(reply_NCK, self._payoffs.mean(), own_NT.shape[1])
        self._plan_NTC = plan.action_NTC


class SPlusPlusRuns:
    """N independent S++ players.

    Crandall 2014, "Towards minimizing disappointment in repeated games".

    Payoffs of both players are known, (N, own action, other's). The experts are a maximin strategy,
    a best response to a memory-one model, and a leader and a follower for each fair cycle of at
    most two joint actions. A leader punishes deviations until their gain is gone. Differences from
    the paper: all epochs have EPOCH rounds, and a punishing expert may be left after PUNISHED
    rounds.
    """

    def __init__(
        self,
        seeds: Sequence[int | np.random.SeedSequence],
        own_NKK: NDArray[np.float64],
        other_NKK: NDArray[np.float64],
    ) -> None:
        runs, actions = own_NKK.shape[:2]
        self._actions, self._row, self._rounds = actions, np.arange(runs), 0
        self._uniforms = Uniforms(seeds)
        self._pays_2NJ = np.stack([own_NKK.reshape(runs, -1), other_NKK.reshape(runs, -1)])

        cells = np.array(list(combinations_with_replacement(range(actions**2), 2)))
        self._part_2XT = np.stack(np.divmod(cells, actions)).astype(np.int8)  # X cycles of 2 rounds
        worth_2NX = self._pays_2NJ[:, :, cells].mean(axis=3)
        self._target_NX = worth_2NX[1]
        self._safe_NK, sure_N = maximin(own_NKK)
        _, other_sure_N = maximin(other_NKK.transpose(0, 2, 1))
        self._attack_NK, _ = maximin(-other_NKK)
        fair_NX = (worth_2NX[0] >= sure_N[:, None]) & (worth_2NX[1] >= other_sure_N[:, None])
        followers = np.where(fair_NX, worth_2NX[0], -np.inf)
        # A leader's threat has to cost the partner something.
        threat_NX = worth_2NX[1] > other_sure_N[:, None] + MARGIN
        leaders = np.where(threat_NX, followers, -np.inf)
        self._potential_NE = np.concatenate(
            [sure_N[:, None], np.zeros((runs, 1)), leaders, followers], axis=1
        )

        self._count_NJK = np.ones((runs, actions**2, actions))
        self._value_NJ = np.zeros((runs, actions**2))
        self._best_NJ = np.zeros((runs, actions**2), np.int8)
        self._aspiration_N = own_NKK.max(axis=(1, 2))
        self._guilt_N = np.zeros(runs)
        self._earned_N = np.zeros(runs)
        self._since_N = np.zeros(runs, int)
        self._last_N = np.zeros(runs, int)  # the joint action of the round before
        self._sweep(FIRST_SWEEPS)
        self._expert_N = self._choose(np.ones(runs, bool), np.zeros(runs, int))
        self._own_N = np.zeros(runs, np.int8)

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        drawn_N = self._uniforms.take(1)[0]
        cycle_N, is_cycle_N, leads_N = self._roles()
        part_N = self._part_2XT[0, cycle_N, self._rounds % 2]
        modelled_N = self._best_NJ[self._row, self._last_N]
        own_N = np.where(is_cycle_N, part_N, modelled_N)
        attacks_N = leads_N & (self._guilt_N > 1e-9)
        own_N = np.where(attacks_N, drawn(self._attack_NK, drawn_N), own_N)
        own_N = np.where(self._expert_N == SAFE, drawn(self._safe_NK, drawn_N), own_N)
        self._own_N = own_N.astype(np.int8)
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        joint_N = self._own_N.astype(int) * self._actions + other_N
        self._count_NJK[self._row, self._last_N, other_N] += 1.0
        own_N, theirs_N = self._pays_2NJ[:, self._row, joint_N]
        cycle_N, _, leads_N = self._roles()
        target_N = self._target_NX[self._row, cycle_N]
        deviates_N = other_N != self._part_2XT[1, cycle_N, self._rounds % 2]
        counts_N = leads_N & (deviates_N | (self._guilt_N > 1e-9))
        guilt_N = np.maximum(self._guilt_N + theirs_N - target_N, 0.0)
        self._guilt_N = np.where(counts_N, guilt_N, np.where(leads_N, self._guilt_N, 0.0))
        self._earned_N += own_N
        self._since_N += 1
        self._last_N = joint_N
        self._rounds += 1
        if self._rounds % EPOCH == 0:
            self._sweep(SWEEPS)
            self._review()

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Do nothing: payoffs are known."""

    def _roles(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        cycles = self._part_2XT.shape[1]
        place_N = self._expert_N - FIRST_LEADER
        return np.maximum(place_N, 0) % cycles, place_N >= 0, (place_N >= 0) & (place_N < cycles)

    def _sweep(self, times: int) -> None:
        runs, actions = self._row.size, self._actions
        chance_NJK = self._count_NJK / self._count_NJK.sum(axis=2, keepdims=True)
        for _ in range(times):
            next_NJ = (1.0 - DISCOUNT) * self._pays_2NJ[0] + DISCOUNT * self._value_NJ
            worth_NKK = next_NJ.reshape(runs, actions, actions)
            worth_NJK = chance_NJK @ worth_NKK.transpose(0, 2, 1)
            self._value_NJ = worth_NJK.max(axis=2)
        self._best_NJ = worth_NJK.argmax(axis=2).astype(np.int8)
        self._potential_NE[:, MODEL] = self._value_NJ[self._row, self._last_N]

    def _review(self) -> None:
        mean_N = self._earned_N / self._since_N
        keep = LEARNING**self._since_N
        content_N = mean_N >= self._aspiration_N - 1e-9
        self._aspiration_N = keep * self._aspiration_N + (1.0 - keep) * mean_N
        punishes_N = (self._guilt_N > 1e-9) & (self._since_N < PUNISHED)
        ratio_N = np.clip(mean_N / np.maximum(self._aspiration_N, 1e-9), 0.0, 1.0)
        stays_N = self._uniforms.take(1)[0] < ratio_N**EPOCH
        again_N = ~(content_N | punishes_N | stays_N)
        self._expert_N = self._choose(again_N, self._expert_N)
        over_N = ~punishes_N | again_N
        self._earned_N = np.where(over_N, 0.0, self._earned_N)
        self._since_N = np.where(over_N, 0, self._since_N)

    def _choose(self, who_N: NDArray[np.bool_], current_N: NDArray[np.int64]) -> NDArray[np.int64]:
        allowed_NE = self._potential_NE >= self._aspiration_N[:, None] - 1e-9
        allowed_NE[~allowed_NE.any(axis=1), MODEL] = True
        chance_NE = allowed_NE / allowed_NE.sum(axis=1, keepdims=True)
        chosen_N = drawn(chance_NE, self._uniforms.take(1)[0])
        self._guilt_N = np.where(who_N, 0.0, self._guilt_N)
        return np.where(who_N, chosen_N, current_N)
