"""Scores of policies in scenarios: returns of the focal agents, outcomes, and solved problems.

score(scenario("coop_compete_pair_v0.leader"), Uniform(), episodes=64).focal_return
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from math import comb
from typing import Any

import numpy as np

from srl_agents.episode import Episode
from srl_agents.errors import PolicyError, RolloutError
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.evaluation.episode_stats import cooperation_rate, parse_failures
from srl_agents.policy import Policy, missing_methods
from srl_agents.rollout import policy_name
from srl_agents.scripted.registry import policies_by_agent
from srl_agents.seeding import MOST, generator, of_games
from srl_envs.scenarios import Scenario
from srl_envs.validation import whole_number
from srl_extensions.judging.episodes import UNRECORDED, EpisodePlan, EpisodeRunner

AT_THE_END = (
    "success", "steps", "shortest_path", "surplus_share", "gain", "reputation", "welfare_share",
    "nash_share", "pareto_efficient",
)  # fmt: skip
"""Outcomes in the last infos, averaged over the focal agents that have the key."""
SUMMED = ("regret",)
"""Outcomes summed over an agent's infos, then averaged over the focal agents."""
JUDGED = ("agreement", "won", "drawn")
"""Outcomes computed from `outcome` and `winner` in the last infos."""
DRAWN = ("draw", "tie")
"""Values of `winner` for a draw."""


@dataclass(frozen=True)
class EpisodeScore:
    """Score of one episode."""

    seed: int
    """Seed of the environment's reset."""
    seats: Mapping[str, str]
    """Agent -> name of its policy."""
    returns: Mapping[str, float]
    """Agent -> return, up to a failure."""
    focal_return: float | None
    """Mean return of the focal agents; None for a failed episode."""
    background_return: float | None
    """Likewise of the background agents; None without such agents."""
    outcomes: Mapping[str, float]
    """Name -> value of each outcome that the infos report; empty for a failed episode."""
    failure: str | None = None
    """Error that ended the episode, or None."""


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
    """95 % interval, as in Solved."""
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


@dataclass(frozen=True)
class ScenarioScore:
    """Score of focal policies in a scenario. Failed episodes are excluded from all means."""

    scenario: Scenario
    focal: tuple[str, ...]
    """Names of the focal policies, each once."""
    seed: int
    """Seed of the bootstrap."""
    episodes: tuple[EpisodeScore, ...]
    focal_return: float
    """Mean return per focal agent and episode."""
    focal_interval: tuple[float, float] | None
    """95 % bootstrap interval of `focal_return` over problems or starts; None for a single one."""
    background_return: float | None
    """Likewise per background agent; None without such agents."""
    parse_failures: float
    """Share of the focal agents' text answers without a legal action; 0 without any."""
    cooperation_rate: float | None
    """Share of the focal agents' cooperative actions; None if the environment has none."""
    outcomes: Mapping[str, float]
    """Name -> mean of an outcome over the episodes that report it."""
    solved: Solved | None
    """Solved problems of a task, or of any environment if `pass_at` was given; else None."""

    @property
    def failed(self) -> int:
        """Number of failed episodes."""
        return sum(episode.failure is not None for episode in self.episodes)

    def as_record(self) -> dict[str, Any]:
        """Return the fields as data for JSON, with the scenario's "tags" and "failed_episodes"."""
        record = asdict(self)
        record["scenario"]["tags"] = self.scenario.tags
        return {**record, "failed_episodes": self.failed}


def score(
    scenario: Scenario,
    focal: Policy | Sequence[Policy],
    episodes: int = 64,
    seed: int = 0,
    *,
    samples: int = 1,
    background: Mapping[str, Policy] | None = None,
    pass_at: Sequence[int] = (),
) -> ScenarioScore:
    """Play a scenario, and compute the score of the focal policies.

    Args:
        scenario: Scenario to play.
        focal: Policy of all focal agents, or policies assigned to them in turn, start after start.
        episodes: Number of starts.
        seed: Seed of all random numbers.
        samples: Number of episodes of each start.
        background: Agent -> policy, for all background agents; None for those of the scenario.
        pass_at: Values of k for pass@k, at most `samples`.

    Returns:
        Score, with an entry per episode.

    Raises:
        ValueError: An argument is out of range, or `pass_at` is given for a scenario without
            problems to solve or with several focal agents.
        PolicyError: `focal` is no policy, or not exactly all agents have a policy.
        RolloutError: All episodes failed.
    """
    if pass_at:
        check_pass_at(scenario, samples, pass_at)
    played = play_scenario(scenario, focal, episodes, seed, samples=samples, background=background)
    return scored(scenario, played, seed, pass_at=pass_at)


