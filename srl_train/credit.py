"""Credit assignment: advantages per step from the rewards of whole episodes.

Episodes of a group start from the same seed.

Axes are in the names of arguments: `_ET` is episodes by steps, `_T` is steps.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from srl_agents.episode import Episode
from srl_envs.tables import Plugin, PluginTable
from srl_train.config.section import Section, chosen_by
from srl_train.errors import ConfigError
from srl_train.samples import in_groups
from srl_train.trajectory import Game, discounted_return, rewards_to_go

Group = Sequence[Game]
"""Episodes with the same start, which are compared with each other."""
Advantages = list[dict[str, list[float]]]
"""Per episode of a group: agent to the advantage of each step; unused if not `Decision.asked`."""
CreditState = Mapping[str, float]
"""Numbers that a scheme keeps between rounds, saved in checkpoints; empty before the first
round."""

SCALE_FLOOR = 1e-4
"""Constant added to standard deviations before dividing, as in TRL's GRPOTrainer."""


@dataclasses.dataclass(frozen=True)
class AgentRoles:
    """Teams and leaders among the agents of an environment."""

    agents: Sequence[str]
    """All agents, in the environment's order."""
    teams: Mapping[str, str] | None = None
    """Agent to its team; None if the environment has no teams."""
    leaders: Mapping[str, Collection[str]] = dataclasses.field(default_factory=dict)
    """Leader to the agents that follow it; empty if no agent leads."""

    def team(self, agent: str) -> tuple[str, ...]:
        """Return the agents of the agent's team, itself included; without teams, all agents."""
        teams = self.teams
        return tuple(a for a in self.agents if not teams or teams[a] == teams[agent])


CreditScheme = Callable[
    [Sequence[Group], AgentRoles, CreditState], tuple[list[Advantages], CreditState]
]
"""(groups of a round, roles, state) -> (advantages per group, next state)."""


def assign_credit(
    games: Sequence[Game],
    group_size: int,
    scheme: CreditScheme | None,
    roles: AgentRoles,
    state: CreditState,
) -> tuple[list[Game], CreditState]:
    """Return copies of a round's `games` with advantages on all steps, and the next state.

    `games` has one entry per episode, agent to trajectory, group after group, with `group_size`
    episodes per group. If `scheme` is None, games and state are returned unchanged.
    """
    if scheme is None:
        return list(games), state
    found_by_group, state = scheme(in_groups(games, group_size), roles, state)
    found_by_game = [found for group in found_by_group for found in group]
    return [
        {
            agent: dataclasses.replace(trajectory, advantages=tuple(map(float, found[agent])))
            for agent, trajectory in game.items()
        }
        for game, found in zip(games, found_by_game, strict=True)
    ], state


# Parts that several schemes share, in float64.


def normalize(values: Sequence[float], scale: str) -> list[float]:
    """Return the values minus their mean, divided by (sample standard deviation + SCALE_FLOOR).

    With `scale` "none" they are not divided. Equal values, and a single value, give exact zeros.
    """
    if len(set(values)) < 2:
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    centered = [value - mean for value in values]
    if scale == "none":
        return centered
    deviation = math.sqrt(math.fsum(gap * gap for gap in centered) / (len(values) - 1))
    return [gap / (deviation + SCALE_FLOOR) for gap in centered]


def normalize_steps(
    rewards_ET: Sequence[Sequence[float]], discount: float, scale: str
) -> list[list[float]]:
    """Return each step's reward-to-go minus its mean over the episodes that have that step.

    With `scale` "group" all values are divided by SCALE_FLOOR plus the standard deviation of all
    centered values, where a step of n episodes has n - 1 degrees of freedom.

    Args:
        rewards_ET: Rewards per episode and step; episodes may differ in length.
        discount: Discount per step.
        scale: "group" or "none".
    """
    to_go = [rewards_to_go(rewards, discount) for rewards in rewards_ET]
    advantages: list[list[float]] = [[] for _ in to_go]
    freedom = 0
    for step in range(max(map(len, to_go), default=0)):
        present = [number for number, values in enumerate(to_go) if step < len(values)]
        freedom += len(present) - 1
        centered = normalize([to_go[number][step] for number in present], "none")
        for number, value in zip(present, centered, strict=True):
            advantages[number].append(value)
    if scale == "none" or not freedom:
        return advantages
    squares = math.fsum(value * value for values in advantages for value in values)
    deviation = math.sqrt(squares / freedom) + SCALE_FLOOR
    return [[value / deviation for value in values] for values in advantages]


