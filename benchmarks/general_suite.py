"""The general suite: every method with every partner in many games, and its criteria.

The criteria follow Powers, Shoham and Vu (2007), "A general criterion and an algorithmic framework
for learning in multi-agent systems": targeted optimality, auto-compatibility (self-play), safety.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.records import Check, table
from srl_agents.baselines.learners import SimplePGRuns, Uniforms
from srl_agents.baselines.opponent_model import PayoffTable
from srl_agents.baselines.our_method import OurMethodRuns
from srl_agents.baselines.solutions import best_plan, maximin, product_of_gains
from srl_agents.evaluation.matrix_game import NOISE, Player, Seeds, play_episode, run_seeds
from srl_agents.scripted.memory_one import START, STRATEGIES, distributions, mirrored, situations
from srl_extensions.judging.aggregates import Estimate, Scores, interquartile_mean, mean

Floats = NDArray[np.float64]
Maker = Callable[[Seeds], Player]
"""Function from N seeds to N runs of a player."""

# Games --------------------------------------------------------------------------------------------

SPLIT_SEED = 2007  # of the halves
RANDOM_GAMES = 6
MIXTURES = 240  # shares of two joint actions tried for the fair outcome


class Games(NamedTuple):
    """G games of two players with K = 2 actions."""

    row_GKK: Floats
    """Payoffs of the row player within [0, 1], indexed [game, row's action, column's action]."""
    column_GKK: Floats
    """Payoffs of the column player, with the same indices."""
    held_G: NDArray[np.bool_]
    """True for games of the held-out half, on which no constant was chosen."""

    def __len__(self) -> int:
        return len(self.row_GKK)

    def picked(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Games:
        """Return the games of a mask, or of indices."""
        return Games(self.row_GKK[which], self.column_GKK[which], self.held_G[which])


def all_games() -> Games:
    """Return the 144 strict ordinal games, matching pennies and random zero-sum games.

    Each game occurs in both seats. Games that differ only in the names of players and actions are
    in the same half; there are 78 such classes of ordinal games (Rapoport and Guyer 1966).
    """
    classes: dict[object, list[tuple[Floats, Floats]]] = {}
    for row, column in _ordinal():
        same = min(_canonical(row, column), _canonical(column.T, row.T))
        classes.setdefault(same, []).append((row, column))
    ordinal = len(classes)
    generator = np.random.default_rng(SPLIT_SEED)
    pennies = [np.eye(2), *generator.random((RANDOM_GAMES, 2, 2))]
    for number, row in enumerate(pennies):
        classes[number] = [(row, 1.0 - row), (1.0 - row.T, row.T)]
    return _split(list(classes.values()), ordinal, generator)


def fair_values(games: Games) -> Floats:
    """Return both players' payoffs (G, 2) in the Nash bargaining solution of each game.

    The solution is over all mixtures of two joint actions.
    """
    fair_G2 = np.empty((len(games), 2))
    for g, (row_KK, column_KK) in enumerate(zip(games.row_GKK, games.column_GKK, strict=True)):
        cell_J2 = np.stack([row_KK.ravel(), column_KK.ravel()], axis=1)
        share = np.linspace(0.0, 1.0, MIXTURES + 1)[:, None, None, None]
        mixed = share * cell_J2[:, None] + (1.0 - share) * cell_J2[None]
        value_A2 = mixed.reshape(-1, 2)
        _, sure_2 = maximin(np.stack([row_KK, column_KK.T]))
        gain_A = product_of_gains(value_A2, sure_2, row_KK, column_KK)
        fair_G2[g] = value_A2[gain_A.argmax()]
    return fair_G2


def _ordinal() -> list[tuple[Floats, Floats]]:
    """Return (row's payoffs, column's payoffs) of all strict ordinal games.

    Of games that differ only in the names of actions, one is returned.
    """
    rankings = [np.array(order).reshape(2, 2) / 4 for order in permutations((1, 2, 3, 4))]
    found: dict[tuple[float, ...], tuple[Floats, Floats]] = {}
    for row, column in product(rankings, rankings):
        found.setdefault(_canonical(row, column), (row, column))
    return list(found.values())


def _canonical(row: Floats, column: Floats) -> tuple[float, ...]:
    """Return a key of a game that does not depend on the names of the actions."""
    both = np.stack([row, column])
    return min(tuple(both[:, ::a, ::b].ravel().tolist()) for a in (1, -1) for b in (1, -1))


def _split(
    classes: list[list[tuple[Floats, Floats]]], ordinal: int, generator: np.random.Generator
) -> Games:
    """Return the games (row's, column's payoffs) of all classes, with half of them held out.

    The first `ordinal` classes are ordinal games, the others zero-sum games; half of each kind.
    """
    held = set(generator.permutation(ordinal)[: ordinal // 2].tolist())
    others = ordinal + generator.permutation(len(classes) - ordinal)
    held |= set(others[: len(others) // 2].tolist())
    games = [(*game, index in held) for index, own in enumerate(classes) for game in own]
    return Games(*map(np.array, zip(*games, strict=True)))


# Partners -----------------------------------------------------------------------------------------

PERIOD = 50  # episodes after which a switching partner turns into the other


def memory_one() -> Mapping[str, Floats]:
    """Return memory-one partners: name -> probability of the action 1 in each situation."""
    chances = {
        "always_0": (0.0,) * 5,
        "always_1": (1.0,) * 5,
        "uniform": (0.5,) * 5,
        "contrary": (1.0, 1.0, 0.0, 1.0, 0.0),
        **STRATEGIES,
    }
    return {name: np.array(chance) for name, chance in chances.items()}


SWITCHING = {
    "turncoat": ("always_1", "always_0"),
    "moody": ("tit_for_tat", "contrary"),
    "grim_or_random": ("grim_trigger", "mostly_compete"),
}
"""Partner -> the two memory-one strategies that it alternates, for PERIOD episodes each."""


class ScriptedRuns:
    """N runs of memory-one strategies that switch every PERIOD episodes.

    `chances_SNC` are the probabilities of the action 1, by strategy, run and situation.
    """

    def __init__(self, seeds: Seeds, chances_SNC: Floats) -> None:
        self._chances_SNC = chances_SNC
        self._row = np.arange(chances_SNC.shape[1])
        self._generator = np.random.default_rng(seeds[0])
        self._place_N = np.full(self._row.size, START)
        self._own_N = np.zeros(self._row.size, np.int8)
        self._episodes = 0

    def act(self) -> tuple[NDArray[np.int8], Floats]:
        turn = self._episodes // PERIOD % len(self._chances_SNC)
        chance_N = self._chances_SNC[turn, self._row, self._place_N]
        drawn_N = self._generator.random(self._row.size)
        self._own_N = (drawn_N >= 1.0 - chance_N).astype(np.int8)
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        self._place_N = 1 + 2 * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: Floats) -> None:
        self._place_N = np.full_like(self._place_N, START)
        self._episodes += 1


class Late:
    """N runs of a player that begins after `delay` rounds; until then the actions are random."""

    def __init__(self, seeds: Seeds, make: Maker, delay: int, seed: int) -> None:
        self._player, self._runs, self._delay = make(seeds), len(seeds), delay
        self._generator = np.random.default_rng([seed, delay])
        self._rounds = self._before = 0  # of the episode, those before it began

    def act(self) -> tuple[NDArray[np.int8], Floats]:
        if self._rounds >= self._delay:
            return self._player.act()
        drawn_N = self._generator.integers(2, size=self._runs).astype(np.int8)
        return drawn_N, np.ones(self._runs)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        if self._rounds >= self._delay:
            self._player.observe_opponent(other_N)
        else:
            self._before += 1
        self._rounds += 1

    def update(self, own_NT: NDArray[np.int8], reward_NT: Floats) -> None:
        if self._before < own_NT.shape[1]:
            self._player.update(own_NT[:, self._before :], reward_NT[:, self._before :])
        self._before = 0


class FictitiousPlayRuns:
    """N independent players of the best response to the frequencies seen (Brown 1951).

    Frequencies are counted for every outcome of the round before (each action once beforehand), and
    the response is exact over the episode. The first episode is played at random; nothing is
    explored after it.
    """

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence]) -> None:
        runs = len(seeds)
        self._row = np.arange(runs)
        self._uniforms = Uniforms(seeds)
        self._payoffs = PayoffTable(runs)
        self._count_NCK = np.ones((runs, 5, 2))
        self._plan_NTC: NDArray[np.int8] | None = None
        self._place_N = np.full(runs, START)
        self._own_N = np.zeros(runs, np.int8)
        self._other: list[NDArray[np.int8]] = []

    def act(self) -> tuple[NDArray[np.int8], Floats]:
        if self._plan_NTC is None:
            self._own_N = (self._uniforms.take(1)[0] * 2).astype(np.int8)
            return self._own_N, np.full(self._row.size, 0.5)
        t = min(len(self._other), self._plan_NTC.shape[1] - 1)
        self._own_N = self._plan_NTC[self._row, t, self._place_N]
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        self._other.append(other_N)
        self._place_N = 1 + 2 * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: Floats) -> None:
        other_NT = np.stack(self._other, axis=1)
        self._other, self._place_N = [], np.full_like(self._place_N, START)
        self._payoffs.add(own_NT, other_NT, reward_NT)
        place_NT = situations(own_NT, other_NT)
        np.add.at(self._count_NCK, (self._row[:, None], place_NT, other_NT), 1.0)
        reply_NCK = self._count_NCK / self._count_NCK.sum(axis=2, keepdims=True)
        self._plan_NTC = best_plan(reply_NCK, self._payoffs.mean(), own_NT.shape[1]).action_NTC


# Matches ------------------------------------------------------------------------------------------

DELAYS = (5, 18, 45, 100)  # rounds after which the second player begins, out of step
TUNING_EPISODES = 100
RATES = (1.0, 5.0, 20.0, 70.0)  # among which SimplePG's is chosen, on the development half
PG, FP, OUR = "SimplePG, tuned", "fictitious play", "OUR"
OUT_OF_STEP = "OUR, out of step"


class Lengths(NamedTuple):
    """Runs, episodes per run and rounds per episode."""

    runs: int
    episodes: int
    horizon: int


def general_suite(
    *, runs: int, episodes: int, horizon: int, seed: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Return the result of `play_all` for all methods in all games, with the "rate" of SimplePG.

    `progress` receives a line of text after each part.
    """
    rate = _tuned_rate(horizon, seed)
    progress(f"chosen on the development half: {PG} {rate:g}")
    methods: dict[str, Maker] = {
        OUR: OurMethodRuns,
        FP: FictitiousPlayRuns,
        PG: partial(SimplePGRuns, lr=rate),
    }
    lengths = Lengths(runs, episodes, horizon)
    return {"rate": rate, **play_all(methods, all_games(), lengths, seed, progress)}