def play_scenario(
    scenario: Scenario,
    focal: Policy | Sequence[Policy],
    episodes: int = 64,
    seed: int = 0,
    *,
    samples: int = 1,
    background: Mapping[str, Policy] | None = None,
    runner: EpisodeRunner = UNRECORDED,
) -> list[Episode]:
    """Play `samples` episodes of each of `episodes` starts, and return all, start after start.

    `focal` and `background` are as in `score`. The recorded names of the background policies are
    those of the scenario. `runner` limits and records the episodes, including failed ones.
    Errors are those of `score` and `runner.play`.
    """
    team = list(focal) if isinstance(focal, Sequence) and not isinstance(focal, str) else [focal]
    if not team:
        raise ValueError("focal must have at least one policy, got an empty list")
    for one in team:
        if isinstance(one, type) or missing_methods(one):
            raise PolicyError(
                f"focal must be a policy or a list of policies, got {one!r}; for scripted policies "
                "use classic_policy('uniform', scenario.make())"
            )
    episodes = whole_number("episodes", episodes, low=1)
    samples = whole_number("samples", samples, low=1)
    seed = whole_number("seed", seed, low=0, high=MOST)
    with closing(scenario.make()) as env:
        background = background or policies_by_agent(scenario.background, env)
        if {*scenario.focal, *background} != set(env.possible_agents):
            agents = ", ".join(env.possible_agents)
            raise PolicyError(f"{scenario.name} must have exactly one policy for each of {agents}")
    seeds, policy_seeds = of_games(generator(seed, "scenario"), episodes * samples, samples)
    plans = []
    for number, (env_seed, policy_seed) in enumerate(zip(seeds, policy_seeds, strict=True)):
        shift = number // samples * len(scenario.focal)
        dealt = dict(background)
        for place, agent in enumerate(scenario.focal):
            dealt[agent] = team[(shift + place) % len(team)]
        names = {agent: policy_name(policy) for agent, policy in dealt.items()}
        plans.append(
            EpisodePlan(
                scenario.make,
                dealt,
                env_seed,
                policy_seed,
                names=names | dict(scenario.background),
                extra={"scenario": scenario.name, "focal_agents": list(scenario.focal)},
            )
        )
    return runner.play(scenario.name, plans)


def scored(
    scenario: Scenario, played: Sequence[Episode], seed: int, *, pass_at: Sequence[int] = ()
) -> ScenarioScore:
    """Return the score of `played`, episodes of `play_scenario`.

    `seed` is that of the bootstrap. `pass_at` are values of k for pass@k of one focal agent.
    Without values, `solved` is set for tasks only. Raises RolloutError if all episodes failed, and
    ValueError for `pass_at` with several focal agents.
    """
    scores = tuple(_episode_score(scenario, episode) for episode in played)
    focal_returns = [one.focal_return for one in scores if one.focal_return is not None]
    if not focal_returns:
        raise RolloutError(
            f"every episode of {scenario.name} failed; the first: {played[0].failure}"
        )
    complete = [episode for episode in played if episode.failure is None]
    steps = [s for episode in complete for agent in scenario.focal for s in episode.steps_of(agent)]
    ends = [episode.end_of(scenario.focal[0]) for episode in complete]
    problems = [problem_of(end, one.seed) for end, one in zip(ends, complete, strict=True)]
    is_task = len(scenario.focal) == 1 and "problem" in ends[0]
    outcomes = {
        name: [one.outcomes[name] for one in scores if name in one.outcomes]
        for name in (*AT_THE_END, *SUMMED, *JUDGED)
    }
    return ScenarioScore(
        scenario=scenario,
        focal=tuple({episode.seats[agent]: None for episode in played for agent in scenario.focal}),
        seed=seed,
        episodes=scores,
        focal_return=float(np.mean(focal_returns)),
        focal_interval=bootstrap_interval(focal_returns, seed, problems),
        background_return=_mean(
            [one.background_return for one in scores if one.background_return is not None]
        ),
        parse_failures=parse_failures(steps),
        cooperation_rate=cooperation_rate(steps),
        outcomes={name: float(np.mean(own)) for name, own in outcomes.items() if own},
        solved=solved(scenario, played, seed, pass_at) if is_task or pass_at else None,
    )


def _episode_score(scenario: Scenario, episode: Episode) -> EpisodeScore:
    returns, seats = episode.returns(), dict(episode.seats)
    if episode.failure is not None:
        return EpisodeScore(episode.seed, seats, returns, None, None, {}, episode.failure)
    focal, background = (
        _mean([returns[agent] for agent in agents])
        for agents in (scenario.focal, scenario.background)
    )
    outcomes = _outcomes(scenario, episode)
    return EpisodeScore(episode.seed, seats, returns, focal, background, outcomes)


def _outcomes(scenario: Scenario, episode: Episode) -> dict[str, float]:
    steps = {agent: episode.steps_of(agent) for agent in scenario.focal}
    last = {agent: episode.end_of(agent) for agent in steps}
    found: dict[str, float] = {}
    for name in AT_THE_END:
        reported = [info[name] for info in last.values() if info.get(name) is not None]
        if reported:
            found[name] = float(np.mean(reported))
    for name in SUMMED:
        values = [[step.info[name] for step in own if name in step.info] for own in steps.values()]
        if any(values):
            found[name] = float(np.mean([sum(own) for own in values]))
    ends = next(iter(last.values()))
    if "outcome" in ends:
        found["agreement"] = float(ends["outcome"] == "agreement")
    if "winner" in ends:
        with closing(scenario.make()) as env:
            teams = getattr(env.unwrapped, "teams", None) or {}
        won = [
            ends["winner"] in (agent, teams.get(agent), last[agent].get("side"))
            for agent in scenario.focal
        ]
        found["won"] = float(np.mean(won))
        found["drawn"] = float(ends["winner"] in DRAWN)
    return found


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


# Solved problems and pass@k


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
    least number of samples of a start, failed ones included. Raise ValueError without complete
    episodes.
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
