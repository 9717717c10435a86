"""What the general suite plays: every method with every partner in every game."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.matrix_game.general.games import (
    Games,
    fair_values,
    three_action_games,
    two_action_games,
)
from benchmarks.matrix_game.general.partners import (
    Late,
    ScriptedRuns,
    from_the_other_side,
    memory_one,
    switching,
)
from srl_agents.baselines.best_response import best_plan
from srl_agents.baselines.exp3 import EXP3Runs
from srl_agents.baselines.fictitious_play import FictitiousPlayRuns
from srl_agents.baselines.maximin import maximin
from srl_agents.baselines.our_method import OurMethodRuns
from srl_agents.baselines.s_plus_plus import SPlusPlusRuns
from srl_agents.baselines.simple_pg import SimplePGRuns
from srl_agents.evaluation.matrix_game import NOISE, Player, Seeds

Floats = NDArray[np.float64]
Maker = Callable[[Seeds, Floats, Floats], Player]
"""Seeds, and the player's and its partner's payoffs (N, own, other's), to N runs of a player."""

DELAYS = (5, 18, 45, 100)  # rounds after which the second player begins, out of step
TUNING_EPISODES = 100
RATES = (1.0, 5.0, 20.0, 70.0)  # among which SimplePG's is chosen, on the development half
EXPLORATION = (0.01, 0.03, 0.1)  # EXP3's
PG, EXP3, FP, SPP, OUR = "SimplePG, tuned", "EXP3, tuned", "fictitious play", "S++", "OUR"


def general_suite(
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Plain data: "tuned" constants, and for each number of actions what `play_all` finds."""
    lengths = {"episodes": episodes, "horizon": horizon}
    tuned = _tuned(horizon, seed)
    progress(f"chosen on the development half: {tuned}")
    results: dict[str, Any] = {"tuned": tuned}
    for games in (two_action_games(), three_action_games()):
        name = f"{games.row_GKK.shape[1]} actions"
        methods = _methods(games.row_GKK.shape[1], tuned)
        results[name] = play_all(methods, games, runs=runs, seed=seed, **lengths,
                                 progress=progress)  # fmt: skip
    return results


def play_all(
    methods: Mapping[str, Maker],
    games: Games,
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """What every method earns with every partner: mean rewards per round, by game and run.

    "earned": method -> partner -> [game][run]. Partners are the scripted ones, the methods, and
    for OUR "itself, out of step". "best": scripted partner -> best response's value by game, of
    a switching one the mean of its two. "maximin" and "fair" (both players') are by game.
    "self_play": method or "OUR, out of step" -> both players' [game][run][player].
    """
    actions = games.row_GKK.shape[1]
    scripted = memory_one(actions)
    turns = {name: (name, name) for name in scripted} | dict(switching(actions))
    tables = {name: np.stack([scripted[one], scripted[two]]) for name, (one, two) in turns.items()}
    best = {name: best_values(games, scripted[name], horizon) for name in scripted}
    best |= {name: (best[one] + best[two]) / 2 for name, (one, two) in turns.items()}
    lengths = {"runs": runs, "episodes": episodes, "horizon": horizon}
    earned: dict[str, dict[str, Any]] = {name: {} for name in methods}
    mirrors: dict[str, Any] = {}
    for place, (name, make) in enumerate(methods.items()):
        both = with_scripted(make, games, tables, seed=(seed, place), **lengths)
        earned[name] |= both
        progress(f"{actions} actions: {name} has met the scripted partners")
        for other_place, (other, make_other) in list(enumerate(methods.items()))[place:]:
            pair = play_games(make, make_other, games, seed=(seed, place, other_place), **lengths)
            earned[name][other] = pair[0].tolist()
            # The games are there in both seats: the column player's, too, are all of them.
            earned[other].setdefault(name, pair[1].tolist())
            if name == other:
                mirrors[name] = np.moveaxis(pair, 0, -1).tolist()
        progress(f"{actions} actions: {name} has met the methods")
    late = [
        play_games(
            methods[OUR], _late(methods[OUR], delay, seed), games, seed=(seed, 99, delay), **lengths
        )
        for delay in DELAYS
    ]
    mirrors["OUR, out of step"] = np.moveaxis(np.concatenate(late, axis=2), 0, -1).tolist()
    progress(f"{actions} actions: OUR has met itself out of step")
    return {
        "earned": earned,
        "self_play": mirrors,
        "best": {name: value.tolist() for name, value in best.items()},
        "memory_one": list(scripted),
        "switching": list(switching(actions)),
        "maximin": maximin(games.row_GKK)[1].tolist(),
        "fair": fair_values(games).tolist(),
        "held": games.held_G.tolist(),
        "zero_sum": games.zero_sum_G.tolist(),
    }


def with_scripted(
    make: Maker,
    games: Games,
    tables: Mapping[str, Floats],
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: Sequence[int],
) -> dict[str, Any]:
    """What a method earns with scripted partners: name -> [game][run]. All are played at once."""
    count, per_partner = len(tables), len(games) * runs
    chances_SNCK = np.concatenate(
        [np.repeat(table[:, None], per_partner, axis=1) for table in tables.values()], axis=1
    )
    many = games.picked(np.tile(np.arange(len(games)), count))
    pair = play_games(
        make,
        _unaware(ScriptedRuns, chances_SNCK=chances_SNCK),
        many,
        runs=runs, episodes=episodes, horizon=horizon, seed=seed,
    )  # fmt: skip
    by_partner = pair[0].reshape(count, len(games), runs)
    return {name: by_partner[index].tolist() for index, name in enumerate(tables)}


def play_games(
    make_row: Maker,
    make_column: Maker,
    games: Games,
    *,
    runs: int,
    episodes: int,
    horizon: int,
    seed: Sequence[int],
) -> Floats:
    """Mean reward per round of both players, by game and run: (2, G, runs).

    Rewards are the payoffs plus normal noise, as in `play_match`; all games go side by side.
    """
    row_NKK = np.repeat(games.row_GKK, runs, axis=0)
    column_NKK = np.repeat(games.column_GKK.transpose(0, 2, 1), runs, axis=0)
    many = np.arange(len(row_NKK))[:, None]
    players = [
        make(_seeds(seed, role, many.size), own, other)
        for role, (make, own, other) in enumerate(
            [
                (make_row, row_NKK, column_NKK.transpose(0, 2, 1)),
                (make_column, column_NKK, row_NKK.transpose(0, 2, 1)),
            ]
        )
    ]
    noise = np.random.default_rng([*seed, 2])
    total_2N = np.zeros((2, many.size))
    for _ in range(episodes):
        played_2TN = np.empty((2, horizon, many.size), np.int8)
        for t in range(horizon):
            played_2TN[0, t], played_2TN[1, t] = (player.act()[0] for player in players)
            players[0].observe_opponent(played_2TN[1, t])
            players[1].observe_opponent(played_2TN[0, t])
        row_NT, column_NT = played_2TN[0].T.copy(), played_2TN[1].T.copy()
        for role, (own_NT, other_NT, payoff_NKK) in enumerate(
            [(row_NT, column_NT, row_NKK), (column_NT, row_NT, column_NKK)]
        ):
            drawn_NT = NOISE * noise.standard_normal(own_NT.shape)
            reward_NT = payoff_NKK[many, own_NT, other_NT] + drawn_NT
            players[role].update(own_NT, reward_NT)
            total_2N[role] += reward_NT.mean(axis=1)
    return np.asarray((total_2N / episodes).reshape(2, len(games), runs))


def best_values(games: Games, chances_CK: Floats, horizon: int) -> Floats:
    """What the best response to a memory-one partner earns in each game; exact."""
    reply_CK = from_the_other_side(chances_CK)
    reply_GCK = np.broadcast_to(reply_CK, (len(games), *reply_CK.shape))
    return best_plan(reply_GCK, games.row_GKK, horizon).value_N


def _methods(actions: int, tuned: Mapping[str, float]) -> dict[str, Maker]:
    """Every method by name; SimplePG plays games of two actions only."""
    methods: dict[str, Maker] = {
        OUR: _unaware(OurMethodRuns, actions=actions),
        SPP: SPlusPlusRuns,
        FP: _unaware(FictitiousPlayRuns, actions=actions),
        EXP3: _unaware(EXP3Runs, actions=actions, exploration=tuned[EXP3]),
    }
    if actions == 2:
        methods[PG] = _unaware(SimplePGRuns, lr=tuned[PG])
    return methods


def _unaware(make: Callable[..., Player], **settings: Any) -> Maker:
    """Players that are not told the payoffs."""
    return lambda seeds, own, other: make(seeds, **settings)


def _late(make: Maker, delay: int, seed: int) -> Maker:
    def late(seeds: Seeds, own: Floats, other: Floats) -> Player:
        return Late(make(seeds, own, other), len(own), own.shape[1], delay, seed)

    return late


def _tuned(horizon: int, seed: int) -> dict[str, float]:
    """SimplePG's rate and EXP3's exploration that earn most with the scripted partners.

    On the development half, shorter runs and seeds of their own.
    """
    games = two_action_games()
    own_half = games.picked(~games.held_G)
    tables = {name: table[None] for name, table in memory_one(2).items()}

    def value(make: Maker) -> float:
        earned = with_scripted(
            make, own_half, tables, runs=1, episodes=TUNING_EPISODES, horizon=horizon,
            seed=(seed, 77),
        )  # fmt: skip
        return float(np.mean(list(earned.values())))

    rates = {rate: value(_unaware(SimplePGRuns, lr=rate)) for rate in RATES}
    shares = {share: value(_unaware(EXP3Runs, exploration=share)) for share in EXPLORATION}
    return {PG: max(rates, key=rates.__getitem__), EXP3: max(shares, key=shares.__getitem__)}


def _seeds(seed: Sequence[int], role: int, runs: int) -> list[np.random.SeedSequence]:
    return [np.random.SeedSequence([*seed, role, run]) for run in range(runs)]
