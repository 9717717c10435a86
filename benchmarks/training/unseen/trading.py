"""Markets that nobody trained in: the share of the possible surplus that traders gain there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.repeats import Estimate
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.runs import COST, QUICK, last_info, options_of, trained
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Episode
from srl_envs.games.base import VectorLayout
from srl_envs.games.trading import SocialTrading
from srl_envs.games.trading import field_sizes

TRADERS = ("uniform", "truthful_trader")
UNSEEN = 2**31  # training draws its markets' seeds below it


def measure(request: Request) -> Result:
    """One row per seed; scripted traders beside them."""
    options = options_of(request, "trading.yaml")
    exam = unseen_markets(options, request.games)
    rows = [
        {
            "who": f"trained, seed {run['seed']}",
            **run,
            "not_conserved": run["before"]["not_conserved"] + run["after"]["not_conserved"],
        }
        for run in trained(request, "trading.yaml", {"after": exam})
    ]
    said = ", ".join(f"{name} {value}" for name, value in options.items())
    references = [{"who": name, "after": exam.scripted(name)} for name in TRADERS]
    return Result(rows, references, {"said": said})


def unseen_markets(options: Mapping[str, Any], count: int) -> HeldOut:
    """So many markets, each traded in once."""
    make = functools.partial(SocialTrading, **options)
    env = make()
    stocks = VectorLayout(field_sizes(env.rules, env.network))
    return HeldOut(make, range(UNSEEN, UNSEEN + count), lambda episodes: score(episodes, stocks))


Reading = Callable[[Any], Mapping[str, np.ndarray[Any, Any]]]
"""A trader's observation by its fields."""


def score(episodes: Sequence[Episode], read: Reading) -> dict[str, Any]:
    """{"surplus": the sum of all gains over the sum of all possible ones, "mean_share": every
    market counts alike, "not_conserved": markets in which goods or gains came from nowhere}."""
    ends = [last_info(episode) for episode in episodes]
    gained = np.array([end["realised_surplus"] for end in ends], dtype=float)
    possible = np.array([end["possible_surplus"] for end in ends], dtype=float)
    share = float(gained.sum() / possible.sum())
    # Of a ratio of means, by its linearisation (Cochran 1977, eq. 6.13).
    residuals = gained - share * possible
    error = float(residuals.std(ddof=1) / possible.mean() / math.sqrt(len(episodes)))
    shares = [end["surplus_share"] for end in ends if end["surplus_share"] is not None]
    return {
        "surplus": Estimate(share, error),
        "mean_share": math.fsum(shares) / len(shares),
        "not_conserved": sum(not conserved(episode, read) for episode in episodes),
    }


def conserved(episode: Episode, read: Reading) -> bool:
    """Whether every round found all the goods there were, nobody below nothing, and rewards that
    add up to the realised surplus."""
    held = np.array(
        [[read(step.observation)["own_stock"] for step in turn] for turn in episode.turns]
    )
    there = held.sum(axis=1)
    rewards = sum(step.reward for turn in episode.turns for step in turn)
    realised = last_info(episode)["realised_surplus"]
    return bool((there == there[0]).all() and (held >= 0).all() and rewards == realised)


TRADING = Claim(
    measure,
    tables=[
        Table(
            {
                "who trades": "{who}",
                "surplus before training": "{before[surplus]:.1%}",
                "surplus": "{after[surplus]:.1%}",
                "mean of the markets": "{after[mean_share]:.1%}",
                "training episodes": "{episodes}",
                "training, s": "{training_seconds:.0f}",
                **COST,
            }
        )
    ],
    targets=[
        Target(
            "trained traders gain at least 70% of the possible surplus, on every seed",
            "after[surplus].mean", ">=", 0.70, "{:.1%}",
        ),
        Target(
            "goods are conserved in every market", "not_conserved", "==", 0, "{} were not"
        ),
        QUICK,
    ],
    legend="Share of the possible surplus gained in {games} markets that nobody trained in: all "
    "gains over all that could be gained, each unit to who values it most, with its standard "
    "error; {said}. The mean of the markets counts each alike, however little there was to gain. "
    "The models answer as they are sampled in training (temperature 1).",
    games=400,
    writes_runs=True,
)  # fmt: skip
