"""Episodes that each credit assignment needs, counted by tabular learners.

Tabular softmax learners use the credit functions of training runs; only the policy (a table of
logits) and its step (the plain policy gradient) are simpler.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.claim import Request, Result
from benchmarks.games import COLOURS
from srl_agents.episode import AgentStep, Decision
from srl_train.credit import (
    CREDIT_SCHEMES,
    AgentRoles,
    CounterfactualCredit,
    CreditConfig,
    PlainCredit,
)
from srl_train.trajectory import Game, Trajectory

TURNS = 8
HOLDER, WHEN, COLOUR = 1, 4, 1
"""Agent, turn (from 0) and colour that matter."""
PRIZE, WEATHER = 1.0, 0.5
GROUP = 8
"""Episodes that are compared with each other, as in a run's default."""
FOUND = 0.9
"""Least probability of the right action."""
KEPT = 20
"""Updates that the right action must remain likely."""
KEY_CREDIT: Mapping[str, CreditConfig] = {
    "per_agent": PlainCredit(),
    "agent_turn": PlainCredit(name="agent_turn"),
    "team_joint": PlainCredit(name="team_joint"),
    "difference": PlainCredit(name="difference"),
    "counterfactual": CounterfactualCredit(alternatives=len(COLOURS) - 1),
}


