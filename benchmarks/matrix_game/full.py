"""All settings of the benchmark, and whether OurMethodPolicy does what it should in each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from srl_agents.evaluation.matrix_game.cross_play import cross_play

COOP_LEVELS = (0.2, 0.5, 0.55, 0.6, 0.8)
DIFFICULTIES = (0.3, 0.6)

SELF_PLAY_SHARE = 0.995  # of the oracle, on average
SELF_PLAY_WORST = 0.005  # reward per round that the worst run may stay under the oracle
RESPONSE_SHARE = 0.99  # of what could be earned with each partner, on average


class Check(NamedTuple):
    """One thing that is asked of OUR at one setting."""

    about: str
    measured: float
    asked: float
    """The least it may be."""

    @property
    def passed(self) -> bool:
        """Whether it is so."""
        return self.measured >= self.asked


def checks(result: Mapping[str, Any]) -> list[Check]:
    """What is asked of OUR, measured in one setting's result (see `cross_play`)."""
    oracle, own = result["oracle"], result["metrics"]["OUR"]
    mirror = result["self_play"]["OUR"]
    value = (own["avg_A"] + own["avg_B"]) / 2
    partners = [name for name in result["references"] if name != "OUR"]
    return [
        Check("self-play, share of the oracle", value / oracle, SELF_PLAY_SHARE),
        Check("self-play, worst run minus oracle", mirror["worst"] - oracle, -SELF_PLAY_WORST),
        Check(
            "self-play, runs in the worse agreement (negated)",
            -float(mirror["runs_in_the_worse_agreement"]),
            0.0,
        ),
        *(
            Check(
                f"with {name}, share of the best",
                result["cross_play"]["OUR"][name]["avg"] / result["references"][name],
                RESPONSE_SHARE,
            )
            for name in partners
        ),
    ]


def all_settings(
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: int,
    progress: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """`cross_play` at every level and difficulty, with its "params" and its "checks"."""
    results = []
    for difficulty in DIFFICULTIES:
        for level in COOP_LEVELS:
            params: dict[str, Any] = {
                "runs": runs,
                "episodes": episodes,
                "horizon": horizon,
                "coop_level": level,
                "difficulty": difficulty,
                "seed": seed,
            }
            progress(f"cooperation level {level:g}, difficulty {difficulty:g}")
            result = {"params": params, **cross_play(**params)}
            found = checks(result)
            result["checks"] = [{**check._asdict(), "passed": check.passed} for check in found]
            results.append(result)
    return results


def all_passed(results: Iterable[Mapping[str, Any]]) -> bool:
    """Whether every check of every setting passed."""
    return all(check["passed"] for result in results for check in result["checks"])
