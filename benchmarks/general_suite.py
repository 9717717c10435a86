"""The general suite: every method with every partner in many games, and its criteria.

The criteria follow Powers, Shoham and Vu (2007), "A general criterion and an algorithmic framework
for learning in multi-agent systems": targeted optimality, auto-compatibility (self-play), safety.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.general_methods import EXP3Runs, FictitiousPlayRuns, SPlusPlusRuns
from benchmarks.records import Check, table
from srl_agents.baselines.learners import SimplePGRuns
from srl_agents.baselines.our_method import OurMethodRuns
from srl_agents.baselines.solutions import best_plan, maximin, product_of_gains
from srl_agents.evaluation.matrix_game import NOISE, Player, Seeds
from srl_agents.scripted.memory_one import START, STRATEGIES, distributions
from srl_extensions.judging.aggregates import Estimate, Scores, interquartile_mean, mean

Floats = NDArray[np.float64]


# Games --------------------------------------------------------------------------------------------

SPLIT_SEED = 2007  # of the halves
RANDOM_GAMES = 6  # of either size
BIASED_ROCK_PAPER_SCISSORS = ((0.5, 0.0, 1.0), (1.0, 0.5, 0.25), (0.0, 0.75, 0.5))
"""Scissors cut paper for only half of what the others win: the value is 1/2, uneven mixing."""
MIXTURES = 240  # shares of two joint actions tried for the fair outcome


class Games(NamedTuple):
    """G games of K actions; payoffs within [0, 1], indexed (row's action, column's)."""

    row_GKK: Floats
    column_GKK: Floats
    held_G: NDArray[np.bool_]
    """Mask of the held half, on which no constant was chosen."""
    zero_sum_G: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row_GKK)

    def picked(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Games:
        """Return the games of a mask, or of indices."""
        payoffs = self.row_GKK[which], self.column_GKK[which]
        return Games(*payoffs, self.held_G[which], self.zero_sum_G[which])


def two_action_games() -> Games:
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


def three_action_games() -> Games:
    """Return biased rock-paper-scissors and random zero-sum games of three actions."""
    generator = np.random.default_rng(SPLIT_SEED + 1)
    rows = [np.array(BIASED_ROCK_PAPER_SCISSORS), *generator.random((RANDOM_GAMES - 1, 3, 3))]
    classes = [[(row, 1.0 - row), (1.0 - row.T, row.T)] for row in rows]
    return _split(classes, 0, generator)


def fair_values(games: Games) -> Floats:
    """Return both players' payoffs (G, 2) in the best fair outcome.

    That is the Nash bargaining solution over all mixtures of two joint actions.
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
    """Return all pairs of rankings of the joint actions, up to the names of actions."""
    rankings = [np.array(order).reshape(2, 2) / 4 for order in permutations((1, 2, 3, 4))]
    found: dict[tuple[float, ...], tuple[Floats, Floats]] = {}
    for row in rankings:
        for column in rankings:
            found.setdefault(_canonical(row, column), (row, column))
    return list(found.values())


def _canonical(row: Floats, column: Floats) -> tuple[float, ...]:
    """Return a key that is equal for games that differ only in the names of actions."""
    return min(
        tuple(np.concatenate([row[::up, ::left].ravel(), column[::up, ::left].ravel()]).tolist())
        for up in (1, -1)
        for left in (1, -1)
    )


