"""Evaluation in scenarios: per-capita returns of the evaluated agents, and collective outcomes.

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
from srl_agents.evaluation.episode_stats import cooperation_rate, parse_failures
from srl_agents.evaluation.solved import Solved, asked, solved
from srl_agents.policy import Policy, missing_methods
from srl_agents.rollout import play_many, policy_name
from srl_agents.scripted.registry import classic_policy
from srl_agents.seeding import MOST, generator, of_games
from srl_envs.errors import EnvConfigError
from srl_envs.scenarios import Scenario
from srl_envs.validation import whole_number

LONG_AFTER = 2**31  # the number of every episode: warm-ups are over, and ramps at their top

AT_THE_END: Mapping[str, str] = {
    "success": "share of agents that reached their goal",
    "steps": "moves made per agent",
    "shortest_path": "fewest moves possible, per agent",
    "surplus_share": "realised over possible surplus of the whole market",
    "gain": "gain per agent, in own value",
    "reputation": "reputation per agent",
    "welfare_share": "sum of utilities over the greatest possible",
    "nash_share": "Nash product over the greatest possible",
    "pareto_efficient": "share of ends that no deal improves on for all",
}
"""Keys of the last infos -> meaning; averaged over the focal agents where the game reports them."""
SUMMED: Mapping[str, str] = {"regret": "regret per episode and agent"}
"""Keys of every info, summed over an episode."""
JUDGED: Mapping[str, str] = {
    "agreement": "share of episodes that end in an agreement",
    "won": "share of agents that won, alone or with their team or side",
    "drawn": "share of episodes that nobody won",
}
"""Read from the words in the last infos, `outcome` and `winner`."""
DRAWN = ("draw", "tie")  # what games call it


@dataclass(frozen=True)
class EpisodeScore:
    """What one episode came to."""

    seed: int
    """Of the environment's reset."""
    seats: Mapping[str, str]
    """Agent -> who played it."""
    returns: Mapping[str, float]
    """Agent -> episode return; raw rewards."""
    focal_return: float | None
    """Mean over the focal agents; None for a failed episode."""
    background_return: float | None
    """Mean over the background agents; None without any, and for a failed episode."""
    outcomes: Mapping[str, float]
    """See AT_THE_END, SUMMED and JUDGED."""
    failure: str | None = None


