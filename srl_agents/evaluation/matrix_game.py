"""Benchmark of repeated matrix games in array form: payoffs, matches and cross-play.

Suffixes of array names are their axes: N runs, T rounds, E episodes, 2 actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from srl_agents.arrays import Actions, Floats
from srl_agents.baselines.learners import SimplePGRuns, Uniforms
from srl_agents.baselines.our_method import OurMethodRuns
from srl_agents.baselines.solutions import best_plan
from srl_agents.scripted import Always, Bernoulli, MemoryOne, TitForTat
from srl_agents.scripted.memory_one import START, distributions, mirrored
from srl_envs.games.coop_compete import CoopCompeteRules

NOISE = 0.05
"""Standard deviation of each reward, independent for each player and round."""
LATE = 0.1
"""Share of the episodes, from the end, in which the final behavior is measured."""
SCRIPTED: Mapping[str, MemoryOne] = {
    "AC": Always(1),
    "AP": Always(0),
    "TFT": TitForTat(),
    "CONTRARY": MemoryOne("contrary", (1.0, 1.0, 0.0, 1.0, 0.0)),
    "RANDOM_0.1": Bernoulli(0.1),
    "RANDOM_0.3": Bernoulli(0.3),
    "RANDOM_0.5": Bernoulli(0.5),
    "RANDOM_0.7": Bernoulli(0.7),
    "RANDOM_0.9": Bernoulli(0.9),
}
"""Scripted players: AC always cooperates, AP always competes, RANDOM_q cooperates with probability
q, CONTRARY cooperates and then plays the opposite of its opponent's last action."""
LEARNERS = ("OUR", "PG", "PG_TUNED")
PLAYERS = (*SCRIPTED, *LEARNERS)
PG_RATE = 0.05
RATES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 70.0, 100.0)
"""Learning rates from which the rate of PG_TUNED is chosen."""
REPORTED, TUNING = 0, 1
"""Second number of each seed, so that tuning and reported matches share no random numbers."""

Seeds = Sequence[np.random.SeedSequence]


class Player(Protocol):
    """N independent runs of one policy, in array form."""

    def act(self) -> tuple[Actions, Floats]:
        """Return the actions (N,) of a round, and probabilities (N,) that `play_match` ignores."""
        ...

    def observe_opponent(self, other_N: Actions) -> None:
        """Record the opponents' actions (N,) of the round."""

    def update(self, own_NT: Actions, reward_NT: Floats) -> None:
        """Learn from the actions and rewards (N, T) of an episode, and begin the next one."""


class Scripted:
    """N runs of a memory-one strategy (a Player), one per seed.

    `chances` are the probabilities of action 1 at first and after (own, other) = 00, 01, 10, 11.
    """

    def __init__(self, seeds: Seeds, chances: Sequence[float]) -> None:
        self._uniforms = Uniforms(seeds)
        self._chances = np.array(chances)
        self._own = np.zeros(len(seeds), np.int8)
        self._situation = np.full(len(seeds), START)

    def act(self) -> tuple[Actions, Floats]:
        chance = self._chances[self._situation]
        self._own = (self._uniforms.take(1)[0] < chance).astype(np.int8)
        return self._own, chance

    def observe_opponent(self, other_N: Actions) -> None:
        self._situation = 1 + 2 * self._own + other_N

    def update(self, own_NT: Actions, reward_NT: Floats) -> None:
        self._situation = np.full_like(self._situation, START)


@dataclass(frozen=True)
class MatchOutcome:
    """Rewards of two players in all runs, and their joint actions in the last episodes."""

    rewards_2NE: Floats
    """Mean reward per round, by player, run and episode."""
    late_N22: Floats
    """Share of each joint action [A's, B's] in the last tenth of the episodes, at least one."""

    def of(self, player: int) -> Floats:
        """Return the mean reward per round of player 0 or 1 over all episodes, by run: (N,)."""
        return np.asarray(self.rewards_2NE[player].mean(axis=1))


def payoffs(coop_level: float, difficulty: float) -> Floats:
    """Return noise-free rewards [own action, other's; 1 = cooperate] of coop_compete_v0's "pair".

    Raises ValueError if a level is outside [0, 1].
    """
    rules = CoopCompeteRules(2, coop_level, difficulty, variant="pair")
    return np.array(
        [[rules.expected_rewards((own, other))[0] for other in (0, 1)] for own in (0, 1)]
    )


