"""Success rates on problems: share of solved problems and pass@k, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from srl_agents.episode import Episode
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_envs.scenarios import Scenario


@dataclass(frozen=True)
class ProblemScore:
    """Result of all episodes (samples) from one start."""

    seed: int
    """Seed of the environment's reset."""
    problem: str
    """Name of the problem, which other starts may share; the seed as text if unknown."""
    difficulty: int | None
    """Difficulty of the problem, or None if unknown."""
    n: int
    """Number of complete episodes."""
    c: int
    """Number of complete episodes that solved the problem."""


@dataclass(frozen=True)
class PassAt:
    """Estimate of pass@k, the probability that at least one of k samples solves a problem."""

    k: int
    estimate: float | None
    """Mean over starts with at least k complete samples; None without any."""
    interval: tuple[float, float] | None
    """95 % interval by bootstrap over problems; None for fewer than two."""
    problems: int
    """Number of starts with at least k complete samples."""


@dataclass(frozen=True)
class Solved:
    """Share of the problems of a scenario that the focal agent solved, and pass@k."""

    problems: tuple[ProblemScore, ...]
    """One entry per start. The means exclude starts without complete samples."""
    share: float
    """Mean over starts of the share of complete samples that solved the problem."""
    interval: tuple[float, float] | None
    """95 % interval of `share`, by bootstrap over problems; None for fewer than two."""
    pass_at: tuple[PassAt, ...]
    """Estimates of pass@k, by ascending k."""


def check_pass_at(scenario: Scenario, samples: int, pass_at: Sequence[int]) -> None:
    """Raise ValueError if pass@k cannot be estimated for a k of `pass_at`.

    Each k must be from 1 to `samples`, the number of episodes per start. The scenario must have one
    focal agent, and `success` in this agent's info of a reset.
    """
    for k in pass_at:
        if not 1 <= k <= samples:
            raise ValueError(f"pass_at must be 1 to the number of samples ({samples}), got {k}")
    if len(scenario.focal) > 1:
        raise ValueError(
            f"samples and pass@k require one focal agent, {scenario.name} has "
            f"{len(scenario.focal)} focal agents"
        )
    with closing(scenario.make()) as env:
        _, infos = env.reset(seed=0)
    if "success" not in infos[scenario.focal[0]]:
        raise ValueError(
            f"samples and pass@k require 'success' in the infos of reset(), which "
            f"{scenario.environment} lacks: use a task or a maze"
        )


def solved(
    scenario: Scenario, played: Sequence[Episode], seed: int, pass_at: Sequence[int] = ()
) -> Solved:
    """Return the mean share of samples that the focal agent solved per start, and pass@k.

    An episode is solved if `success` in the agent's last info is true; false if missing.
    Episodes of `played` with the same seed are samples of one start. Failed ones do not count.
    `seed` is that of the bootstrap. `pass_at` are values of k for pass@k, by default 1 and the
    least number of samples of a start, failed ones included. Raise ValueError if no episode is
    complete, or if the scenario has several focal agents.
    """
    starts: dict[int, list[Episode]] = {}
    for episode in played:
        starts.setdefault(episode.seed, []).append(episode)
    samples = min(map(len, starts.values()))
    problems = tuple(_problem(scenario, start, own) for start, own in starts.items())
    counted = [one for one in problems if one.n]
    if not counted:
        raise ValueError(f"every episode of {scenario.name} failed")
    shares = [one.c / one.n for one in counted]
    return Solved(
        problems,
        float(np.mean(shares)),
        bootstrap_interval(shares, seed, [one.problem for one in counted]),
        tuple(_pass_at(counted, k, seed) for k in sorted({*(pass_at or (1, samples))})),
    )


def problem_of(info: Mapping[str, Any], start: int) -> str:
    """Return info["problem"] as text; without this key, the seed `start`."""
    return str(info.get("problem", start))


def _problem(scenario: Scenario, start: int, played: Sequence[Episode]) -> ProblemScore:
    [agent] = scenario.focal
    ends = [one.end_of(agent) for one in played if one.failure is None]
    info = ends[0] if ends else {}
    return ProblemScore(
        seed=start,
        problem=problem_of(info, start),
        difficulty=info.get("difficulty"),
        n=len(ends),
        c=sum(bool(end.get("success")) for end in ends),
    )


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate 1 - C(n - c, k) / C(n, k) of pass@k from c correct of n answers.

    pass@k is the probability that at least one of k <= n answers is correct (Chen et al. 2021,
    "Evaluating Large Language Models Trained on Code", eq. 1).
    """
    return 1.0 - comb(n - c, k) / comb(n, k)


def _pass_at(problems: Sequence[ProblemScore], k: int, seed: int) -> PassAt:
    enough = [one for one in problems if one.n >= k]
    if not enough:
        return PassAt(k, None, None, 0)
    chances = [pass_at_k(one.n, one.c, k) for one in enough]
    interval = bootstrap_interval(chances, seed, [one.problem for one in enough])
    return PassAt(k, float(np.mean(chances)), interval, len(enough))
