"""Exact exploitability of a language model in small zero-sum games."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import games
from benchmarks.claim import Request, Result, Settings
from benchmarks.games import BET, CARDS, OPEN, PASS, PAYOFFS, PLAYERS, History
from benchmarks.runs import assembled, grow_pools, rounds_of
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.policy import AgentObservation
from srl_envs.text import TextView

POINTS = 10
"""Number of strategies that are read from a run after its start."""
POOL = "past"
"""Name of the opponent pool of past versions."""


def measure(request: Request) -> Result:
    """Train every method in every game, and return two rows per run.

    "judged" is "newest" (the newest model) or "mixture", which draws one of all strategies so far,
    as the run's pool does. "start", "middle" and "end" are exploitabilities: of the newest model,
    means at 40, 50 and 60 and at 80, 90 and 100 % of the rounds; of the mixture, at 50 and 100 %.
    "of_plain" divides "end" by that of the first method, and "falls" is the smaller decrease.
    """
    rows: list[dict[str, Any]] = []
    claim = request.claim
    rounds = request.overrides.get("rounds", claim.settings["rounds"])
    for name, game in claim.options["games"].items():
        for seed in request.seeds:
            plain = 0.0
            for method, own in claim.methods.items():
                settings = {**claim.settings, **game["settings"], **own}
                settings |= game["methods"].get(method, {})
                if f"opponent_pools.{POOL}.draw" in own:
                    pool = {"every": rounds // POINTS, "keep": rounds}
                    settings |= {f"opponent_pools.{POOL}.{key}": n for key, n in pool.items()}
                settings |= {**request.overrides, "seed": seed}
                run = _exploitability_of_run(game["env"], settings)
                plain = plain or run[0]["end"]
                rows += [
                    {
                        "game": name, "method": method, "seed": seed, **row,
                        "of_plain": row["end"] / plain,
                        "falls": min(row["start"] - row["middle"], row["middle"] - row["end"]),
                    }
                    for row in run
                ]  # fmt: skip
    return Result(rows)


def _exploitability_of_run(env: str, settings: Settings) -> list[dict[str, Any]]:
    """Train a run in the game `benchmarks.games.ENV`; return its rows (see `measure`)."""
    strategy, exploitability, mixture = JUDGES[env]
    began = time.process_time()
    with assembled(settings, getattr(games, env)) as run:
        backend = run.players.backends["model_0"]
        strategies, mixed = [strategy(backend)], []
        for _ in rounds_of(run):
            if not run.next_round % (run.config.rounds // POINTS):
                strategies.append(strategy(backend))
                grow_pools(run, run.next_round)
                weights = run.pools[POOL].chances() if run.pools else [1.0] * len(strategies)
                mixed.append(exploitability(mixture(strategies, weights)))
    newest = [exploitability(one) for one in strategies]
    half, start = POINTS // 2, newest[0]
    middle, end = sum(newest[half - 1 : half + 2]) / 3, sum(newest[-3:]) / 3
    spent = time.process_time() - began
    return [
        {"judged": "newest", "start": start, "middle": middle, "end": end, "cpu_seconds": spent},
        {"judged": "mixture", "start": start, "middle": mixed[half - 1], "end": mixed[-1]},
    ]


# Biased rock-paper-scissors: a strategy has the probability of each move. ------------------------


def moves_exploitability(chances_M: Sequence[float]) -> float:
    """Return the gain of a best response to the moves' probabilities, averaged over both places."""
    first = np.tensordot(PAYOFFS, chances_M, axes=(1, 0))
    second = np.tensordot(-PAYOFFS, chances_M, axes=(0, 0))
    return sum(float(earned.max() - earned @ chances_M) for earned in (first, second)) / 2


def moves_mixture(strategies: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Return the moves' probabilities if one of several strategies is drawn for each game."""
    return [float(chance) for chance in np.average(strategies, axis=0, weights=weights)]


# Kuhn poker: a strategy is the probability of betting in every information set. ------------------

Situation = tuple[int, History]
"""Own card and history."""
SITUATIONS: tuple[Situation, ...] = tuple(itertools.product(range(len(CARDS)), OPEN))
Strategy = Mapping[Situation, float]


def poker_strategy(backend: HuggingFaceBackend) -> dict[Situation, float]:
    """Return situation -> the model's probability of betting."""
    found = {}
    for card, history in SITUATIONS:
        first = len(history) % 2 == 0
        course = [(games.poker_row(card, True, ()), PASS)] if len(history) == 2 else []
        course.append((games.poker_row(card, first, history), PASS))
        found[card, history] = answer_probabilities(backend, games.PokerView(), course)[BET]
    return found


def poker_exploitability(strategy: Strategy) -> float:
    """Return the gain of a best response, averaged over both places; 0 only in equilibrium.

    OpenSpiel computes the gain.
    """
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms import exploitability

    def chances(position: Any) -> dict[int, float]:
        card, *history = position.information_state_string()  # such as "0pb"
        bet = strategy[int(card), tuple(map("pb".index, history))]
        return {PASS: 1 - bet, BET: bet}

    game = pyspiel.load_game("kuhn_poker")
    own = policy.tabular_policy_from_callable(game, chances)
    return float(exploitability.exploitability(game, own))


def poker_mixture(
    strategies: Sequence[Strategy], weights: Sequence[float]
) -> dict[Situation, float]:
    """Return the behavior strategy that is equal to drawing one strategy for each game.

    A strategy counts in a situation by the probability that its choices lead there (Kuhn 1953).
    """
    mixed = {}
    for card, history in SITUATIONS:
        own = [
            weight * (1 - one[card, ()] if len(history) == 2 else 1.0)
            for one, weight in zip(strategies, weights, strict=True)
        ]
        bets = [weight * one[card, history] for weight, one in zip(own, strategies, strict=True)]
        mixed[card, history] = sum(bets) / sum(own) if sum(own) else 0.5  # never reached
    return mixed


JUDGES: Mapping[str, tuple[Any, Any, Any]] = {
    "BiasedRockPaperScissors": (
        lambda backend: answer_probabilities(backend, games.MovesView(), [((0.0,), 0)]),
        moves_exploitability,
        moves_mixture,
    ),
    "KuhnPoker": (poker_strategy, poker_exploitability, poker_mixture),
}
"""Game -> (strategy of a model, exploitability, mixture)."""


# Exact probabilities of a model's legal answers. -------------------------------------------------


def answer_probabilities(
    backend: HuggingFaceBackend, view: TextView, course: Sequence[tuple[Any, int]]
) -> list[float]:
    """Return the probabilities of the legal answers at the last turn of a player.

    `course` has the player's observations, each with its answer; the last answer is ignored.
    """
    policy = TextPolicy(backend, view, constrained=True)
    state = policy.start(0)
    for observed, answer in course:
        seen, before = AgentObservation(PLAYERS[0], np.asarray(observed, np.float32)), state
        state = policy.continued(seen, state, answer)
    return [float(chance) for chance in policy.probabilities(seen, before)]