def episode_returns(group: Group, agent: str, discount: float) -> dict[int, float]:
    """Return index of an episode in the group -> the agent's discounted sum of shaped rewards.

    Episodes in which the agent has no step are missing.
    """
    return {
        number: discounted_return(game[agent].shaped, discount)
        for number, game in enumerate(group)
        if game[agent].steps
    }


def on_all_steps(group: Group, scores: Mapping[str, Mapping[int, float]]) -> Advantages:
    """Return Advantages in which all steps of an agent in an episode have the same value.

    `scores` is agent to index of an episode in the group to the value, 0 if missing.
    """
    return [
        {
            agent: [by_episode.get(number, 0.0)] * len(game[agent].steps)
            for agent, by_episode in scores.items()
        }
        for number, game in enumerate(group)
    ]


def environment_of(game: Game) -> str:
    """Return the label of an episode's environment in multitask_v0; "" in other runs."""
    return next(iter(game.values())).environment


def per_group(advantages: Callable[[Group, AgentRoles], Advantages]) -> CreditScheme:
    """Return the scheme that calls `advantages(group, roles)` for each group, without a state."""
    return lambda groups, roles, state: ([advantages(group, roles) for group in groups], state)


def per_agent(advantages: Callable[[Group, str, AgentRoles], list[list[float]]]) -> CreditScheme:
    """Return the scheme that calls `advantages(group, agent, roles)` for each agent and group.

    The function returns a list per episode with an advantage per step. The scheme has no state.
    """

    def scheme(group: Group, roles: AgentRoles) -> Advantages:
        found = {agent: advantages(group, agent, roles) for agent in roles.agents}
        return [{agent: own[game] for agent, own in found.items()} for game in range(len(group))]

    return per_group(scheme)


# The schemes: functions (section, discount, scale) -> scheme, as CREDIT_SCHEMES describes.