def oracle(payoff_22: Floats) -> float:
    """Return the mean reward per round of the better of two outcomes: both compete or cooperate."""
    return float(max(payoff_22[0, 0], payoff_22[1, 1]))


def best_response(payoff_22: Floats, opponent_C: Sequence[float], horizon: int) -> float:
    """Return the mean reward per round of the best response to a memory-one opponent.

    `opponent_C` are its probabilities of cooperation at first and after (its own action, the
    other's) = 00, 01, 10, 11; `horizon` is the number of rounds.
    """
    reply_CK = distributions(mirrored(opponent_C))
    return float(best_plan(reply_CK[None], payoff_22[None], horizon).value_N[0])


def play_match(
    make_a: Callable[[Seeds], Player],
    make_b: Callable[[Seeds], Player],
    payoff_22: Floats,
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: Sequence[int],
) -> MatchOutcome:
    """Play two players against each other, in episodes of `horizon` rounds and independent runs.

    Rewards are `payoff_22` [own, other's action] plus normal noise; negative sums become 0. The
    players are updated after each episode. Every run has its own generators, seeded from `seed`.
    """
    a, b = (make(run_seeds(seed, role, runs)) for role, make in enumerate((make_a, make_b)))
    noises = [[np.random.default_rng(s) for s in run_seeds(seed, role, runs)] for role in (2, 3)]
    rewards = np.empty((2, runs, episodes))
    late_N22 = np.zeros((runs, 2, 2))
    late = max(1, round(LATE * episodes))
    for episode in range(episodes):
        a_NT, b_NT = play_episode(a, b, runs, horizon)
        for player, own_NT, other_NT in ((0, a_NT, b_NT), (1, b_NT, a_NT)):
            drawn_NT = np.stack([one.standard_normal(horizon) for one in noises[player]])
            reward_NT = np.maximum(0.0, payoff_22[own_NT, other_NT] + NOISE * drawn_NT)
            (a, b)[player].update(own_NT, reward_NT)
            rewards[player, :, episode] = reward_NT.mean(axis=1)
        if episode >= episodes - late:
            for own, other in np.ndindex(2, 2):
                here_NT = (a_NT == own) & (b_NT == other)
                late_N22[:, own, other] += here_NT.mean(axis=1) / late
    return MatchOutcome(rewards, late_N22)


def play_episode(a: Player, b: Player, runs: int, horizon: int) -> tuple[Actions, Actions]:
    """Play `horizon` rounds without `update`; return both players' actions, each (N, T)."""
    a_TN, b_TN = np.empty((2, horizon, runs), np.int8)
    for t in range(horizon):
        a_TN[t], b_TN[t] = a.act()[0], b.act()[0]
        a.observe_opponent(b_TN[t])
        b.observe_opponent(a_TN[t])
    return a_TN.T.copy(), b_TN.T.copy()


def run_seeds(seed: Sequence[int], role: int, runs: int) -> list[np.random.SeedSequence]:
    """Return one seed per run of player 0 or 1, or of their reward noise (`role` 2 or 3)."""
    return [np.random.SeedSequence([*seed, role, run]) for run in range(runs)]