@dataclass(frozen=True)
class ScenarioScore:
    """How focal policies did in a scenario. Failed episodes are counted and left out of means."""

    scenario: Scenario
    focal: tuple[str, ...]
    """The names of those that were scored."""
    seed: int
    episodes: tuple[EpisodeScore, ...]
    focal_return: float
    """Per capita: mean over focal agents of the episode return, then over episodes."""
    focal_interval: tuple[float, float] | None
    """95 % interval of it, over episodes, those of one problem together; None for one."""
    background_return: float | None
    """The same mean over the background agents."""
    parse_failures: float
    """Share of the focal agents' written answers that could not be read."""
    cooperation_rate: float | None
    """Share of the focal agents' actions that cooperate, in games that have that."""
    outcomes: Mapping[str, float]
    """Means over episodes; see AT_THE_END, SUMMED and JUDGED."""
    solved: Solved | None
    """Which problems were solved: of tasks, and of others where it was asked for."""

    @property
    def failed(self) -> int:
        """How many episodes failed."""
        return sum(episode.failure is not None for episode in self.episodes)

    def as_record(self) -> dict[str, Any]:
        """Everything as plain data for JSON."""
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
    pass_at: Sequence[int] = (),
    background: Mapping[str, Policy] | None = None,
) -> ScenarioScore:
    """Play `episodes` games of the scenario with `focal` as its focal agents, and score them.

    Several policies are dealt to the focal agents in order, and go on from episode to episode
    where the last one left off, so that each plays. The same seed gives the same games to
    everyone. With `samples`, each of the games is played that often from the same start, by the
    same policies: a task's problem is then answered that often. `pass_at` are the k of pass@k.
    `background`: agent -> policy, for a scenario whose background names models (srl_train's
    resolver builds them).

    Raises ValueError for less than one episode, policy or sample, a wrong seed, and (as
    PolicyError) what is no policy; EnvConfigError for a scenario that does not name every agent
    once, RolloutError where every episode fails, and as `solved` does for `pass_at`.
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
    """The episodes that `score` scores, in order, those of one start in a row; `seats` and `extra`
    say who played what."""
    team = list(focal) if isinstance(focal, Sequence) and not isinstance(focal, str) else [focal]
    if not team:
        raise ValueError("focal is empty: give at least one policy")
    for one in team:
        if isinstance(one, type) or missing_methods(one):
            raise PolicyError(
                f"{one!r} is no policy: give one, such as classic_policy('uniform', "
                "scenario.make()), or a list of them"
            )
    episodes = whole_number("episodes", episodes, low=1)
    samples = whole_number("samples", samples, low=1)
    seed = whole_number("seed", seed, low=0, high=MOST)
    with closing(scenario.make()) as env:
        taken = (*scenario.focal, *scenario.background)
        if not scenario.focal or sorted(taken) != sorted(env.possible_agents):
            raise EnvConfigError(
                f"{scenario.name} has {', '.join(scenario.focal) or 'nobody'} as focal and "
                f"{', '.join(scenario.background) or 'nobody'} as background agents: name each of "
                f"{', '.join(env.possible_agents)} once, at least one as focal"
            )
        if background is None:
            scripted = {w: classic_policy(w, env) for w in set(scenario.background.values())}
            background = {agent: scripted[who] for agent, who in scenario.background.items()}
    if background.keys() != scenario.background.keys():
        raise ValueError(
            f"background has policies for {', '.join(background) or 'nobody'}: give one for each "
            f"of {', '.join(scenario.background) or 'nobody'}"
        )
    seeds, policy_seeds = of_games(generator(seed, "scenario"), episodes * samples, samples)
    seats = len(scenario.focal)
    by_shift: dict[int, list[int]] = {}
    for number in range(episodes * samples):
        by_shift.setdefault(number // samples * seats % len(team), []).append(number)
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
    """The score of episodes that were played in the scenario from this seed.

    Raises RolloutError where every episode failed, and as `solved` does.
    """
    scores = tuple(_episode_score(scenario, episode) for episode in played)
    focal_returns = [one.focal_return for one in scores if one.focal_return is not None]
    if not focal_returns:
        raise RolloutError(
            f"every episode of {scenario.name} failed; the first: {played[0].failure}"
        )
    good = [episode for episode in played if episode.failure is None]
    steps = [s for episode in good for agent in scenario.focal for s in episode.steps_of(agent)]
    background = [one.background_return for one in scores if one.background_return is not None]
    reported = {name for one in scores for name in one.outcomes}
    focal = {episode.seats[agent]: None for episode in played for agent in scenario.focal}
    ends = [episode.end_of(scenario.focal[0]) for episode in good]
    is_task = len(scenario.focal) == 1 and "problem" in ends[0]
    return ScenarioScore(
        scenario=scenario,
        focal=tuple(focal),
        seed=seed,
        episodes=scores,
        focal_return=float(np.mean(focal_returns)),
        focal_interval=bootstrap_interval(
            focal_returns,
            seed,
            [asked(end, episode.seed) for end, episode in zip(ends, good, strict=True)],
        ),
        background_return=_mean(background),
        parse_failures=parse_failures(steps),
        cooperation_rate=cooperation_rate(steps),
        outcomes={
            name: float(np.mean([one.outcomes[name] for one in scores if name in one.outcomes]))
            for name in (*AT_THE_END, *SUMMED, *JUDGED)
            if name in reported
        },
        solved=solved(scenario, played, seed, pass_at) if is_task or pass_at else None,
    )


def _episode_score(scenario: Scenario, episode: Episode) -> EpisodeScore:
    returns = episode.returns()
    whole = episode.failure is None
    return EpisodeScore(
        seed=episode.seed,
        seats=dict(episode.seats),
        returns=returns,
        focal_return=_mean([returns[agent] for agent in scenario.focal]) if whole else None,
        background_return=_mean([returns[s] for s in scenario.background]) if whole else None,
        outcomes=_outcomes(scenario, episode) if whole else {},
        failure=episode.failure,
    )


def _outcomes(scenario: Scenario, episode: Episode) -> dict[str, float]:
    """What the infos of the focal agents report of this episode."""
    steps = {agent: episode.steps_of(agent) for agent in scenario.focal}
    last = {agent: episode.end_of(agent) for agent in steps}
    found: dict[str, float] = {}
    for name in AT_THE_END:
        reported = [info[name] for info in last.values() if info.get(name) is not None]
        if reported:
            found[name] = float(np.mean(reported))
    for name in SUMMED:
        totals = [
            sum(step.info[name] for step in own if name in step.info) for own in steps.values()
        ]
        if any(name in step.info for own in steps.values() for step in own):
            found[name] = float(np.mean(totals))
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
    """The same in dicts and lists alone."""
    if is_dataclass(value):
        return _plain(vars(value))
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value
