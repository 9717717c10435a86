"""Methods compared over their runs: scores by environment and seed, and their statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from srl_agents.evaluation import aggregates
from srl_agents.evaluation.aggregates import Estimate, Scores
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.headline import headline, position
from srl_train.metrics.run_folder import Run
from srl_train.metrics.seeds import entries, settings


@dataclass(frozen=True)
class Scored:
    """The scores of several methods on the same environments."""

    scores: Mapping[str, Scores]
    """Method -> environment -> one score per seed."""
    score: str
    """What a score is, in words."""
    normalised: bool
    """Whether 0 is uniform play and 1 the optimum."""

    def aggregates(self, method: str, seed: int) -> dict[str, Estimate]:
        """What the method's scores come to."""
        own = self.scores[method]
        found = {
            "interquartile_mean": aggregates.interquartile_mean(own, seed),
            "mean": aggregates.mean(own, seed),
        }
        if len(own) > 1:
            found["median"] = aggregates.median(own, seed)
        if self.normalised:
            found["optimality_gap"] = aggregates.optimality_gap(own, seed)
        return found

    def improvements(self, seed: int) -> dict[tuple[str, str], Estimate]:
        """(method, other) -> the probability that the method improves on the other."""
        return {
            (ours, theirs): aggregates.probability_of_improvement(
                self.scores[ours], self.scores[theirs], seed
            )
            for ours, theirs in permutations(self.scores, 2)
        }


def methods_of(runs: Sequence[tuple[str | None, str, Run]]) -> dict[str, list[Run]]:
    """Method -> its runs, of (method or None, label, run). Runs without a method are one where they
    differ in nothing but the seed, and are called as in comparisons."""
    found: dict[str, list[Run]] = {}
    for method, _, run in runs:
        if method is not None:
            found.setdefault(method, []).append(run)
    for entry in entries([(label, run) for method, label, run in runs if method is None]):
        found.setdefault(entry.label, []).extend(entry.runs)
    return found


def scored(methods: Mapping[str, Sequence[Run]]) -> Scored:
    """The methods' scores: the mean raw reward per agent and turn, evaluated after training where
    every run was, else over the last tenth of the rounds; normalised where all environments know
    uniform play and the optimum.

    Raises RunFolderError for a run that measured no reward, for a seed that a method has twice in
    one environment, for methods that were not all run in the same environments, and for several
    environments of which one cannot be normalised.
    """
    runs = [run for own in methods.values() for run in own]
    evaluated = all(math.isfinite(headline(run).after) for run in runs)
    normalised = all(math.isfinite(position(0.0, run.baselines)) for run in runs)
    scores: dict[str, dict[str, list[float]]] = {}
    for method, own in methods.items():
        seen = set()
        for run in own:
            task = task_of(run, runs)
            if (task, run.seed) in seen:
                raise RunFolderError(
                    f"{method} has seed {run.seed} of {task} twice: a seed again is no second "
                    "sample, give runs of other seeds"
                )
            seen.add((task, run.seed))
            value = headline(run).after if evaluated else headline(run).end
            if not math.isfinite(value):
                raise RunFolderError(f"{run.folder} has no reward yet: let it run on")
            earned = position(value, run.baselines) if normalised else value
            scores.setdefault(method, {}).setdefault(task, []).append(earned)
    tasks = {method: sorted(own) for method, own in scores.items()}
    first, *others = tasks
    for method in others:
        if tasks[method] != tasks[first]:
            raise RunFolderError(
                f"{first} was run in {', '.join(tasks[first])}, {method} in "
                f"{', '.join(tasks[method])}: compare methods in the same environments"
            )
    if len(tasks[first]) > 1 and not normalised:
        unknown = next(run for run in runs if not math.isfinite(position(0.0, run.baselines)))
        raise RunFolderError(
            f"{unknown.environment} does not know what uniform play and the optimum earn, so its "
            "rewards cannot be put beside another's: compare the runs of one environment at a time"
        )
    when = "evaluated after training" if evaluated else "over the last tenth of the rounds"
    scale = ", between uniform play (0) and the optimum (1)" if normalised else ""
    return Scored(
        {method: {task: own[task] for task in tasks[method]} for method, own in scores.items()},
        f"mean raw reward {when}{scale}",
        normalised,
    )


def task_of(run: Run, among: Sequence[Run]) -> str:
    """The run's environment, with the options that others of the same name have not."""
    own = _options(run)
    rest = [_options(other) for other in among if other.environment == run.environment]
    told = sorted(
        f"{key}={own.get(key)}"
        for key in {key for options in (own, *rest) for key in options}
        if any(options.get(key) != own.get(key) for options in rest)
    )
    return f"{run.environment} ({', '.join(told)})" if told else run.environment


def _options(run: Run) -> dict[str, object]:
    environment = run.config.get("environment")
    return settings(environment) if isinstance(environment, Mapping) else {}