def check_counts(runs: int, episodes: int, horizon: int, seed: int) -> None:
    """Raise ValueError if runs, episodes or horizon is below 1, or the seed is below 0."""
    for name, value in (("runs", runs), ("episodes", episodes), ("horizon", horizon)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")


def run_benchmark(
    runs: int = 5,
    episodes: int = 200,
    coop_level: float = 0.6,
    difficulty: float = 0.3,
    horizon: int = 32,
    seed: int = 42,
    *,
    players: Sequence[str] = PLAYERS,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Play all players against each other at one setting.

    Args:
        runs: Number of independent runs per pair.
        episodes: Number of episodes per run.
        coop_level: Advantage of cooperation, in [0, 1].
        difficulty: Difficulty of the game, in [0, 1].
        horizon: Number of rounds per episode.
        seed: Seed of all randomness.
        players: Names in PLAYERS; others raise KeyError.
        progress: Callback that receives lines of text.

    Returns:
        JSON data. Averages are mean rewards per round over all episodes, including learning;
        deviations are population standard deviations over the runs.

        - "params": the arguments from `runs` to `seed`.
        - "metrics": player -> avg_A, avg_B, std_A, std_B in self-play.
        - "oracle": see `oracle`.
        - "references": opponent -> `best_response` to a scripted player; for a learner, average
          of the better of AC and AP against it (no entry unless both play).
        - "cross_play": row -> column -> {"avg", "std", "worst"} of the row's player.
        - "tuning": {"rate": learning rate of PG_TUNED; PG_RATE if it does not play}.
        - "self_play": player -> "worst" (lowest run of A or B), runs_in_the_worse_agreement.

    Raises:
        ValueError: A count is below 1, the seed is below 0, or a level is outside [0, 1].
    """
    check_counts(runs, episodes, horizon, seed)
    payoff_22 = payoffs(coop_level, difficulty)
    settings = {"runs": runs, "episodes": episodes, "horizon": horizon}
    rate = PG_RATE
    if "PG_TUNED" in players:
        rate = tuned_rate(payoff_22, seed=seed, **settings)
        progress(f"best learning rate of SimplePG: {rate:g}")
    makers = {name: maker(name, rate) for name in players}
    cells: dict[str, dict[str, dict[str, float]]] = {name: {} for name in players}
    mirrors: dict[str, MatchOutcome] = {}
    for index, row in enumerate(players):
        for column in players[index:]:
            outcome = play_match(
                makers[row], makers[column], payoff_22, seed=(seed, REPORTED), **settings
            )
            cells[row][column] = _cell(outcome.of(0))
            if row == column:
                mirrors[row] = outcome
            else:
                cells[column][row] = _cell(outcome.of(1))
        progress(f"{row} has played all others")
    references = {
        name: best_response(payoff_22, SCRIPTED[name].chances, horizon)
        if name in SCRIPTED
        else max(cells["AC"][name]["avg"], cells["AP"][name]["avg"])
        for name in players
        if name in SCRIPTED or {"AC", "AP"} <= set(players)
    }
    metrics: dict[str, dict[str, float]] = {}
    self_play: dict[str, dict[str, float]] = {}
    for name, outcome in mirrors.items():
        a, b = outcome.of(0), outcome.of(1)
        metrics[name] = {"avg_A": float(a.mean()), "avg_B": float(b.mean())}
        metrics[name] |= {"std_A": float(a.std()), "std_B": float(b.std())}
        self_play[name] = {
            "worst": float(min(a.min(), b.min())),
            "runs_in_the_worse_agreement": runs_in_the_worse_agreement(outcome, payoff_22),
        }
    levels = {"coop_level": coop_level, "difficulty": difficulty, "seed": seed}
    return {
        "params": {**settings, **levels},
        "metrics": metrics,
        "oracle": oracle(payoff_22),
        "references": references,
        "cross_play": cells,
        "tuning": {"rate": rate},
        "self_play": self_play,
    }


def tuned_rate(payoff_22: Floats, *, runs: int, episodes: int, horizon: int, seed: int) -> float:
    """Return the learning rate in RATES with the highest mean reward of SimplePG in self-play."""
    values = {}
    for rate in RATES:
        make = partial(SimplePGRuns, lr=rate)
        counts = {"runs": runs, "episodes": episodes, "horizon": horizon}
        outcome = play_match(make, make, payoff_22, seed=(seed, TUNING), **counts)
        values[rate] = float(outcome.rewards_2NE.mean())
    return max(RATES, key=values.__getitem__)


def maker(name: str, tuned: float) -> Callable[[Seeds], Player]:
    """Return the constructor of a player in PLAYERS; `tuned` is PG_TUNED's learning rate."""
    if name in SCRIPTED:
        return partial(Scripted, chances=SCRIPTED[name].chances)
    learners: Mapping[str, Callable[[Seeds], Player]] = {
        "OUR": OurMethodRuns,
        "PG": lambda seeds: SimplePGRuns(seeds, lr=PG_RATE),
        "PG_TUNED": lambda seeds: SimplePGRuns(seeds, lr=tuned),
    }
    return learners[name]


def _cell(value_N: Floats) -> dict[str, float]:
    average, deviation = float(value_N.mean()), float(value_N.std())
    return {"avg": average, "std": deviation, "worst": float(value_N.min())}


def runs_in_the_worse_agreement(outcome: MatchOutcome, payoff_22: Floats) -> int:
    """Return the number of runs with the lower-paying agreement in over half of the late rounds.

    The two agreements are that both cooperate and that both compete; if they pay the same, the
    result is 0. Late rounds are as in `late_N22`.
    """
    gap = payoff_22[1, 1] - payoff_22[0, 0]
    if abs(gap) < 1e-12:
        return 0
    worse = int(gap < 0)
    return int((outcome.late_N22[:, worse, worse] > 0.5).sum())
