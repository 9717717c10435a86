"""Reward functions: your own, or the documented keywords, in place of a game's rewards.

CustomRewards(TextEnv(make("social_trading_v0")), reward_function) is the same game, paid otherwise.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from numbers import Real
from types import MappingProxyType
from typing import Any, TypedDict

import numpy as np
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text.view import TextAction
from srl_envs.validation import Reset, Step, shown


class RewardContext(TypedDict):
    """Context of the output that a reward function rewards."""

    environment: str
    """The environment's metadata name, or its type's where it has none."""
    agent: str
    round: int
    """Counted from 0 in every episode."""
    observation: Any
    """What the agent saw when it chose, a copy."""
    reward: float
    """The environment's own for this step."""
    info: Mapping[str, Any]
    """The agent's info after the step, a copy."""


RewardFunction = Callable[[Any, RewardContext], float]
"""(model_output, context) -> reward. `model_output` is the answer as written where there is one
(a text environment's action, or the words an action carries), else the action."""


class CustomRewards(BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Any PettingZoo ParallelEnv, rewarded by a function of yours; all else is the environment's.

    `reward_function` may be set at any time; with None the environment's own rewards pass. Those
    are always in `infos[agent]["environment_reward"]`. Raises EnvError for a reward that is not a
    finite number, and EnvConfigError for what is no ParallelEnv or no function; what the function
    itself raises passes through.
    """

    def __init__(self, env: Any, reward_function: RewardFunction | None = None) -> None:
        if not isinstance(env, ParallelEnv):
            raise EnvConfigError(f"CustomRewards got {shown(env)}: give a PettingZoo ParallelEnv")
        super().__init__(env)
        self.reward_function = reward_function
        self._observations: dict[str, Any] = {}
        self._round = 0

    @property
    def reward_function(self) -> RewardFunction | None:
        """The source of the rewards; None for the environment's own."""
        return self._reward_function

    @reward_function.setter
    def reward_function(self, function: RewardFunction | None) -> None:
        if function is not None and not callable(function):
            raise EnvConfigError(
                f"reward_function is {shown(function)}: give a function (model_output, context) -> "
                "reward, or None"
            )
        self._reward_function = function

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode."""
        observations, infos = self.env.reset(seed=seed, options=options)
        # Copies, here and below: what is handed out is the caller's to write into.
        self._observations, self._round = _copied(observations), 0
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round."""
        observations, own, terminations, truncations, infos = self.env.step(actions)
        rewards = dict(own)
        for agent in own:
            if self.reward_function is not None and agent in actions:
                context = RewardContext(
                    environment=str(self.metadata.get("name") or type(self.unwrapped).__name__),
                    agent=agent,
                    round=self._round,
                    observation=self._observations[agent],
                    reward=float(own[agent]),
                    info=dict(infos[agent]),
                )
                rewards[agent] = _finite(
                    self.reward_function(_output(actions[agent]), context), agent
                )
            infos[agent]["environment_reward"] = float(own[agent])
        self._observations, self._round = _copied(observations), self._round + 1
        return observations, rewards, terminations, truncations, infos


def _output(action: Any) -> Any:
    return action.text if isinstance(action, TextAction) else action


def _finite(reward: Any, agent: str) -> float:
    try:
        number = float(reward) if isinstance(reward, Real) else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if math.isfinite(number):
        return number
    raise EnvError(
        f"reward_function gave {shown(reward)} for {agent}: it must give a finite number"
    )


def _trading_keywords(answer: str) -> float:
    """2.5 with 'cooperate' or 'trade' in it, else 1.5 with 'compete', else 1."""
    words = answer.casefold()
    if "cooperate" in words or "trade" in words:
        return 2.5
    return 1.5 if "compete" in words else 1.0


def _negotiation_keywords(answer: str) -> float:
    """3 with 'compromise' or 'agree' in it, else 1.3 with 'insist', else 1."""
    words = answer.casefold()
    if "compromise" in words or "agree" in words:
        return 3.0
    return 1.3 if "insist" in words else 1.0


KEYWORD_REWARDS: Mapping[str, Callable[[str], float]] = MappingProxyType(
    {"trading": _trading_keywords, "negotiation": _negotiation_keywords}
)
"""By scenario: the documented reward for an answer's words, wherever in it and whatever they mean
("I disagree" earns the bonus for 'agree'). For comparison; it does not depend on the game."""


def _copied(seen: Any) -> Any:
    """A copy of an observation; deepcopy alone would cost more than a round of a small game."""
    if isinstance(seen, np.ndarray) and seen.dtype != object:
        return seen.copy()
    if isinstance(seen, str):
        return seen
    if type(seen) is dict:
        return {name: _copied(part) for name, part in seen.items()}
    return copy.deepcopy(seen)
