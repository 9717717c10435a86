"""Exact exploitability of a language model in zero-sum games of OpenSpiel."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import pyspiel
from open_spiel.python import policy as openspiel_policy
from open_spiel.python import rl_environment
from open_spiel.python.algorithms import (
    cfr,
    get_all_states,
    mmd_dilated,
    policy_aggregator,
)
from open_spiel.python.algorithms.exploitability import exploitability
from open_spiel.python.rl_agent_policy import JointRLAgentPolicy

from benchmarks.claim import Request, Result, Settings
from benchmarks.records import Kept
from benchmarks.runs import assembled, grow_pools, rounds_of
from srl_agents.policy import Policy
from srl_envs.validation import Step
from srl_extensions.bridges.openspiel import OpenSpielGame, OpenSpielView
from srl_extensions.bridges.openspiel_exploitability import ExactPolicies

POINTS = 5
"""Number of strategies that are read from a run after its start."""
POOL = "past"
"""Name of the opponent pool of past versions."""
MMD_SETTINGS = tuple(itertools.product((0.01, 0.1), (0.1, 1.0, 10.0)))
"""Tried (weight of the entropy, step size) in units of the game's largest reward."""
Row = dict[str, Any]


class SidesView(OpenSpielView):
    """Text view whose rules are equal for both agents, so that a model has one strategy."""

    def rules(self, agent: str) -> str:
        return super().rules("player_0")