def key_rewards(
    chosen_AT: NDArray[np.int64], weather_AT: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the rewards (..., agents, turns) of a key game, of colours by number and noise."""
    paid = weather_AT.copy()
    paid[..., HOLDER, WHEN] += PRIZE * (chosen_AT[..., HOLDER, WHEN] == COLOUR)
    return paid


def measure(request: Request) -> Result:
    """Return the rows of `key_games`."""
    options = request.claim.options
    return Result(key_games(request.seeds, options["rates"], options["agents"], options["most"]))


def key_games(
    seeds: Sequence[int], rates: Sequence[float], agents: Sequence[int], most: int
) -> list[dict[str, Any]]:
    """Return one row per learning rate, credit scheme and seed.

    "episodes_N" are those until a learner of N agents finds the right action, infinite after
    `most`. "slope" and "steps_slope" are the slopes of episodes and environment steps in the number
    of agents, both in logarithms, and "apart" is "slope" minus the predicted one (see `predicted`).
    "times" and "fewer" divide the episodes of team_joint and agent_turn with the most agents by the
    scheme's.
    """
    rows = []
    for rate, seed in itertools.product(rates, seeds):
        found = {
            name: [games_until_found(credit, rate, seed, most, count) for count in agents]
            for name, credit in KEY_CREDIT.items()
        }
        most_agents = {name: own[-1] for name, own in found.items()}
        for name, own in found.items():
            steps = [n * steps_of(name, count) for n, count in zip(own, agents, strict=True)]
            due = slope(agents, [predicted(name, count) for count in agents])
            rows.append({
                "rate": rate, "credit": name, "seed": seed,
                **{f"episodes_{n}": float(each) for n, each in zip(agents, own, strict=True)},
                "slope": slope(agents, own), "predicted": due, "apart": slope(agents, own) - due,
                "steps_slope": slope(agents, steps), "times": most_agents["team_joint"] / own[-1],
                "fewer": most_agents["agent_turn"] / own[-1],
            })  # fmt: skip
    return rows


def predicted(name: str, agents: int) -> float:
    """Return the predicted number of episodes of a scheme, except for a factor.

    A scheme's advantage is the prize plus noise, over the deviation of both. At a small learning
    rate the logit of the right action moves by rate x covariance / deviation per update on average,
    so the number of updates is proportional to the deviation. Its variance is that of the prize,
    p (1 - p) at the start, plus WEATHER squared for each reward in the signal: all agents' rewards
    of TURNS steps for team_joint, one agent's for per_agent and agent_turn, none for replays.
    """
    share = 1 / len(COLOURS)
    rewards = {"team_joint": agents * TURNS, "difference": 0, "counterfactual": 0}.get(name, TURNS)
    return math.sqrt(PRIZE**2 * share * (1 - share) + WEATHER**2 * rewards)


def slope(agents: Sequence[int], values: Sequence[float]) -> float:
    """Return the least-squares slope of log(values) in log(agents)."""
    return round(float(np.polyfit(np.log(agents), np.log(values), 1)[0]), 9) + 0.0


def steps_of(name: str, agents: int) -> int:
    """Return an upper bound of the environment steps of an episode, replays included."""
    alternatives = {"difference": 1, "counterfactual": len(COLOURS) - 1}.get(name, 0)
    return TURNS + alternatives * agents * TURNS * (TURNS + 1) // 2


def games_until_found(
    credit: CreditConfig, rate: float, seed: int, most: int, agents: int
) -> float:
    """Count the episodes until the right action has probability FOUND for KEPT updates.

    Returns infinity after `most` episodes. Every agent has its own logits for every turn.
    """
    rng = np.random.default_rng(seed)
    scheme = CREDIT_SCHEMES.load(credit.name)(credit, 1.0, "group")
    state: Mapping[str, float] = {}
    roles = AgentRoles(tuple(f"agent_{agent}" for agent in range(agents)))
    logits = np.zeros((agents, TURNS, len(COLOURS)))
    kept = 0
    for played in range(GROUP, most + GROUP * KEPT, GROUP):
        chance = _softmax(logits)
        draws = rng.random((GROUP, agents, TURNS, 1))
        chosen = (draws > chance.cumsum(axis=-1)).sum(axis=-1).clip(max=len(COLOURS) - 1)
        weather = WEATHER * rng.standard_normal((GROUP, agents, TURNS))
        gains = _gains(credit.name, chosen, weather)
        paid = key_rewards(chosen, weather)
        if scheme is None:  # per_agent uses TRL's advantages: all turns have that of the return.
            returns = paid.sum(axis=-1)
            scaled = (returns - returns.mean(axis=0)) / (returns.std(axis=0, ddof=1) + 1e-4)
            advantage = np.repeat(scaled[..., None], TURNS, axis=-1)
        else:
            group = [_game(roles, *game) for game in zip(paid, chosen, gains, strict=True)]
            [found], state = scheme([group], roles, state)
            advantage = np.array([[own[agent] for agent in roles.agents] for own in found])
        score = np.eye(len(COLOURS))[chosen] - chance
        logits += rate * (advantage[..., None] * score).mean(axis=0)
        kept = kept + 1 if _softmax(logits)[HOLDER, WHEN, COLOUR] >= FOUND else 0
        if kept == KEPT:
            return played - GROUP * (KEPT - 1)
    return math.inf


def _gains(
    name: str, chosen_GAT: NDArray[np.int64], weather_GAT: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the gain (games, agents, turns) of every action over its alternatives.

    The gain is the reward to go minus that of a replay with another action: the first colour for
    the scheme "difference", the mean over all colours for "counterfactual"; 0 for other schemes.
    """
    if name not in ("difference", "counterfactual"):
        return np.zeros(chosen_GAT.shape)
    count = chosen_GAT.shape[1]
    agents, turns = np.ogrid[:count, :TURNS]
    shape = (len(chosen_GAT), count, TURNS, count, TURNS)

    def to_go(paid: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.flip(np.flip(paid, -1).cumsum(-1), -1)

    def instead(colour: int) -> NDArray[np.float64]:
        other = np.broadcast_to(chosen_GAT[:, None, None], shape).copy()
        other[:, agents, turns, agents, turns] = colour
        weather = np.broadcast_to(weather_GAT[:, None, None], shape)
        return to_go(key_rewards(other, weather))[:, agents, turns, agents, turns]

    colours = range(1) if name == "difference" else range(len(COLOURS))
    others = np.mean([instead(colour) for colour in colours], axis=0)
    return np.asarray(to_go(key_rewards(chosen_GAT, weather_GAT)) - others)


def _game(
    roles: AgentRoles,
    paid_AT: NDArray[np.float64],
    chosen_AT: NDArray[np.int64],
    gains_AT: NDArray[np.float64],
) -> Game:
    return {
        agent: Trajectory(
            agent,
            tuple(_step(agent, action) for action in chosen.tolist()),
            tuple(paid.tolist()),
            gains=tuple(gains.tolist()),
        )
        for agent, paid, chosen, gains in zip(
            roles.agents, paid_AT, chosen_AT, gains_AT, strict=True
        )
    }


@cache
def _step(agent: str, action: int) -> AgentStep:
    return AgentStep(agent, None, Decision(action), 0.0)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