def agent_turn(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme that compares each step's reward-to-go with the group's at that step.

    A_t = (G_t - mean of the group's G_t) / (standard deviation + 1e-4), with one deviation for all
    steps of an agent in a group. `scale` "none" omits the division. G_t sums shaped rewards from
    step t on, discounted per step. Unlike in AT-GRPO (Zhao et al. 2025), prompts of compared steps
    may differ. `section` has no effect.
    """
    return per_agent(
        lambda group, agent, roles: normalize_steps(
            [game[agent].shaped for game in group], discount, scale
        )
    )


def team_joint(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme that compares a team's mean return over the episodes of a group.

    A = (R - mean of the group's R) / (standard deviation of R + 1e-4), for all steps of all agents
    of the team (without teams: all agents). R is the mean discounted shaped return of those agents
    that have a step; MAGRPO (Liu et al. 2025) has their sum. `scale` "none" omits the division, and
    `section` has no effect.
    """

    def scheme(group: Group, roles: AgentRoles) -> Advantages:
        returns = {agent: episode_returns(group, agent, discount) for agent in roles.agents}
        scores: dict[str, dict[int, float]] = {}
        for agent in roles.agents:
            team = roles.team(agent)
            if team[0] in scores:
                scores[agent] = scores[team[0]]
                continue
            joint: dict[int, float] = {}
            for number in range(len(group)):
                present = [returns[mate][number] for mate in team if number in returns[mate]]
                if present:
                    joint[number] = math.fsum(present) / len(present)
            values = normalize(list(joint.values()), scale)
            scores[agent] = dict(zip(joint, values, strict=True))
        return on_all_steps(group, scores)

    return per_group(scheme)


def leave_one_out(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme of RLOO (Ahmadian et al. 2024, sec. 3.2; Kool et al. 2019).

    The advantage, equal for all steps of an agent in an episode, is its discounted shaped return
    minus its mean return in the group's other episodes. It is 0 for an agent with steps in only one
    episode of the group. `section` and `scale` have no effect.
    """

    def scores(returns: dict[int, float]) -> dict[int, float]:
        if len(set(returns.values())) < 2:
            return dict.fromkeys(returns, 0.0)
        total, others = math.fsum(returns.values()), len(returns) - 1
        return {number: value - (total - value) / others for number, value in returns.items()}

    return per_group(
        lambda group, roles: on_all_steps(
            group, {a: scores(episode_returns(group, a, discount)) for a in roles.agents}
        )
    )


def whole_round(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme that compares an agent's return with its returns in the whole round.

    A = (R - mean R) / (standard deviation of R + 1e-4), equal for all steps of an episode, per
    agent and environment of multitask_v0 (REINFORCE++, Hu 2025, eq. 7). R is the discounted shaped
    return. `scale` "none" omits the division, `section` has no effect.
    """

    def scheme(
        groups: Sequence[Group], roles: AgentRoles, state: CreditState
    ) -> tuple[list[Advantages], CreditState]:
        scores: list[dict[str, dict[int, float]]] = [{a: {} for a in roles.agents} for _ in groups]
        for agent in roles.agents:
            played: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
            for index, group in enumerate(groups):
                for number, value in episode_returns(group, agent, discount).items():
                    played[environment_of(group[number])].append((index, number, value))
            for same in played.values():
                values = normalize([value for *_, value in same], scale)
                for (index, number, _), value in zip(same, values, strict=True):
                    scores[index][agent][number] = value
        return [on_all_steps(*each) for each in zip(groups, scores, strict=True)], state

    return scheme


CREDIT_SCHEMES = PluginTable(
    "core_srl.credit_schemes",
    {
        "per_agent": Plugin(lambda section, discount, scale: None),
        "leave_one_out": Plugin(leave_one_out),
        "agent_turn": Plugin(agent_turn),
        "team_joint": Plugin(team_joint),
        "round": Plugin(whole_round),
        "difference": Plugin("srl_extensions.research.replays:difference"),
        "role": Plugin("srl_extensions.research.schemes:role"),
        "counterfactual": Plugin("srl_extensions.research.replays:counterfactual"),
    },
    ConfigError,
)
"""Name to a function from (section `credit`, discount per step, scale) to the scheme.

The scale is `algorithm.scale_rewards`. The result None leaves advantages to TRL, which compares
episode returns (GRPO).
"""


# Configuration.


class CreditSection(Section):
    """Base class of the settings of a credit scheme."""

    CHOICE: ClassVar = "name"


WITH_SETTINGS = ("role", "counterfactual")
if TYPE_CHECKING:
    PlainName = str
else:
    PlainName = Literal[tuple(name for name in CREDIT_SCHEMES if name not in WITH_SETTINGS)]


class PlainCredit(CreditSection):
    """Section `credit` for schemes without settings, and schemes of installed packages."""

    name: PlainName = "per_agent"
    """Credit scheme (docs/training/credit.md)."""


class RoleCredit(CreditSection):
    """Settings of the scheme that compares returns with a moving average per role."""

    name: Literal["role"] = "role"
    """Credit scheme (docs/training/credit.md)."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Weight of a role's previous average at each episode, 0 to 1."""


class CounterfactualCredit(CreditSection):
    """Settings of the scheme that compares an answer with replays of the agent's other actions."""

    name: Literal["counterfactual"] = "counterfactual"
    """Credit scheme (docs/training/credit.md)."""
    alternatives: Annotated[int, Field(ge=1)] = 3
    """Maximum number of other legal actions per answer, drawn at random if there are more; each is
    a replay of the rest of the episode."""


CreditConfig = Annotated[
    PlainCredit | RoleCredit | CounterfactualCredit,
    Field(discriminator="name"),
    chosen_by("name", "per_agent"),
]


# Schemes with hooks.


@dataclasses.dataclass(frozen=True)
class Credit:
    """Credit assignment of a run: a scheme, and a hook for schemes that replay episodes."""

    scheme: CreditScheme | None = None
    """The scheme; None leaves advantages to the learner."""
    replay: Callable[[Any, int, Sequence[Episode], list[Game]], tuple[list[Game], int]] = (
        lambda run, number, episodes, games: (games, 0)
    )
    """(run, round number, complete episodes, their trajectories) -> (trajectories with
    `Trajectory.gains`, number of replayed steps); by default (same, 0). Called before `scheme`."""


CREDIT_HOOKS = PluginTable(
    "core_srl.credit",
    {
        "difference": Plugin("srl_extensions.research.replays:credit", "replays"),
        "counterfactual": Plugin("srl_extensions.research.replays:credit", "replays"),
    },
    ConfigError,
)
"""Name to a function from (configuration, environment, scheme) to the `Credit` of a run, which
raises ConfigError for an unsuitable environment."""