class EitherSide(OpenSpielGame):
    """Game of OpenSpiel for two agents, whose sides are exchanged in half of the episodes.

    A learner that plays one agent therefore learns both sides. Rewards are shares of the game's
    largest reward.
    """

    _exchanged = False

    def make_view(self) -> OpenSpielView:
        return SidesView(**vars(super().make_view()))

    def begin(self, options: Mapping[str, Any]) -> None:
        self._exchanged = bool(self.np_random.integers(2))
        super().begin(options)

    def step(self, actions: Mapping[str, Any]) -> Step:
        observations, rewards, *rest = super().step(self._sided(actions))
        shares = {agent: won / self.game.max_utility() for agent, won in rewards.items()}
        found: list[Any] = [observations, shares, *rest]
        return tuple(map(self._sided, found))  # type: ignore[return-value]

    def _first(self) -> Any:
        return tuple(map(self._sided, super()._first()))

    def _sided(self, by_agent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the agents' sides, or of the sides' agents."""
        names = self.possible_agents
        other = dict(zip(names, reversed(names) if self._exchanged else names, strict=True))
        return {other[agent]: value for agent, value in by_agent.items()}


def measure(request: Request) -> Result:
    """Tune and train every method in every game; return one row per run.

    Rows of runs and of OpenSpiel's algorithms have the entries of `curve`. "less_plain" and
    "less_bonus" compare "newest" with the first two methods on the same seed. Rows of tuned
    settings have "score", the smaller of the means of "newest" and "average".
    """
    kept = Kept(request.folder / "runs.jsonl")
    options, methods = request.claim.options, list(request.claim.methods)
    rows: list[Row] = []
    references: list[Row] = []
    chosen: dict[str, int] = {}

    def train(name: str, method: str, place: int, seed: int) -> Row:
        """Return the row of a run of `method` with setting number `place` of its grid."""
        game, setting = options["games"][name], options["grids"][method][place]
        if method in methods:
            run = train_run
            settings = {**request.settings(method, **game["settings"], **setting), "seed": seed}
        else:
            run = nfsp_run
            moves = int(train(name, methods[0], chosen[methods[0]], seed)["answers"])
            settings = {**options["nfsp"], **setting, "moves": moves, "seed": seed}
        if "seats.player_1" in settings:
            # One of two agents learns: twice as many episodes give the learner as many answers.
            settings["rollout.groups_per_round"] *= 2
            settings[f"opponent_pools.{POOL}.every"] = settings["rounds"] // POINTS
        row = kept([game["env"], settings], partial(run, game["env"], settings))
        return {"part": "results", "game": name, "method": method, "seed": seed, **row}

    for method, grid in options["grids"].items():
        scores = []
        for place in range(len(grid)):
            own = [train(options["tuned_on"], method, place, n) for n in options["tuning_seeds"]]
            scores.append(min(_mean(own, "newest"), _mean(own, "average")))
        chosen[method] = int(np.argmin(scores))
        references += [
            {"part": "tuning", "method": method, "setting": str(setting).strip("{}"),
             "score": score, "chosen": "yes" if score == min(scores) else ""}
            for setting, score in zip(grid, scores, strict=True)
        ]  # fmt: skip
    for name, game in options["games"].items():
        for seed in request.seeds[: game["seeds"]]:
            found = [train(name, method, chosen[method], seed) for method in methods]
            for row in found:
                plain, bonus = (row["newest"] - other["newest"] for other in found[:2])
                rows.append({**row, "less_plain": plain, "less_bonus": bonus})
            references.append(train(name, "NFSP", chosen["NFSP"], seed))
        own = [row for row in rows if (row["game"], row["method"]) == (name, methods[0])]
        steps = round(_mean(own, "steps"))
        solved = kept([game["env"], steps], partial(solvers, game["env"], steps))
        references += [{"part": "results", "game": name, **row} for row in solved]
    spent = sum(row["cpu_seconds"] for row in kept.results.values() if isinstance(row, dict))
    return Result(rows, references, {"minutes": spent / 60})


def _mean(rows: Sequence[Row], key: str) -> float:
    return fmean(row[key] for row in rows)


def train_run(env: str, settings: Settings) -> Row:
    """Train a run in a game of OpenSpiel; return exploitabilities, counts and seconds."""
    began = time.process_time()
    answers = steps = 0
    with assembled(settings, partial(EitherSide, env)) as run, closing(run.make_env()) as game:
        policy = run.engine.policies_of(dict.fromkeys(game.possible_agents, "model_0"))["player_0"]
        tree = turn_based(game.game)
        strategies, averages = [strategy_of(game, policy)], []
        for result in rounds_of(run):
            steps += sum(len(episode.turns) for episode in result.episodes)
            answers += sum(
                step.decision.asked and episode.seats[step.agent] == "model_0"
                for episode in result.episodes
                for step in itertools.chain(*episode.turns)
            )
            if run.next_round % (run.config.rounds // POINTS) == 0:
                strategies.append(strategy_of(game, policy))
                grow_pools(run, run.next_round)
                weights = run.pools[POOL].chances() if run.pools else [1.0] * len(strategies)
                averages.append(exploitability(tree, average(tree, strategies, weights)))
    newest = [exploitability(tree, one) for one in strategies]
    seconds = time.process_time() - began
    counts = {"start": newest[0], "answers": answers, "steps": steps, "cpu_seconds": seconds}
    return curve(tree, newest[1:], averages) | {key: float(found) for key, found in counts.items()}


def curve(game: pyspiel.Game, newest: Sequence[float], averages: Sequence[float]) -> Row:
    """Return the exploitabilities at all points, those at the end, and shares of uniform play's.

    "newest" is the mean of the last two points, "average" the last point.
    """
    uniform = exploitability(game, openspiel_policy.UniformRandomPolicy(game))
    ends = {"newest": fmean(newest[-2:]), "average": float(averages[-1])}
    row = {"uniform": uniform, **ends}
    row |= {f"{judged}_share": end / uniform for judged, end in ends.items()}
    row |= {f"newest_{point}": float(found) for point, found in enumerate(newest, 1)}
    return row | {f"average_{point}": float(found) for point, found in enumerate(averages, 1)}


def turn_based(game: pyspiel.Game) -> pyspiel.Game:
    """Return a game in which players choose in turn, as OpenSpiel's algorithms require."""
    simultaneous = game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
    return pyspiel.convert_to_turn_based(game) if simultaneous else game


def strategy_of(env: OpenSpielGame, policy: Policy) -> openspiel_policy.TabularPolicy:
    """Return the probabilities of a policy's answers in all information states of both sides."""
    game = turn_based(env.game)
    exact = ExactPolicies(env, game, dict.fromkeys(env.possible_agents, policy))
    return openspiel_policy.tabular_policy_from_callable(game, exact.action_probabilities)


def average(
    game: pyspiel.Game, strategies: Sequence[openspiel_policy.Policy], weights: Sequence[float]
) -> openspiel_policy.Policy:
    """Return the behavior strategy that equals drawing one strategy per episode (Kuhn 1953).

    A strategy counts in a situation by the probability that its own choices lead there.
    """
    aggregator = policy_aggregator.PolicyAggregator(game)
    return aggregator.aggregate([0, 1], [list(strategies)] * 2, [list(weights)] * 2)


def nfsp_run(env: str, settings: Settings) -> Row:
    """Train OpenSpiel's neural fictitious self-play (requires dm-tree) for "moves" actions.

    "newest" is the greedy best response, "average" the network of the average policy.
    """
    from open_spiel.python.pytorch import nfsp

    began, own, game = time.process_time(), dict(settings), turn_based(pyspiel.load_game(env))
    moves, seed = own.pop("moves"), own.pop("seed")
    chance = rl_environment.ChanceEventSampler(seed)
    episodes = rl_environment.Environment(game, chance_event_sampler=chance)
    sizes = episodes.observation_spec()["info_state"][0], game.num_distinct_actions()
    agents = [nfsp.NFSP(side, *sizes, seed=2 * seed + side, **own) for side in range(2)]
    policy = JointRLAgentPolicy(game, dict(enumerate(agents)), use_observation=False)
    found: dict[Any, list[float]] = {nfsp.MODE.BEST_RESPONSE: [], nfsp.MODE.AVERAGE_POLICY: []}
    made = 0
    for point in range(1, POINTS + 1):
        while made * POINTS < moves * point:
            now = episodes.reset()
            while not now.last():
                now = episodes.step([agents[now.current_player()].step(now).action])
                made += 1
            now = now._replace(rewards=[won / game.max_utility() for won in now.rewards])
            for agent in agents:
                agent.step(now)
        for mode, points in found.items():
            with agents[0].temp_mode_as(mode), agents[1].temp_mode_as(mode):
                points.append(float(exploitability(game, policy)))
    counts = {"answers": float(made), "cpu_seconds": time.process_time() - began}
    return curve(game, *found.values()) | counts


def solvers(name: str, steps: int) -> list[Row]:
    """Return rows of OpenSpiel's algorithms with as many visited decisions as steps of a run.

    An iteration of CFR visits every decision of the game's tree twice, an iteration of MMD once.
    The row of MMD is the best of MMD_SETTINGS.
    """
    game = turn_based(pyspiel.load_game(name))
    decisions = get_all_states.get_all_states(
        game, include_terminals=False, to_string=lambda state: state.history_str()
    )

    def curve_of(method: str, visits: int, iterate: Callable[[], Any], policies: Any) -> Row:
        count = steps // (visits * len(decisions))
        points: list[tuple[float, float]] = []
        for point in range(POINTS):
            for _ in range(count * point // POINTS, count * (point + 1) // POINTS):
                iterate()
            points.append(tuple(exploitability(game, one()) for one in policies))
        newest, averages = zip(*points, strict=True)
        return {"method": method, **curve(game, newest, averages), "iterations": count}

    found = []
    for alpha, size in MMD_SETTINGS:
        largest = game.max_utility()
        mmd = mmd_dilated.MMDDilatedEnt(game, alpha * largest, size / largest)

        def iterate(mmd: Any = mmd) -> None:
            mmd.update_sequences()
            mmd.update_avg_sequences()

        found.append(curve_of("MMD", 1, iterate, (mmd.get_policies, mmd.get_avg_policies)))
    best = min(found, key=lambda row: min(row["newest"], row["average"]))
    solver = cfr.CFRSolver(game)
    both = solver.current_policy, solver.average_policy
    return [curve_of("CFR", 2, solver.evaluate_and_update_policy, both), best]