def play_all(
    methods: Mapping[str, Maker],
    games: Games,
    lengths: Lengths,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Play every method with every partner.

    Returns:
        Mean rewards per round. "earned": method -> partner -> (game, run); "self_play": method or
        OUT_OF_STEP -> (game, run, player); "best": scripted partner -> value of the best response
        by game (of a switching partner, the mean of two); "maximin" and "fair": by game; "held":
        mask of the games; "memory_one" and "switching": names of the partners.
    """
    scripted = memory_one()
    turns = {name: (name, name) for name in scripted} | SWITCHING
    tables = {name: np.stack([scripted[one], scripted[two]]) for name, (one, two) in turns.items()}
    best = {name: best_values(games, scripted[name], lengths.horizon) for name in scripted}
    best |= {name: (best[one] + best[two]) / 2 for name, (one, two) in turns.items()}
    earned: dict[str, dict[str, Any]] = {name: {} for name in methods}
    mirrors: dict[str, Any] = {}
    for place, (name, make) in enumerate(methods.items()):
        earned[name] |= with_scripted(make, games, tables, lengths, (seed, place))
        for other_place, (other, make_other) in list(enumerate(methods.items()))[place:]:
            pair = play_games(make, make_other, games, lengths, (seed, place, other_place))
            earned[name][other] = pair[0]
            # Every game occurs in both seats, so the column player also plays all of them.
            earned[other].setdefault(name, pair[1])
            if name == other:
                mirrors[name] = np.moveaxis(pair, 0, -1)
        progress(f"{name} has met all partners")
    own, late = methods[OUR], partial(Late, make=methods[OUR], seed=seed)
    pairs = [
        play_games(own, partial(late, delay=delay), games, lengths, (seed, 99, delay))
        for delay in DELAYS
    ]
    mirrors[OUT_OF_STEP] = np.moveaxis(np.concatenate(pairs, axis=2), 0, -1)
    return {
        "earned": earned,
        "self_play": mirrors,
        "best": best,
        "memory_one": list(scripted),
        "switching": list(SWITCHING),
        "maximin": maximin(games.row_GKK)[1],
        "fair": fair_values(games),
        "held": games.held_G,
    }


def with_scripted(
    make: Maker,
    games: Games,
    tables: Mapping[str, Floats],
    lengths: Lengths,
    seed: Sequence[int],
) -> dict[str, Any]:
    """Play a method with all scripted partners at once.

    `tables` is partner -> probabilities of the action 1 (strategy, situation). Returns partner ->
    the method's mean rewards per round (game, run).
    """
    count, per_partner = len(tables), len(games) * lengths.runs
    chances_SNC = np.repeat(np.stack(list(tables.values()), axis=1), per_partner, axis=1)
    many = games.picked(np.tile(np.arange(len(games)), count))
    scripted = partial(ScriptedRuns, chances_SNC=chances_SNC)
    pair = play_games(make, scripted, many, lengths, seed)
    by_partner = pair[0].reshape(count, len(games), lengths.runs)
    return dict(zip(tables, by_partner, strict=True))


def play_games(
    make_row: Maker, make_column: Maker, games: Games, lengths: Lengths, seed: Sequence[int]
) -> Floats:
    """Play two methods in all games; return both players' mean rewards per round (2, G, runs).

    Rewards have normal noise. Each run has its own seed, derived from `seed`.
    """
    runs, episodes, horizon = lengths
    row_NKK = np.repeat(games.row_GKK, runs, axis=0)
    column_NKK = np.repeat(games.column_GKK.transpose(0, 2, 1), runs, axis=0)
    many = np.arange(len(row_NKK))[:, None]
    players = [
        make(run_seeds(seed, role, many.size)) for role, make in enumerate((make_row, make_column))
    ]
    noise = np.random.default_rng([*seed, 2])
    total_2N = np.zeros((2, many.size))
    for _ in range(episodes):
        row_NT, column_NT = play_episode(*players, many.size, horizon)
        for role, (own_NT, other_NT, payoff_NKK) in enumerate(
            [(row_NT, column_NT, row_NKK), (column_NT, row_NT, column_NKK)]
        ):
            drawn_NT = NOISE * noise.standard_normal(own_NT.shape)
            reward_NT = payoff_NKK[many, own_NT, other_NT] + drawn_NT
            players[role].update(own_NT, reward_NT)
            total_2N[role] += reward_NT.mean(axis=1)
    return np.asarray((total_2N / episodes).reshape(2, len(games), runs))


def best_values(games: Games, chances_C: Floats, horizon: int) -> Floats:
    """Return each game's exact value (G,) of the best response to a memory-one partner.

    The value is the mean reward per round in episodes of `horizon` rounds.
    """
    reply_CK = distributions(mirrored(chances_C))
    reply_GCK = np.broadcast_to(reply_CK, (len(games), *reply_CK.shape))
    return best_plan(reply_GCK, games.row_GKK, horizon).value_N


def _tuned_rate(horizon: int, seed: int) -> float:
    """Return SimplePG's rate that earns most with memory-one partners on the development half."""
    games = all_games()
    own_half = games.picked(~games.held_G)
    tables = {name: chances[None] for name, chances in memory_one().items()}
    lengths = Lengths(1, TUNING_EPISODES, horizon)

    def value(rate: float) -> float:
        make = partial(SimplePGRuns, lr=rate)
        earned = with_scripted(make, own_half, tables, lengths, (seed, 77))
        return float(np.mean(list(earned.values())))

    return max(RATES, key=value)


# Criteria -----------------------------------------------------------------------------------------

NEAR = 0.98  # of the best method, in every criterion's mean
SAFE = 0.95  # of the maximin value, with every partner in every game
FAIR = 0.97  # of the fair outcome in self-play

Criteria = Mapping[str, Mapping[str, Scores]]
"""Criterion -> method -> partner -> scores by game and run."""


def criteria(found: Mapping[str, Any], half: NDArray[np.bool_]) -> Criteria:
    """Return the scores of one half of the games (a mask) from the result of `play_all`."""
    earned = {
        method: {name: np.array(by_game)[half] for name, by_game in partners.items()}
        for method, partners in found["earned"].items()
    }
    sure = np.array(found["maximin"])[half, None]
    fair = np.array(found["fair"])[half, None]

    def of_best(partners: Sequence[str]) -> dict[str, Scores]:
        best = {name: np.array(found["best"][name])[half, None] for name in partners}
        return {
            method: _flat({name: rows[name] / value for name, value in best.items()})
            for method, rows in earned.items()
        }

    return {
        "targeted optimality": of_best(found["memory_one"]),
        "switching partners": of_best(found["switching"]),
        "safety": {
            # One score for a game with a partner: the mean of its runs over the maximin value.
            method: {name: (scores / sure).mean(axis=1).tolist() for name, scores in rows.items()}
            for method, rows in earned.items()
        },
        "self-play": {
            method: _flat({"itself": (np.array(pairs)[half] / fair).min(axis=2)})
            for method, pairs in found["self_play"].items()
        },
        "everything": {method: _flat(rows) for method, rows in earned.items()},
    }


def checks(found: Mapping[str, Any]) -> list[Check]:
    """Return the checks of OUR on the held-out half, from the result of `general_suite`."""
    scores = criteria(found, np.array(found["held"]))
    seen = []
    for criterion, methods in scores.items():
        means = {method: _mean(own) for method, own in methods.items()}
        best = max(means, key=means.__getitem__)
        about = f"{criterion}: mean at least {NEAR:g} of the best method's"
        shown = f"{means[OUR]:.4f}, best {best} {means[best]:.4f}"
        seen.append(Check(about, means[OUR] >= NEAR * means[best], shown))
    lowest = _lowest(scores["safety"][OUR])
    seen.append(Check(f"safety: never below {SAFE:g} of maximin", lowest >= SAFE, f"{lowest:.4f}"))
    for method in (OUR, OUT_OF_STEP):
        value = _mean(scores["self-play"][method])
        about = f"self-play of {method}: mean at least {FAIR:g} of the fair outcome"
        seen.append(Check(about, value >= FAIR, f"{value:.4f}"))
    return seen


def tables(found: Mapping[str, Any], seed: int) -> str:
    """Return a Markdown table of each criterion, with bootstrap intervals drawn from `seed`."""
    held = found["held"]
    halves = {"held": criteria(found, held), "development": criteria(found, ~held)}
    return "\n\n".join([
        f"chosen on the development half: {PG} {found['rate']:g}",
        f"{held.sum()} games held out, {(~held).sum()} of the development half",
        *(f"### {name}\n\n{_table(name, halves, seed)}" for name in halves["held"]),
    ])  # fmt: skip


def _table(criterion: str, halves: Mapping[str, Criteria], seed: int) -> str:
    heading = ["", "held: mean", "held: interquartile mean", "held: lowest", "development: mean"]
    rows = []
    for method, own in halves["held"][criterion].items():
        intervals = [_shown(mean(own, seed)), _shown(interquartile_mean(own, seed))]
        development = _mean(halves["development"][criterion][method])
        rows.append([method, *intervals, f"{_lowest(own):.3f}", f"{development:.4f}"])
    return table(heading, rows)


def _shown(estimate: Estimate) -> str:
    ends = estimate.interval and " [{:.4f}, {:.4f}]".format(*estimate.interval)
    return f"{estimate.value:.4f}{ends or ''}"


def _flat(scores: Mapping[str, Floats]) -> Scores:
    return {name: values.ravel().tolist() for name, values in scores.items()}


def _mean(scores: Scores) -> float:
    return float(np.mean([np.mean(own) for own in scores.values()]))


def _lowest(scores: Scores) -> float:
    return min(min(own) for own in scores.values())
