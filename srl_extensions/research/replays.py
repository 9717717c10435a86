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
from srl_train.trajectory import Game, Trajectory, discounted_return


class Replays:
    """Replay of episodes with one action replaced, and all other actions and random draws equal.

    Args:
        alternatives: Maximum number of other actions per step; None tries the environment's default
            action only.
        make_env: Function that makes the environment.
        game_of: Function from an episode to its shaped trajectories.
        discount: Discount per step.
    """

    def __init__(
        self,
        alternatives: int | None,
        make_env: Callable[[], Any],
        game_of: Callable[[Episode], Game],
        discount: float,
    ) -> None:
        self._alternatives, self._make_env, self._game_of = alternatives, make_env, game_of
        self._discount = discount
        self.steps = 0
        """Number of replayed environment steps so far."""

    def with_gains(
        self,
        episodes: Sequence[Episode],
        games: Sequence[Game],
        agents: Collection[str],
        rng: np.random.Generator,
    ) -> list[Game]:
        """Return the trajectories with the gains of these agents' actions; 0 for other agents.

        The gain of an action is its shaped reward to go minus the reward to go of a replay with the
        default action, or the mean over replays with legal actions drawn from `rng`.

        Raises:
            TrainingError: If a replay of the recorded actions gives other rewards.
        """
        with closing(self._make_env()) as env:
            return [
                self._gained(episode, game, agents, env, rng)
                for episode, game in zip(episodes, games, strict=True)
            ]

    def _gained(
        self,
        episode: Episode,
        game: Game,
        agents: Collection[str],
        env: Any,
        rng: np.random.Generator,
    ) -> Game:
        gains = {agent: [0.0] * len(own.steps) for agent, own in game.items()}
        watched = Watched(env)
        shown = replay(episode, watched)
        try:
            for number, turn in enumerate(episode.turns):
                next(shown)  # replays one step and compares it with the record
                for step in turn:
                    if step.agent in agents and step.decision.asked:
                        own = episode.steps_before(step.agent, number)
                        gains[step.agent][own] = self._gain(
                            episode, game, number, own, step, watched, rng
                        )
            for _ in shown:
                pass
        except (EpisodeError, EnvError) as error:
            raise TrainingError(
                f"this credit.name needs deterministic replays: {error}; use agent_turn"
            ) from error
        self.steps += len(episode.turns)
        return {
            agent: dataclasses.replace(own, gains=tuple(gains[agent]))
            for agent, own in game.items()
        }

    def _gain(
        self,
        episode: Episode,
        game: Game,
        number: int,
        own: int,
        step: AgentStep,
        watched: Watched,
        rng: np.random.Generator,
    ) -> float:
        """Compute the gain of `step`: step `number` of the episode, `own` of the agent."""
        others = watched.others(step)
        weight = len(others) / (len(others) + 1)
        if self._alternatives is None:
            default = watched.default(step.agent)
            others, weight = [other for other in others if other == default], 1.0
        elif len(others) > self._alternatives:
            others = sorted(rng.choice(others, self._alternatives, replace=False).tolist())
        if not others:
            return 0.0
        instead = []
        for action in others:
            turns = played_instead(watched, episode.turns[number:], step.agent, action)
            self.steps += len(turns)
            other = dataclasses.replace(episode, turns=(*episode.turns[:number], *turns))
            instead.append(self._to_go(self._game_of(other), step.agent, own))
        # The mean is over all legal actions, including the chosen one.
        return weight * (self._to_go(game, step.agent, own) - sum(instead) / len(instead))

    def _to_go(self, game: Game, agent: str, own: int) -> float:
        return discounted_return(game[agent].shaped[own:], self._discount)


def difference(scale: str) -> CreditScheme:
    """Return the scheme of difference rewards, compared within the group as in `agent_turn`.

    D_t = G_t - G_t(default) (Wolpert and Tumer 2002): the shaped reward-to-go of the episode, minus
    that of its replay with the environment's default action at step t. Requires `Trajectory.gains`.
    """
    return per_agent(
        lambda group, agent, roles: normalize_steps(
            [_gains(game[agent]) for game in group], 0.0, scale
        )
    )


def counterfactual(scale: str) -> CreditScheme:
    """Return the scheme that subtracts the mean over all legal actions of the step, by replays.

    A_t = (G_t - mean over a' of G_t(a')) / (root mean square + 1e-4): the counterfactual advantage
    of COMA (Foerster et al. 2018, eq. 4) with equal weights for all actions, and replays instead
    of a critic. The root mean square is over all steps of the agent in the group. Requires
    `Trajectory.gains`.
    """

    def scaled(group: Group, agent: str, roles: AgentRoles) -> list[list[float]]:
        gains = [list(_gains(game[agent])) for game in group]
        flat = [gain for own in gains for gain in own]
        if scale == "none" or not any(flat):
            return gains
        size = math.sqrt(math.fsum(gain * gain for gain in flat) / len(flat)) + SCALE_FLOOR
        return [[gain / size for gain in own] for own in gains]

    return per_agent(scaled)


def _gains(trajectory: Trajectory) -> tuple[float, ...]:
    if trajectory.gains is None:
        raise ValueError(f"{trajectory.agent}'s episode was not replayed")
    return trajectory.gains


def build_difference(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme of `credit.name: difference` (CREDIT_SCHEMES)."""
    return difference(scale)


def build_counterfactual(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme of `credit.name: counterfactual` (CREDIT_SCHEMES)."""
    return counterfactual(scale)


def credit(config: RunConfig, env: Any, scheme: CreditScheme | None) -> Credit:
    """Return a scheme with gains from replays of each round's episodes.

    Raises:
        ConfigError: If the environment cannot be copied, or has actions other than choices.
    """
    name = env.metadata["name"]
    setting = f"credit.name: got {config.credit.name!r}"
    if any(not isinstance(env.action_space(agent), Discrete) for agent in env.possible_agents):
        raise ConfigError(
            f"{setting}, which tries other actions, but the actions of {name} are not Discrete; "
            "use agent_turn"
        )
    check_copies(setting, env)
    section = config.credit
    alternatives = section.alternatives if isinstance(section, CounterfactualCredit) else None

    def replay(
        run: Any, number: int, episodes: Sequence[Episode], games: list[Game]
    ) -> tuple[list[Game], int]:
        replays = Replays(alternatives, run.make_env, run.game, run.config.rollout.discount)
        rng = seeding.generator(run.config.seed, "credit", number)
        return replays.with_gains(episodes, games, run.agents_that_learn, rng), replays.steps

    return Credit(scheme, replay)


def check_copies(setting: str, env: Any) -> None:
    """Reset the environment; raise ConfigError if it cannot be copied within an episode."""
    env.reset(seed=0)
    try:
        copied(env)
    except EnvError as error:
        raise ConfigError(f"{setting}, and {error}; use agent_turn") from error
