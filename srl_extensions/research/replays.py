"""Credit from replays: compare each action with other actions at the same step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from srl_agents import seeding
from srl_agents.episode import AgentStep, Episode
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.replay import Watched, copied, played_instead, replay
from srl_envs.errors import EnvError
from srl_train.config.run import RunConfig
from srl_train.credit import (
    SCALE_FLOOR,
    AgentRoles,
    CounterfactualCredit,
    Credit,
    CreditScheme,
    Group,
    normalize_steps,
    per_agent,
)
from srl_train.errors import ConfigError, TrainingError
from srl_train.trajectory import Game, discounted_return


def with_gains(
    env: Any,
    episodes: Sequence[Episode],
    games: Sequence[Game],
    game_of: Callable[[Episode], Game],
    agents: Collection[str],
    *,
    alternatives: int | None,
    discount: float,
    rng: np.random.Generator,
) -> tuple[list[Game], int]:
    """Return `games` (the trajectories of `episodes`) with gains, and the number of replayed steps.

    The gain of an action is its discounted, shaped reward-to-go, minus that of a replay in `env`
    with the default action instead. If `alternatives` is not None, the mean over all legal actions,
    the recorded one included, is subtracted instead. At most `alternatives` others are replayed,
    drawn with `rng`. Gains are 0 for agents not in `agents`, without a query of the policy, and
    without another action. `game_of` builds the trajectories of an episode. Raises TrainingError if
    a replay fails or differs from the record.
    """
    watched, replayed_steps = Watched(env), 0

    def gain(episode: Episode, game: Game, number: int, step: AgentStep) -> float:
        nonlocal replayed_steps
        others = watched.others(step)
        weight = len(others) / (len(others) + 1)
        if alternatives is None:
            default = watched.default(step.agent)
            others, weight = [other for other in others if other == default], 1.0
        elif len(others) > alternatives:
            others = sorted(rng.choice(others, alternatives, replace=False).tolist())
        if not others:
            return 0.0
        before = sum(one.agent == step.agent for turn in episode.turns[:number] for one in turn)
        instead = []
        for action in others:
            turns = played_instead(watched, episode.turns[number:], step.agent, action)
            replayed_steps += len(turns)
            other = game_of(dataclasses.replace(episode, turns=(*episode.turns[:number], *turns)))
            instead.append(discounted_return(other[step.agent].shaped[before:], discount))
        # The mean is over all legal actions, including the chosen one.
        taken = discounted_return(game[step.agent].shaped[before:], discount)
        return weight * (taken - sum(instead) / len(instead))

    found: list[Game] = []
    for episode, game in zip(episodes, games, strict=True):
        gains: dict[str, list[float]] = {agent: [] for agent in game}
        shown = replay(episode, watched)
        try:
            for number, turn in enumerate(episode.turns):
                next(shown)  # replays one step and compares it with the record
                for step in turn:
                    tried = step.agent in agents and step.decision.asked
                    own = gain(episode, game, number, step) if tried else 0.0
                    gains[step.agent].append(own)
            for _ in shown:
                pass
        except (EpisodeError, EnvError) as error:
            raise TrainingError(
                f"this credit.name needs deterministic replays: {error}; use agent_turn"
            ) from error
        replayed_steps += len(episode.turns)
        found.append({a: dataclasses.replace(t, gains=tuple(gains[a])) for a, t in game.items()})
    return found, replayed_steps


def difference(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme of difference rewards, minus their mean over the group at each step.

    D_t = G_t - G_t(default) (Wolpert and Tumer 2002): the shaped reward-to-go of the episode, minus
    that of its replay with the environment's default action at step t. Requires `Trajectory.gains`,
    which are discounted. Divides by the standard deviation of all steps of the agent in the group,
    plus 1e-4, unless `scale` is "none". `section` and `discount` are unused.
    """
    return per_agent(
        lambda group, agent, roles: normalize_steps(
            [game[agent].gains or () for game in group], 0.0, scale
        )
    )


def counterfactual(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme that subtracts the mean over all legal actions of the step, by replays.

    A_t = (G_t - mean over a' of G_t(a')) / (root mean square + 1e-4): the counterfactual advantage
    of COMA (Foerster et al. 2018, eq. 4) with equal weights for all actions, and replays instead of
    a critic. The root mean square is over all steps of the agent in the group; `scale` "none"
    disables the division. Requires `Trajectory.gains`; `section` and `discount` are unused.
    """

    def scaled(group: Group, agent: str, roles: AgentRoles) -> list[list[float]]:
        gains = [list(game[agent].gains or ()) for game in group]
        flat = [gain for own in gains for gain in own]
        if scale == "none" or not any(flat):
            return gains
        size = math.sqrt(math.fsum(gain * gain for gain in flat) / len(flat)) + SCALE_FLOOR
        return [[gain / size for gain in own] for own in gains]

    return per_agent(scaled)


def credit(config: RunConfig, env: Any, scheme: CreditScheme | None) -> Credit:
    """Return a Credit with `scheme` that computes `Trajectory.gains` by replays of each round.

    Resets `env`. Raises ConfigError if `env` cannot be copied, or an action space is not Discrete.
    """
    setting = f"credit.name: got {config.credit.name!r}"
    if any(not isinstance(env.action_space(agent), Discrete) for agent in env.possible_agents):
        raise ConfigError(
            f"{setting}, which tries other actions, but the actions of {env.metadata['name']} are "
            "not Discrete; use agent_turn"
        )
    env.reset(seed=0)
    try:
        copied(env)
    except EnvError as error:
        raise ConfigError(f"{setting}, and {error}; use agent_turn") from error
    section = config.credit
    alternatives = section.alternatives if isinstance(section, CounterfactualCredit) else None

    def replays(
        run: Any, number: int, episodes: Sequence[Episode], games: list[Game]
    ) -> tuple[list[Game], int]:
        with closing(run.make_env()) as env:
            return with_gains(
                env,
                episodes,
                games,
                run.game,
                run.agents_that_learn,
                alternatives=alternatives,
                discount=run.config.rollout.discount,
                rng=seeding.generator(run.config.seed, "credit", number),
            )

    return Credit(scheme, replays)
