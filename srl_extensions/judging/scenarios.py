"""Scores in scenarios: per-capita returns of the evaluated agents, and collective outcomes.

score(scenario("coop_compete_pair_v0.tit_for_tat"), Uniform(), episodes=64).focal_return
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, is_dataclass
from typing import Any

import numpy as np

from srl_agents.episode import Episode
from srl_agents.errors import PolicyError, RolloutError
from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.evaluation.episode_stats import LONG_AFTER, cooperation_rate, parse_failures
from srl_agents.policy import Policy, missing_methods
from srl_agents.rollout import play_many, policy_name
from srl_agents.scripted.registry import classic_policy
from srl_agents.seeding import MOST, generator, of_games
from srl_envs.errors import EnvConfigError
from srl_envs.scenarios import Scenario
from srl_envs.validation import whole_number
from srl_extensions.judging.solved import Solved, problem_of, solved

AT_THE_END: Mapping[str, str] = {
    "success": "share of agents that reached their goal",
    "steps": "steps per agent",
    "shortest_path": "fewest possible steps, per agent",
    "surplus_share": "realized over possible surplus of the whole market",
    "gain": "gain per agent, in own value",
    "reputation": "reputation per agent",
    "welfare_share": "sum of utilities over the greatest possible",
    "nash_share": "Nash product over the greatest possible",
    "pareto_efficient": "share of outcomes that no deal improves for all",
}
"""Key of the last infos to meaning; averaged over the focal agents with this key."""
SUMMED: Mapping[str, str] = {"regret": "regret per episode and agent"}
"""Key of all infos, summed over an episode."""
JUDGED: Mapping[str, str] = {
    "agreement": "share of episodes that end in an agreement",
    "won": "share of agents that won, alone or with their team or side",
    "drawn": "share of episodes without a winner",
}
"""Outcomes from the values of `outcome` and `winner` in the last infos."""
DRAWN = ("draw", "tie")
"""Values of `winner` for a draw."""


@dataclass(frozen=True)
class EpisodeScore:
    """Score of one episode."""

    seed: int
    """Seed of the environment's reset."""
    seats: Mapping[str, str]
    returns: Mapping[str, float]
    focal_return: float | None
    """Mean over the focal agents; None for a failed episode."""
    background_return: float | None
    """Mean over the background agents; None without any, and for a failed episode."""
    outcomes: Mapping[str, float]
    """Values of AT_THE_END, SUMMED and JUDGED."""
    failure: str | None = None


@dataclass(frozen=True)
class ScenarioScore:
    """Score of focal policies in a scenario. Failed episodes are excluded from all means."""

    scenario: Scenario
    focal: tuple[str, ...]
    seed: int
    episodes: tuple[EpisodeScore, ...]
    focal_return: float
    focal_interval: tuple[float, float] | None
    """95 % interval over episodes, those of one problem together; None for a single episode."""
    background_return: float | None
    parse_failures: float
    """Share of unreadable answers of the focal agents."""
    cooperation_rate: float | None
    """Share of cooperative actions of the focal agents, if the environment has any."""
    outcomes: Mapping[str, float]
    """Means over episodes of AT_THE_END, SUMMED and JUDGED."""
    solved: Solved | None
    """Solved problems of tasks, and of other environments on request."""

    @property
    def failed(self) -> int:
        """Number of failed episodes."""
        return sum(episode.failure is not None for episode in self.episodes)

    def as_record(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        record: dict[str, Any] = _plain(self)
        record["scenario"]["tags"] = list(self.scenario.tags)
        record["solved"] = None if self.solved is None else self.solved.as_record()
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
    """Play a scenario and return the score of the focal policies.

    Args:
        scenario: The scenario.
        focal: Policy of the focal agents, or several, which are dealt to the agents in turn.
        episodes: Number of starts.
        seed: Seed of all random numbers.
        samples: Number of episodes of each start.
        background: Agent to policy, instead of the scenario's background policies.
        pass_at: Each k of pass@k.

    Raises:
        ValueError: If an argument is out of range, or as `solved`.
        PolicyError: If an argument is not a policy, or cannot play the environment.
        EnvConfigError: If the scenario does not name each agent of its environment once.
        RolloutError: If each episode failed.
    """
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
) -> list[Episode]:
    """Return the episodes that `score` scores, with the samples of one start in a row."""
    team = list(focal) if isinstance(focal, Sequence) and not isinstance(focal, str) else [focal]
    if not team:
        raise ValueError("focal is empty: at least one policy is required")
    for one in team:
        if isinstance(one, type) or missing_methods(one):
            raise PolicyError(
                f"focal must be a policy, such as classic_policy('uniform', scenario.make()), or a "
                f"list of policies, got {one!r}"
            )
    episodes = whole_number("episodes", episodes, low=1)
    samples = whole_number("samples", samples, low=1)
    seed = whole_number("seed", seed, low=0, high=MOST)
    with closing(scenario.make()) as env:
        agents = (*scenario.focal, *scenario.background)
        if not scenario.focal or sorted(agents) != sorted(env.possible_agents):
            raise EnvConfigError(
                f"{scenario.name} must name each of {', '.join(env.possible_agents)} once, at "
                f"least one as focal, got focal {', '.join(scenario.focal) or 'none'} and "
                f"background {', '.join(scenario.background) or 'none'}"
            )
        if background is None:
            scripted = {w: classic_policy(w, env) for w in set(scenario.background.values())}
            background = {agent: scripted[name] for agent, name in scenario.background.items()}
    if background.keys() != scenario.background.keys():
        raise ValueError(
            f"background must have a policy for {', '.join(scenario.background) or 'no agent'}, "
            f"got {', '.join(background) or 'none'}"
        )
    seeds, policy_seeds = of_games(generator(seed, "scenario"), episodes * samples, samples)
    by_shift: dict[int, list[int]] = {}
    for number in range(episodes * samples):
        shift = number // samples * len(scenario.focal) % len(team)
        by_shift.setdefault(shift, []).append(number)
    played: dict[int, Episode] = {}
    for shift, numbers in by_shift.items():
        dealt = dict(background)
        for place, agent in enumerate(scenario.focal):
            dealt[agent] = team[(shift + place) % len(team)]
        together = play_many(
            scenario.make,
            dealt,
            [seeds[number] for number in numbers],
            policy_seeds=[policy_seeds[number] for number in numbers],
            reset_options=[{"episode": LONG_AFTER}] * len(numbers),
            names={agent: policy_name(policy) for agent, policy in dealt.items()}
            | dict(scenario.background),
            extra={"scenario": scenario.name, "focal_agents": list(scenario.focal)},
        )
        played.update(zip(numbers, together, strict=True))
    return [played[number] for number in range(episodes * samples)]


def scored(
    scenario: Scenario, played: Sequence[Episode], seed: int, *, pass_at: Sequence[int] = ()
) -> ScenarioScore:
    """Return the score of episodes of `play_scenario`. Raises RolloutError, and as `solved`."""
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
    """Return the outcomes of an episode from the infos of the focal agents."""
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


def _plain(value: Any) -> Any:
    """Return the same data in dicts and lists."""
    if is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