def _split(
    classes: list[list[tuple[Floats, Floats]]], ordinal: int, generator: np.random.Generator
) -> Games:
    """Return the games of all classes, with half of each kind marked as holdout."""
    held = set(generator.permutation(ordinal)[: ordinal // 2].tolist())
    others = ordinal + generator.permutation(len(classes) - ordinal)
    held |= set(others[: len(others) // 2].tolist())
    games = [
        (row, column, index in held, index >= ordinal)
        for index, members in enumerate(classes)
        for row, column in members
    ]
    rows, columns, kept, zero_sum = zip(*games, strict=True)
    return Games(np.array(rows), np.array(columns), np.array(kept), np.array(zero_sum))


# Partners -----------------------------------------------------------------------------------------

PERIOD = 50  # episodes after which a switching partner turns into the other


def memory_one(actions: int) -> Mapping[str, Floats]:
    """Return memory-one partners: name -> probabilities (situation, action)."""
    if actions == 2:
        chances = {
            "always_0": (0.0,) * 5,
            "always_1": (1.0,) * 5,
            "uniform": (0.5,) * 5,
            "contrary": (1.0, 1.0, 0.0, 1.0, 0.0),
            **STRATEGIES,
        }
        return {name: distributions(np.array(chance)) for name, chance in chances.items()}
    uneven = np.arange(1.0, actions + 1.0) / sum(range(actions + 1))
    return {
        "always_0": _same(np.eye(actions)[0]),
        "uniform": _same(np.full(actions, 1.0 / actions)),
        "uneven": _same(uneven),
        "repeats": _replies([other for own in range(actions) for other in range(actions)]),
        "moves_on": _replies(
            [(other + 1) % actions for own in range(actions) for other in range(actions)]
        ),
        "rotates": _replies(
            [(own + 1) % actions for own in range(actions) for other in range(actions)]
        ),
    }


def switching(actions: int) -> Mapping[str, tuple[str, str]]:
    """Return partners that switch between two memory-one strategies."""
    if actions == 2:
        return {
            "turncoat": ("always_1", "always_0"),
            "moody": ("tit_for_tat", "contrary"),
            "grim_or_random": ("grim_trigger", "mostly_compete"),
        }
    return {"turncoat": ("always_0", "moves_on"), "moody": ("repeats", "uneven")}


class ScriptedRuns:
    """N runs of memory-one strategies that switch every PERIOD episodes (tables: SNCK)."""

    def __init__(self, seeds: Seeds, chances_SNCK: Floats) -> None:
        self._chances_SNCK = chances_SNCK.cumsum(axis=3)[..., :-1]
        self._row = np.arange(chances_SNCK.shape[1])
        self._actions = chances_SNCK.shape[3]
        self._generator = np.random.default_rng(seeds[0])
        self._place_N = np.full(self._row.size, START)
        self._own_N = np.zeros(self._row.size, np.int8)
        self._episodes = 0

    def act(self) -> tuple[NDArray[np.int8], Floats]:
        turn = self._episodes // PERIOD % len(self._chances_SNCK)
        below_NK = self._chances_SNCK[turn, self._row, self._place_N]
        drawn_N1 = self._generator.random(self._row.size)[:, None]
        self._own_N = (drawn_N1 >= below_NK).sum(axis=1).astype(np.int8)
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        self._place_N = 1 + self._actions * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: Floats) -> None:
        self._place_N = np.full_like(self._place_N, START)
        self._episodes += 1


class Late:
    """A player that starts `delay` rounds late; until then the actions are random."""

    def __init__(self, player: Player, runs: int, actions: int, delay: int, seed: int) -> None:
        self._player, self._shape, self._delay = player, (runs, actions), delay
        self._generator = np.random.default_rng([seed, delay])
        self._rounds = self._before = 0  # of the episode, those before it began

    def act(self) -> tuple[NDArray[np.int8], Floats]:
        if self._rounds >= self._delay:
            return self._player.act()
        runs, actions = self._shape
        return self._generator.integers(actions, size=runs).astype(np.int8), np.ones(runs)

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


def from_the_other_side(chances_CK: Floats) -> Floats:
    """Return a table of replies by the other player's situations."""
    actions = chances_CK.shape[1]
    swapped = chances_CK[1:].reshape(actions, actions, actions).swapaxes(0, 1)
    return np.concatenate([chances_CK[:1], swapped.reshape(-1, actions)])


def _same(chance_K: Floats) -> Floats:
    return np.tile(chance_K, (1 + chance_K.size**2, 1))


def _replies(after: Sequence[int]) -> Floats:
    """Return deterministic replies after (own, other); the first action is 0."""
    actions = round(len(after) ** 0.5)
    return np.eye(actions)[[0, *after]]


# Matches ------------------------------------------------------------------------------------------

Maker = Callable[[Seeds, Floats, Floats], Player]
"""Function from seeds and both players' payoffs (N, own, other's) to N runs of a player."""

DELAYS = (5, 18, 45, 100)  # rounds after which the second player begins, out of step
TUNING_EPISODES = 100
RATES = (1.0, 5.0, 20.0, 70.0)  # among which SimplePG's is chosen, on the development half
EXPLORATION = (0.01, 0.03, 0.1)  # EXP3's
PG, EXP3, FP, SPP, OUR = "SimplePG, tuned", "EXP3, tuned", "fictitious play", "S++", "OUR"


class Lengths(NamedTuple):
    """Runs, episodes per run and rounds per episode."""

    runs: int
    episodes: int
    horizon: int


def general_suite(
    *, runs: int, episodes: int, horizon: int, seed: int, progress: Callable[[str], None]
) -> dict[str, Any]:
    """Return the "tuned" constants, and the result of `play_all` by number of actions."""
    tuned = _tuned(horizon, seed)
    progress(f"chosen on the development half: {tuned}")
    results: dict[str, Any] = {"tuned": tuned}
    for games in (two_action_games(), three_action_games()):
        name = f"{games.row_GKK.shape[1]} actions"
        methods = _methods(games.row_GKK.shape[1], tuned)
        lengths = Lengths(runs, episodes, horizon)
        results[name] = play_all(methods, games, lengths, seed, progress)
    return results


def play_all(
    methods: Mapping[str, Maker],
    games: Games,
    lengths: Lengths,
    seed: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Play every method with every partner.

    Returns:
        Mean rewards per round. "earned": method -> partner -> [game][run]; "self_play": method or
        "OUR, out of step" -> [game][run][player]; "best": scripted partner -> value of the best
        response by game (of a switching partner, the mean of two); "maximin" and "fair": by game.
    """
    actions = games.row_GKK.shape[1]
    scripted = memory_one(actions)
    turns = {name: (name, name) for name in scripted} | dict(switching(actions))
    tables = {name: np.stack([scripted[one], scripted[two]]) for name, (one, two) in turns.items()}
    best = {name: best_values(games, scripted[name], lengths.horizon) for name in scripted}
    best |= {name: (best[one] + best[two]) / 2 for name, (one, two) in turns.items()}
    earned: dict[str, dict[str, Any]] = {name: {} for name in methods}
    mirrors: dict[str, Any] = {}
    for place, (name, make) in enumerate(methods.items()):
        earned[name] |= with_scripted(make, games, tables, lengths, (seed, place))
        progress(f"{actions} actions: {name} has met the scripted partners")
        for other_place, (other, make_other) in list(enumerate(methods.items()))[place:]:
            pair = play_games(make, make_other, games, lengths, (seed, place, other_place))
            earned[name][other] = pair[0].tolist()
            # Every game occurs in both seats, so the column player also plays all of them.
            earned[other].setdefault(name, pair[1].tolist())
            if name == other:
                mirrors[name] = np.moveaxis(pair, 0, -1).tolist()
        progress(f"{actions} actions: {name} has met the methods")
    late = [
        play_games(
            methods[OUR], _late(methods[OUR], delay, seed), games, lengths, (seed, 99, delay)
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
    lengths: Lengths,
    seed: Sequence[int],
) -> dict[str, Any]:
    """Return a method's rewards with all scripted partners at once: name -> [game][run]."""
    count, per_partner = len(tables), len(games) * lengths.runs
    chances_SNCK = np.concatenate(
        [np.repeat(table[:, None], per_partner, axis=1) for table in tables.values()], axis=1
    )
    many = games.picked(np.tile(np.arange(len(games)), count))
    scripted = _unaware(ScriptedRuns, chances_SNCK=chances_SNCK)
    pair = play_games(make, scripted, many, lengths, seed)
    by_partner = pair[0].reshape(count, len(games), lengths.runs)
    return {name: by_partner[index].tolist() for index, name in enumerate(tables)}


def play_games(
    make_row: Maker, make_column: Maker, games: Games, lengths: Lengths, seed: Sequence[int]
) -> Floats:
    """Return both players' mean rewards per round (2, G, runs), with noise as in `play_match`."""
    runs, episodes, horizon = lengths
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
    """Return the exact value of the best response to a memory-one partner, by game."""
    reply_CK = from_the_other_side(chances_CK)
    reply_GCK = np.broadcast_to(reply_CK, (len(games), *reply_CK.shape))
    return best_plan(reply_GCK, games.row_GKK, horizon).value_N


def _methods(actions: int, tuned: Mapping[str, float]) -> dict[str, Maker]:
    """Return the methods by name; SimplePG plays only games of two actions."""
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
    """Return a maker of players that do not know the payoffs."""
    return lambda seeds, own, other: make(seeds, **settings)


def _late(make: Maker, delay: int, seed: int) -> Maker:
    def late(seeds: Seeds, own: Floats, other: Floats) -> Player:
        return Late(make(seeds, own, other), len(own), own.shape[1], delay, seed)

    return late


def _tuned(horizon: int, seed: int) -> dict[str, float]:
    """Return SimplePG's rate and EXP3's exploration that earn most on the development half."""
    games = two_action_games()
    own_half = games.picked(~games.held_G)
    tables = {name: table[None] for name, table in memory_one(2).items()}

    def value(make: Maker) -> float:
        lengths = Lengths(1, TUNING_EPISODES, horizon)
        earned = with_scripted(make, own_half, tables, lengths, (seed, 77))
        return float(np.mean(list(earned.values())))

    rates = {rate: value(_unaware(SimplePGRuns, lr=rate)) for rate in RATES}
    shares = {share: value(_unaware(EXP3Runs, exploration=share)) for share in EXPLORATION}
    return {PG: max(rates, key=rates.__getitem__), EXP3: max(shares, key=shares.__getitem__)}


def _seeds(seed: Sequence[int], role: int, runs: int) -> list[np.random.SeedSequence]:
    return [np.random.SeedSequence([*seed, role, run]) for run in range(runs)]


# Criteria -----------------------------------------------------------------------------------------

NEAR = 0.98  # of the best method, in every criterion's mean
SAFE = 0.95  # of the maximin value, with every partner in every game
FAIR = 0.97  # of the fair outcome in self-play
OUT_OF_STEP = "OUR, out of step"

Criteria = Mapping[str, Mapping[str, Scores]]
"""Criterion -> method -> partner -> scores by game and run."""


def criteria(found: Mapping[str, Any], half: NDArray[np.bool_]) -> Criteria:
    """Return the scores of one half of the games (a mask) from the result of `play_all`."""
    scripted = [*found["memory_one"], *found["switching"]]
    earned = {
        method: {name: np.array(by_game)[half] for name, by_game in partners.items()}
        for method, partners in found["earned"].items()
    }
    best = {name: np.array(found["best"][name])[half, None] for name in scripted}
    sure = np.array(found["maximin"])[half, None]
    fair = np.array(found["fair"])[half, None]
    return {
        "targeted optimality": {
            method: _flat({name: rows[name] / best[name] for name in found["memory_one"]})
            for method, rows in earned.items()
        },
        "switching partners": {
            method: _flat({name: rows[name] / best[name] for name in found["switching"]})
            for method, rows in earned.items()
        },
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
    """Return the checks of OUR in games of two actions, on the held half."""
    scores = criteria(found, np.array(found["held"]))
    seen = []
    for criterion, methods in scores.items():
        means = {method: _mean(own) for method, own in methods.items()}
        best = max(means, key=means.__getitem__)
        seen.append(
            Check(
                f"{criterion}: mean at least {NEAR:g} of the best method's",
                means[OUR] >= NEAR * means[best],
                f"{means[OUR]:.4f}, best {best} {means[best]:.4f}",
            )
        )
    lowest = _lowest(scores["safety"][OUR])
    seen.append(Check(f"safety: never below {SAFE:g} of maximin", lowest >= SAFE, f"{lowest:.4f}"))
    for method in (OUR, OUT_OF_STEP):
        value = _mean(scores["self-play"][method])
        about = f"self-play of {method}: mean at least {FAIR:g} of the fair outcome"
        seen.append(Check(about, value >= FAIR, f"{value:.4f}"))
    return seen


def tables(results: Mapping[str, Any], seed: int) -> str:
    """Return the tables of all criteria as Markdown, for two and three actions."""
    parts = [
        "chosen on the development half: "
        + ", ".join(f"{name} {value:g}" for name, value in results["tuned"].items())
    ]
    for name, found in results.items():
        if name == "tuned":
            continue
        held = np.array(found["held"])
        parts.append(f"## Games of {name}: {held.sum()} held, {(~held).sum()} development")
        halves = {"held": criteria(found, held), "development": criteria(found, ~held)}
        for criterion in halves["held"]:
            parts.append(f"### {criterion}\n\n{_table(criterion, halves, seed)}")
        parts.append(f"### by partner, held half: mean reward per round\n\n{_by_partner(halves)}")
    return "\n\n".join(parts)


def _table(criterion: str, halves: Mapping[str, Criteria], seed: int) -> str:
    heading = ["", "held: mean", "held: interquartile mean", "held: lowest", "development: mean"]
    rows = []
    for method, own in halves["held"][criterion].items():
        development = halves["development"][criterion][method]
        rows.append(
            [
                method,
                _shown(mean(own, seed)),
                _shown(interquartile_mean(own, seed)),
                f"{_lowest(own):.3f}",
                f"{_mean(development):.4f}",
            ]
        )
    return table(heading, rows)


def _by_partner(halves: Mapping[str, Criteria]) -> str:
    everything = halves["held"]["everything"]
    partners = list(everything[OUR])
    rows = [
        [partner, *(f"{np.mean(own[partner]):.3f}" for own in everything.values())]
        for partner in partners
    ]
    return table(["with", *everything], rows)


def _shown(estimate: Estimate) -> str:
    if estimate.interval is None:
        return f"{estimate.value:.4f}"
    low, high = estimate.interval
    return f"{estimate.value:.4f} [{low:.4f}, {high:.4f}]"


def _flat(scores: Mapping[str, Floats]) -> Scores:
    return {name: values.ravel().tolist() for name, values in scores.items()}


def _mean(scores: Scores) -> float:
    return float(np.mean([np.mean(own) for own in scores.values()]))


def _lowest(scores: Scores) -> float:
    return min(min(own) for own in scores.values())
