"""Success rates on problems: solved fractions and pass@k, with confidence intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

from srl_agents.episode import Episode
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_envs.scenarios import Scenario

KINDS = ("difficulty", "family")
"""Keys of infos by which shares are grouped."""


@dataclass(frozen=True)
class ProblemScore:
    """Samples of one problem, that is of one start."""

    seed: int
    problem: str
    """Name of the problem, which several starts may share, or the seed."""
    kinds: Mapping[str, int | str]
    n: int
    """Number of complete episodes."""
    c: int
    """Number of complete episodes that solved the problem."""


@dataclass(frozen=True)
class PassAt:
    """Estimate of pass@k."""

    k: int
    estimate: float | None
    """Mean over problems; None if no problem has k samples."""
    interval: tuple[float, float] | None
    """95 %; None for one problem."""
    problems: int
    """Number of problems with at least k complete samples."""


@dataclass(frozen=True)
class Solved:
    """Problems of a scenario that its focal agent solved."""

    problems: tuple[ProblemScore, ...]
    share: float
    """Mean over problems of the share of samples that solved the problem, equal to pass@1."""
    interval: tuple[float, float] | None
    pass_at: tuple[PassAt, ...]

    def as_record(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "share": self.share,
            "interval": self.interval,
            "pass_at": [asdict(one) for one in self.pass_at],
            **{f"by_{kind}": shares for kind in KINDS if (shares := self.by(kind))},
            "problems": [
                {"seed": one.seed, "problem": one.problem, **one.kinds, "n": one.n, "c": one.c}
                for one in self.problems
            ],
        }

    def by(self, kind: str) -> dict[str, dict[str, float]]:
        """Return problems, samples and solved share for each value of `kind` (one of KINDS)."""
        found: dict[int | str, list[ProblemScore]] = {}
        for one in self.problems:
            if kind in one.kinds and one.n:
                found.setdefault(one.kinds[kind], []).append(one)
        return {
            str(value): {
                "problems": len(own),
                "samples": sum(one.n for one in own),
                "share": float(np.mean([one.c / one.n for one in own])),
            }
            for value, own in sorted(found.items(), key=lambda i: (isinstance(i[0], str), i[0]))
        }


def refuse_unsolvable(scenario: Scenario) -> None:
    """Raise ValueError for several focal agents, or an environment without `success` in infos."""
    if len(scenario.focal) > 1:
        raise ValueError(
            f"solved problems (samples, pass@k) need one focal agent, {scenario.name} has "
            f"{len(scenario.focal)} focal agents"
        )
    with closing(scenario.make()) as env:
        _, infos = env.reset(seed=0)
    if "success" not in infos[scenario.focal[0]]:
        raise ValueError(
            f"solved problems (samples, pass@k) need 'success' in infos, {scenario.environment} "
            "has none: use a task or a maze"
        )


def solved(
    scenario: Scenario, played: Sequence[Episode], seed: int, pass_at: Sequence[int] = ()
) -> Solved:
    """Return the problems that the focal agent solved; failed episodes are left out.

    Args:
        scenario: The scenario.
        played: Episodes; those of one seed have the same problem.
        seed: Seed of resampling.
        pass_at: Values of k of pass@k, by default 1 and the number of samples.

    Raises:
        ValueError: If a k is below 1 or above the number of samples, if each episode failed, or as
            `refuse_unsolvable`.
    """
    if len(scenario.focal) > 1:
        refuse_unsolvable(scenario)
    starts: dict[int, list[Episode]] = {}
    for episode in played:
        starts.setdefault(episode.seed, []).append(episode)
    samples = min(map(len, starts.values()))
    for k in pass_at:
        if not 1 <= k <= samples:
            raise ValueError(f"k of pass@k must be 1 to {samples}, the number of samples, got {k}")
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
    """Return the name of the problem from an info, or the seed of the reset."""
    return str(info.get("problem", start))


def _problem(scenario: Scenario, start: int, played: Sequence[Episode]) -> ProblemScore:
    [agent] = scenario.focal
    ends = [one.end_of(agent) for one in played if one.failure is None]
    if any("success" not in info for info in ends):
        refuse_unsolvable(scenario)
    info = ends[0] if ends else {}
    kinds = {kind: info[kind] for kind in KINDS if info.get(kind) is not None}
    return ProblemScore(
        seed=start,
        problem=problem_of(info, start),
        kinds={k: value if isinstance(value, int) else str(value) for k, value in kinds.items()},
        n=len(ends),
        c=sum(bool(end.get("success")) for end in ends),
    )


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the unbiased estimate 1 - C(n - c, k) / C(n, k) of pass@k.

    Chen et al. 2021, "Evaluating Large Language Models Trained on Code", eq. 1.

    Args:
        n: Number of answers.
        c: Number of correct answers.
        k: Number of attempts.

    Raises:
        ValueError: If k is not in 1..n, or c not in 0..n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"k must be 1 to {n}, the number of answers, got {k}")
    if not 0 <= c <= n:
        raise ValueError(f"c must be 0 to {n}, the number of answers, got {c}")
    return 1.0 - comb(n - c, k) / comb(n, k)


def _pass_at(problems: Sequence[ProblemScore], k: int, seed: int) -> PassAt:
    enough = [one for one in problems if one.n >= k]
    if not enough:
        return PassAt(k, None, None, 0)
    chances = [pass_at_k(one.n, one.c, k) for one in enough]
    interval = bootstrap_interval(chances, seed, [one.problem for one in enough])
    return PassAt(k, float(np.mean(chances)), interval, len(enough))
