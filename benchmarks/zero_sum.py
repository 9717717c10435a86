"""Exact exploitability of a language model in small zero-sum games."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import games
from benchmarks.claim import Request, Result, Settings
from benchmarks.games import BET, CARDS, DEALS, OPEN, PASS, PAYOFFS, PLAYERS, History
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
    """Measure every method in every game: one row per run, for its newest model and its mixture.

    "start", "middle" (mean at 40, 50 and 60 % of the rounds) and "end" (80, 90 and 100 %) are
    exploitabilities. The mixture draws one of all strategies so far, as the run's pool does.
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
    half = POINTS // 2
    return [
        {
            "judged": "newest",
            "start": newest[0],
            "middle": sum(newest[half - 1 : half + 2]) / 3,
            "end": sum(newest[-3:]) / 3,
            "cpu_seconds": time.process_time() - began,
        },
        {"judged": "mixture", "start": newest[0], "middle": mixed[half - 1], "end": mixed[-1]},
    ]


# Biased rock-paper-scissors: a strategy is the sequence of the moves' probabilities. -------------


def moves_strategy(backend: HuggingFaceBackend) -> list[float]:
    """Return the model's probabilities of the moves."""
    return answer_probabilities(backend, games.MovesView(), PLAYERS[0], [((0.0,), 0)])


def moves_exploitability(chances_M: Sequence[float]) -> float:
    """Return the gain of a best response, averaged over both places."""
    first = np.tensordot(PAYOFFS, chances_M, axes=(1, 0))
    second = np.tensordot(-PAYOFFS, chances_M, axes=(0, 0))
    return sum(float(earned.max() - earned @ chances_M) for earned in (first, second)) / 2


def moves_mixture(strategies: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Return the strategy that draws one of several for each game."""
    return [float(chance) for chance in np.average(strategies, axis=0, weights=weights)]


# Kuhn poker: a strategy is the probability of betting in every information set. ------------------

Situation = tuple[int, History]
"""Own card and history."""
SITUATIONS: tuple[Situation, ...] = tuple(itertools.product(range(len(CARDS)), OPEN))
Strategy = Mapping[Situation, float]


def poker_strategy(backend: HuggingFaceBackend) -> dict[Situation, float]:
    """Return the model's probability of betting in every situation."""
    found = {}
    for card, history in SITUATIONS:
        first = len(history) % 2 == 0
        course = [(games.poker_row(card, True, ()), PASS)] if len(history) == 2 else []
        course.append((games.poker_row(card, first, history), PASS))
        probabilities = answer_probabilities(backend, games.PokerView(), PLAYERS[0], course)
        found[card, history] = probabilities[BET]
    return found


def poker_exploitability(strategy: Strategy) -> float:
    """Return the gain of a best response, averaged over both places; 0 only in equilibrium."""
    first = _best(lambda deal, own: _expected(deal, (), own, strategy), place=0)
    second = _best(lambda deal, own: -_expected(deal, (), strategy, own), place=1)
    return (first + second) / 2


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


def poker_value(first: Strategy, second: Strategy) -> float:
    """Return the exact mean reward of the opener."""
    return sum(_expected(deal, (), first, second) for deal in DEALS) / len(DEALS)


def _expected(deal: tuple[int, int], history: History, first: Strategy, second: Strategy) -> float:
    if history not in OPEN:
        return games.poker_value(deal, history)
    mover = len(history) % 2
    bets = (first, second)[mover][deal[mover], history]
    return sum(
        chance * _expected(deal, (*history, choice), first, second)
        for choice, chance in ((PASS, 1 - bets), (BET, bets))
        if chance
    )


def _best(earns: Any, place: int) -> float:
    """Return the most that a pure plan earns; the plans of the cards are independent."""
    total = 0.0
    own_turns = [history for history in OPEN if len(history) % 2 == place]
    for card in range(len(CARDS)):
        dealt = [deal for deal in DEALS if deal[place] == card]
        plans = (
            dict(zip([(card, history) for history in own_turns], plan, strict=True))
            for plan in itertools.product((0.0, 1.0), repeat=len(own_turns))
        )
        total += max(sum(earns(deal, plan) for deal in dealt) for plan in plans)
    return total / len(DEALS)


JUDGES: Mapping[str, tuple[Any, Any, Any]] = {
    "BiasedRockPaperScissors": (moves_strategy, moves_exploitability, moves_mixture),
    "KuhnPoker": (poker_strategy, poker_exploitability, poker_mixture),
}
"""Game -> (strategy of a model, exploitability, mixture)."""


# Exact probabilities of a model's legal answers. -------------------------------------------------


def answer_probabilities(
    backend: HuggingFaceBackend, view: TextView, agent: str, course: Sequence[tuple[Any, int]]
) -> list[float]:
    """Return the probabilities of the legal answers at an agent's last turn.

    Args:
        backend: Model.
        view: Text view of the game.
        agent: Agent that answers.
        course: The agent's observations, each with its answer; the last answer is ignored.
    """
    policy = TextPolicy(backend, view, constrained=True)
    state = policy.start(0)
    *earlier, (observed, _) = course
    for before, answer in earlier:
        seen = AgentObservation(agent, np.asarray(before, np.float32))
        state = policy.continued(seen, state, answer)
    seen = AgentObservation(agent, np.asarray(observed, np.float32))
    return [float(chance) for chance in policy.probabilities(seen, state)]
