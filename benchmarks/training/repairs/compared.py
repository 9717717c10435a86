"""What luck does to comparisons: of models, of games under one baseline, of starts, of partners.

Uniform players, no model: all that is found beside an equal treatment is luck or bias.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from srl_agents.episode import AgentStep, Decision, Episode
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_agents.seeding import of_games
from srl_envs import coop_compete_v0, maze_v0, multitask_v0
from srl_train.credit import (
    AgentRoles,
    CreditScheme,
    Group,
    agent_turn,
    assign_credit,
    opponent_model,
    role,
)
from srl_train.data.demonstrations import best_of, parts_of
from srl_train.scores import model_scores
from srl_train.trajectory import Game, Trajectory, shaped_game
from srl_train.updates import RoundContext, federated, selective

Row = dict[str, Any]
WAITS = "selective: most rounds that one of four equal models waits"
BEST = "the best quarter of games from eight starts (top_fraction)"
BY_ROLE = "credit by role in two games at once"
PUSH = "opponent_model less agent_turn, push towards cooperating"
MODELS = {f"agent_{agent}": f"model_{agent}" for agent in range(4)}
ROLES = dict.fromkeys(MODELS, "agent")
GROUP, ROUNDS = 8, 32
SETTINGS = {
    "8 turns": (8, 2),
    "32 turns": (32, 2),
    "8 turns, eight starts of two games": (8, 8),
}
"""Of sixteen games a round: (turns, starts); two starts unless the name says more."""
PLAIN_TEMPERATURE = 0.1
"""Of softmax over mean returns: what scores by luck look like."""
TASKS: Mapping[str, Mapping[str, Any]] = {
    "easy": {"name": "coop_compete_pair_v0", "options": {"difficulty": 0.0, "max_cycles": 2}},
    "hard": {"name": "coop_compete_pair_v0", "options": {"difficulty": 1.0, "max_cycles": 6}},
}
SHARE = 0.25
"""Of games that are kept."""
DILEMMA_TURNS, DILEMMA_GROUPS = 8, 60
Partner = Callable[[Sequence[int], int, Generator], int]
"""(the own choices so far, turn, generator) -> its choice."""


def measure(seeds: Sequence[int]) -> list[Row]:
    """Rows of every seed."""
    found = []
    for seed in seeds:
        rows = [*equal_models(seed), *baselines(seed), *kept(seed), *partners(seed)]
        found += [{**row, "seed": seed} for row in rows]
    return found


def equal_models(seed: int) -> list[Row]:
    """Four equal models, 16 games a round: the largest weight, and how long one may wait."""
    rows: list[Row] = []
    for name, (turns, starts) in SETTINGS.items():
        largest: dict[str, list[float]] = {"samples": [], "scores": [], "plain": []}
        chosen: dict[str, list[list[bool]]] = {"found": [], "plain": []}
        select = selective(0.5, patience=ROUNDS)
        state = select.init(tuple(MODELS.values()))
        for number in range(ROUNDS):
            rng = np.random.default_rng([seed, turns, starts, number])
            games = uniform_games(rng, turns, starts)
            scores = model_scores(games, MODELS.values(), ROLES)
            context = RoundContext(number, 0, scores, dict.fromkeys(scores, len(games)))
            largest["samples"].append(max(shares(federated("samples"), context)))
            largest["scores"].append(max(shares(federated("scores"), context)))
            returns = np.mean([[e.returns()[agent] for agent in MODELS] for e in games], axis=0)
            powers = np.exp((returns - returns.max()) / PLAIN_TEMPERATURE)
            largest["plain"].append(float((powers / powers.sum()).max()))
            given, state = select.on_gradients(
                {model: {"w": torch.ones(1)} for model in scores}, state, context
            )
            chosen["found"].append([own is not None for own in given.values()])
            chosen["plain"].append((returns >= np.sort(returns)[-2]).tolist())
        plain = math.fsum(largest["plain"]) / ROUNDS
        rows += [
            {
                "what": "federated: largest weight of four equal models",
                "case": f"by {by}, {name}",
                "default": by == "samples",
                "found": math.fsum(largest[by]) / ROUNDS,
                "plain": plain,
            }
            for by in ("samples", "scores")
        ]
        rows.append({
            "what": WAITS,
            "case": name,
            **{way: float(longest_wait(times)) for way, times in chosen.items()},
        })  # fmt: skip
    return rows


def longest_wait(chosen: Sequence[Sequence[bool]]) -> int:
    """The most rounds in a row in which some model was not chosen."""
    longest, waits = 0, [0] * len(chosen[0])
    for own in chosen:
        waits = [0 if learns else wait + 1 for learns, wait in zip(own, waits, strict=True)]
        longest = max(longest, *waits)
    return longest


def uniform_games(rng: Generator, turns: int, starts: int) -> list[Episode]:
    """Two groups' games of four uniform players, as many from each start."""
    make = partial(coop_compete_v0.parallel_env, num_agents=len(MODELS), max_cycles=turns)
    games = played(make, "uniform", rng, starts, 2 * GROUP // starts)
    return [replace(game, seats=MODELS) for game in games]


def played(
    make: Callable[[], Any], policy: str, rng: Generator, starts: int, each: int
) -> list[Episode]:
    """Games of a scripted policy in all places, so many from each of some starts."""
    env = make()
    seats = dict.fromkeys(env.possible_agents, classic_policy(policy, env))
    seeds, policy_seeds = of_games(rng, starts * each, each)
    return play_many(make, seats, seeds, policy_seeds=policy_seeds)


def shares(strategy: Any, context: RoundContext) -> list[float]:
    """The weight of each model in the mean that a strategy takes."""
    own = {m: {"w": torch.eye(len(MODELS))[n]} for n, m in enumerate(MODELS.values())}
    taken, _ = strategy.on_weights(own, own, strategy.init(tuple(own)), context)
    return [float(weight) for weight in next(iter(taken.values()))["w"]]


def baselines(seed: int) -> list[Row]:
    """Credit by role in two games at once: the mean advantage of each, in deviations of all."""
    make = partial(multitask_v0.parallel_env, environments=TASKS)
    episodes = played(make, "uniform", np.random.default_rng([seed, 1]), 16, GROUP)
    agents = list(episodes[0].seats)
    games = [shaped_game(episode, agents, lambda raw: raw, 0.0) for episode in episodes]
    labels = [next(iter(game.values())).environment for game in games]
    nameless = [
        {agent: Trajectory(agent, own.steps, own.shaped) for agent, own in game.items()}
        for game in games
    ]
    means = {
        way: _advantages_by(labels, own, agents)
        for way, own in (("found", games), ("plain", nameless))
    }
    return [
        {
            "what": BY_ROLE,
            "case": f"mean advantage in the {label} one / deviation of all",
            "off": abs(means["found"][label]),
            **{way: own[label] for way, own in means.items()},
        }
        for label in TASKS
    ]


def _advantages_by(
    labels: Sequence[str], games: Sequence[Game], agents: Sequence[str]
) -> dict[str, float]:
    done, _ = assign_credit(games, GROUP, role(1.0, 0.95), AgentRoles(tuple(agents)), {})
    own = [[x for agent in agents for x in game[agent].advantages or ()] for game in done]
    deviation = np.std([x for one in own for x in one])
    return {
        label: float(np.mean([x for name, one in zip(labels, own, strict=True)
                              if name == label for x in one]) / deviation)
        for label in TASKS
    }  # fmt: skip


def kept(seed: int) -> list[Row]:
    """The best quarter of games in eight mazes: the share of each maze's that is kept."""
    make = partial(maze_v0.parallel_env, width=5, height=5, max_cycles=32)
    rng = np.random.default_rng([seed, 2])
    episodes = played(make, "random_walker", rng, 8, 2 * GROUP)
    [agent] = episodes[0].seats
    starts = dict.fromkeys(episode.seed for episode in episodes)
    parts = parts_of(episodes)
    best = best_of(parts, episodes, Episode.returns, top_fraction=SHARE)
    ranked = sorted(parts, key=lambda part: -episodes[part[0]].returns()[agent])
    ways = {"found": best, "plain": ranked[: round(SHARE * len(parts))]}
    by_start = {
        way: [sum(episodes[i].seed == s for i, _ in own) / (2 * GROUP) for s in starts]
        for way, own in ways.items()
    }
    return [
        {
            "what": BEST,
            "case": f"kept of a start's games, {name}",
            **{way: end(found) for way, found in by_start.items()},
        }
        for name, end in (("least", min), ("most", max))
    ]


def two_turns_late(own: Sequence[int], turn: int, rng: Generator) -> int:
    """Repeats what it met two turns ago."""
    return own[turn - 2] if turn >= 2 else 1


def tit_for_two_tats(own: Sequence[int], turn: int, rng: Generator) -> int:
    """Defects after two defections."""
    return 0 if turn >= 2 and not own[turn - 1] and not own[turn - 2] else 1


def often_late(own: Sequence[int], turn: int, rng: Generator) -> int:
    """Two turns late four times out of five, else by chance."""
    return two_turns_late(own, turn, rng) if rng.random() < 0.8 else int(rng.integers(2))


PARTNERS: Mapping[str, Partner] = {
    "tit for tat, two turns late": two_turns_late,
    "tit for two tats": tit_for_two_tats,
    "two turns late, four times out of five": often_late,
}


def partners(seed: int) -> list[Row]:
    """Uniform play in a dilemma: the push towards cooperating, less that of `agent_turn`.

    Cooperating costs 1 and gives the other 3. `plain` is the push of `agent_turn` itself.
    """
    rows = []
    for number, (name, partner) in enumerate(PARTNERS.items()):
        rng = np.random.default_rng([seed, 3, number])
        groups = [dilemmas(partner, rng) for _ in range(DILEMMA_GROUPS)]
        pushed = {
            way: np.mean([push(made(1.0, "none"), group) for group in groups])
            for way, made in (("model", opponent_model), ("plain", agent_turn))
        }
        rows.append({
            "what": PUSH,
            "case": name,
            "found": float(pushed["model"] - pushed["plain"]),
            "plain": float(pushed["plain"]),
        })  # fmt: skip
    return rows


def dilemmas(partner: Partner, rng: Generator) -> list[Game]:
    """A group of sixteen games against the partner."""
    games = []
    for _ in range(2 * GROUP):
        own = rng.integers(2, size=DILEMMA_TURNS).tolist()
        other = [partner(own, turn, rng) for turn in range(DILEMMA_TURNS)]
        paid = tuple(3.0 * theirs - mine for mine, theirs in zip(own, other, strict=True))
        games.append({
            agent: Trajectory(agent, tuple(AgentStep(agent, None, Decision(one), 0.0)
                                           for one in acts), paid)
            for agent, acts in (("a", own), ("b", other))
        })  # fmt: skip
    return games


def push(credit: CreditScheme, group: Group) -> float:
    """Towards cooperating: the sum over turns of (choice - 1/2) * advantage, mean over games."""
    [found], _ = credit([group], AgentRoles(("a", "b")), {})
    pushes = [
        sum((int(act) - 0.5) * x for act, x in zip(game["a"].actions, own["a"], strict=True))
        for game, own in zip(group, found, strict=True)
    ]
    return math.fsum(pushes) / len(pushes)
