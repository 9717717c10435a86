"""Success rates on problems: fractions solved, pass@k and their confidence intervals."""

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
"""What infos may say of a problem, by which shares are told apart."""


@dataclass(frozen=True)
class ProblemScore:
    """What became of one problem, that is of one start of the game."""

    seed: int
    """Of the environment's reset: what is asked comes from it."""
    problem: str
    """Which problem it is, where infos say so (two starts may ask the same); else the seed."""
    kinds: Mapping[str, int | str]
    """Its difficulty and family, where infos say so."""
    n: int
    """Samples: episodes that came to their end."""
    c: int
    """Those that solved it."""


@dataclass(frozen=True)
class PassAt:
    """An estimate of pass@k."""

    k: int
    estimate: float | None
    """Mean over problems; None where none has k samples."""
    interval: tuple[float, float] | None
    """95 %, see `bootstrap_interval`; None for one problem."""
    problems: int
    """How many have k samples: the others, some of whose episodes failed, are left out."""


@dataclass(frozen=True)
class Solved:
    """What was solved in a scenario, by one focal agent."""

    problems: tuple[ProblemScore, ...]
    share: float
    """Mean over problems of the share of samples that solved it; the same as pass@1."""
    interval: tuple[float, float] | None
    """95 %, by bootstrap over problems: samples of one problem, and starts that ask the same, are
    drawn together."""
    pass_at: tuple[PassAt, ...]

    def as_record(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
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
        """Value of `kind` (one of KINDS) -> problems, samples, and the share that was solved."""
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
            for value, own in sorted(found.items(), key=_by_value)
        }


def refuse_unsolvable(scenario: Scenario) -> None:
    """Raise ValueError where nobody can say which problems were solved, or by whom."""
    if len(scenario.focal) > 1:
        raise ValueError(
            f"{scenario.name} has {len(scenario.focal)} focal agents: problems are counted as "
            "solved (samples, pass@k) where there is one"
        )
    with closing(scenario.make()) as env:
        _, infos = env.reset(seed=0)
    if "success" not in infos[scenario.focal[0]]:
        raise ValueError(
            f"{scenario.environment} does not say whether a problem was solved (infos have no "
            "'success'), so there is nothing to count (samples, pass@k): give a task or a maze"
        )


def solved(
    scenario: Scenario, played: Sequence[Episode], seed: int, pass_at: Sequence[int] = ()
) -> Solved:
    """What the focal agent solved in episodes of the scenario; those of one seed ask the same.

    `pass_at` are the k of pass@k, by default 1 and the number of samples of each problem. An
    episode solves it where the agent's last info says `success`; failed ones are left out.

    Raises ValueError for a k below 1 or above the number of samples, for a scenario with several
    focal agents or without `success`, and where every episode failed.
    """
    if len(scenario.focal) > 1:
        refuse_unsolvable(scenario)
    starts: dict[int, list[Episode]] = {}
    for episode in played:
        starts.setdefault(episode.seed, []).append(episode)
    samples = min(map(len, starts.values()))
    for k in pass_at:
        if not 1 <= k <= samples:
            raise ValueError(f"pass@{k} of {samples} samples of each problem: give 1 to {samples}")
    problems = tuple(_problem(scenario, start, own) for start, own in starts.items())
    counted = [one for one in problems if one.n]
    if not counted:
        raise ValueError(f"every episode of {scenario.name} failed: nothing was solved or not")
    shares = [one.c / one.n for one in counted]
    return Solved(
        problems,
        float(np.mean(shares)),
        bootstrap_interval(shares, seed, [one.problem for one in counted]),
        tuple(_pass_at(counted, k, seed) for k in sorted({*(pass_at or (1, samples))})),
    )


def asked(info: Mapping[str, Any], start: int) -> str:
    """Which problem it is, by an info and the seed of the reset."""
    return str(info.get("problem", start))


def _problem(scenario: Scenario, start: int, played: Sequence[Episode]) -> ProblemScore:
    [agent] = scenario.focal
    ends = [one.end_of(agent) for one in played if one.failure is None]
    if any("success" not in info for info in ends):
        refuse_unsolvable(scenario)
    said = ends[0] if ends else {}
    return ProblemScore(
        seed=start,
        problem=asked(said, start),
        kinds={kind: _plain(said[kind]) for kind in KINDS if said.get(kind) is not None},
        n=len(ends),
        c=sum(bool(info.get("success")) for info in ends),
    )


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the share of the k-subsets of n answers that hold one of the c.

    That is the probability that at least one of k answers solves a problem, estimated without bias
    from n of which c do (Chen et al. 2021, "Evaluating Large Language Models Trained on Code",
    eq. 1).

    Raises ValueError where k is not in 1..n, or c not in 0..n.
    """
    if not 1 <= k <= n:
        raise ValueError(f"pass@{k} of {n} answers: k must be 1 to {n}, give fewer or sample more")
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} answers solve the problem: give 0 to {n}")
    return 1.0 - comb(n - c, k) / comb(n, k)


def _plain(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


def _by_value(item: tuple[int | str, Any]) -> tuple[bool, int | str]:
    return isinstance(item[0], str), item[0]


def _pass_at(problems: Sequence[ProblemScore], k: int, seed: int) -> PassAt:
    enough = [one for one in problems if one.n >= k]
    if not enough:
        return PassAt(k, None, None, 0)
    chances = [pass_at_k(one.n, one.c, k) for one in enough]
    clusters = [one.problem for one in enough]
    interval = bootstrap_interval(chances, seed, clusters)
    return PassAt(k, float(np.mean(chances)), interval, len(enough))
