"""Replays of a round's games for credit: what each answer gained against others in its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete

from srl_agents.episode import AgentStep, Episode
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.counterfactuals import Watched, played_instead
from srl_agents.evaluation.replay import replay
from srl_agents.rollout.copies import copied
from srl_envs.errors import EnvError
from srl_train.errors import ConfigError, TrainingError
from srl_train.returns import discounted_return
from srl_train.trajectory import Game


class Replays:
    """Games played again with one answer replaced, the others' actions and chance as they were."""

    def __init__(
        self,
        alternatives: int | None,
        make_env: Callable[[], Any],
        game_of: Callable[[Episode], Game],
        discount: float,
    ) -> None:
        """`alternatives` are how many other actions are tried at most in each turn, None the game's
        default one alone; `game_of` shapes a game's rewards, `discount` is per turn."""
        self._alternatives, self._make_env, self._game_of = alternatives, make_env, game_of
        self._discount = discount
        self.steps = 0
        """Of environments, in replays so far."""

    def with_gains(
        self,
        episodes: Sequence[Episode],
        games: Sequence[Game],
        agents: Collection[str],
        rng: np.random.Generator,
    ) -> list[Game]:
        """The games with the gains of these agents' answers (Trajectory.gains), 0 elsewhere.

        A gain is the shaped reward to go from the answer on, less what it is when the game is
        played again with the default action in its place; or the mean of that over all legal ones,
        of which `rng` draws those that are tried. Raises TrainingError where a game, played again,
        pays otherwise.
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
                next(shown)  # plays the turn before, and compares it with the record
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
                f"this credit.name needs games that can be played again exactly: {error}; give "
                "agent_turn"
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
        """Of the step, in the game's turn `number`, which is the agent's own turn `own`."""
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
        # Less the mean over all legal actions, its own among them.
        return weight * (self._to_go(game, step.agent, own) - sum(instead) / len(instead))

    def _to_go(self, game: Game, agent: str, own: int) -> float:
        return discounted_return(game[agent].shaped[own:], self._discount)


def check_replayable(name: str, env: Any) -> None:
    """Raise ConfigError for an environment, reset, whose games cannot be played again with another
    action; `name` is the setting that asks for it."""
    game = env.metadata["name"]
    if any(not isinstance(env.action_space(agent), Discrete) for agent in env.possible_agents):
        raise ConfigError(
            f"{name}, and the actions of {game} are no numbered choices: there is no other action "
            "to try; give agent_turn"
        )
    check_copies(name, env)


def check_copies(name: str, env: Any) -> None:
    """Raise ConfigError for an environment, reset, that cannot be copied."""
    try:
        copied(env)
    except EnvError as error:
        raise ConfigError(f"{name}, and {error}; compare whole games (agent_turn)") from error
