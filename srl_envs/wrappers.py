"""Wrappers around any PettingZoo ParallelEnv."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from operator import index
from typing import Any, TypedDict

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import BaseParallelWrapper
from pettingzoo.utils.conversions import (
    aec_to_parallel,
    turn_based_aec_to_parallel,
    turn_based_aec_to_parallel_wrapper,
)

from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import (
    LISTED,
    TO_MOVE,
    ParseFailure,
    SpacesOfAgents,
    TextAction,
    any_of,
    cost_of_unread,
    in_words,
    parse_choice,
)
from srl_envs.validation import (
    Reset,
    Step,
    asks_nothing,
    number_between,
    shown,
    true_or_false,
    whole_number,
)

PASS = "pass"
"""Answer, and action 0, of an agent in a turn-based game while another one is to move."""
MASK = "action_mask"

Describe = Callable[[str, Any], str]
"""Function (agent, observation in the game with text) -> description."""


def with_text(
    env: Any,
    *,
    rules: str | Mapping[str, str],
    answers: Sequence[str] | Mapping[str, Sequence[str]],
    describe: Describe | None = None,
    default_action: int | None = None,
    parse_penalty: float = 0.1,
    tells_time: bool = False,
) -> GameWithText:
    """Add a text view to any PettingZoo game with Discrete actions.

    Args:
        env: A ParallelEnv, or an AECEnv, which PettingZoo's own conversion makes parallel. See
            GameWithText for turn-based games.
        rules: Rules, for all agents or by agent. The form of an answer is added.
        answers: One answer per action in action order, for all agents or by agent.
        describe: Function (agent, observation) -> text. By default observations are described from
            their space (srl_envs.text.in_words).
        default_action: Action for an answer that cannot be read, by default 0; if it is illegal,
            the first legal action. Turn-based games have none.
        parse_penalty: Amount subtracted from the shaped reward for such an answer.
        tells_time: Whether the descriptions contain the remaining time. If not, PPO treats a
            truncated episode as one that could have continued.

    Raises:
        EnvConfigError: An argument does not fit the game, or an answer cannot be read back.
    """
    if not isinstance(env, AECEnv | ParallelEnv):
        raise EnvConfigError(f"{env!r} is no PettingZoo game: give a ParallelEnv or an AECEnv")
    game = env
    if isinstance(env, AECEnv):
        in_cycles = env.metadata.get("is_parallelizable", False)
        game = aec_to_parallel(env) if in_cycles else turn_based_aec_to_parallel(env)
    in_turns = _takes_turns(game)
    if in_turns and default_action is not None:
        raise EnvConfigError(
            f"default_action is {default_action!r}: in a turn-based game a pass is the default"
        )
    agents = list(game.possible_agents)
    penalty = number_between("parse_penalty", parse_penalty, 0.0)
    rules_of, answers_of = _for_each(agents, "rules", rules), _for_each(agents, "answers", answers)
    said, choices, describers, observed = {}, {}, {}, {}
    for agent in agents:
        choices[agent] = _choices(game.action_space(agent), agent, answers_of[agent], in_turns)
        introduction = _introduction(agent, rules_of[agent], choices[agent], in_turns)
        said[agent] = introduction + cost_of_unread(penalty)
        space = game.observation_space(agent)
        masked = isinstance(space, spaces.Dict) and MASK in space.spaces
        if masked or in_turns:
            parts = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
            mask = spaces.Box(0, 1, (len(choices[agent]),), np.int8)
            space = spaces.Dict({**parts, MASK: mask})
        observed[agent] = space
        if describe is None:
            _seen(space, agent, space.sample())  # raises for a space that has no description
        describers[agent] = describe or partial(_seen, space)
    view = ThirdPartyView(
        said=said,
        choices=choices,
        describers=describers,
        default_action=whole_number(
            "default_action", default_action or 0, 0, min(map(len, choices.values())) - 1
        ),
        parse_penalty=penalty,
        in_turns=in_turns,
        tells_time=true_or_false("tells_time", tells_time),
    )
    return GameWithText(game, view, observed)


@dataclass(frozen=True)
class ThirdPartyView:
    """The TextView that with_text makes; every mapping is from agents."""

    said: Mapping[str, str]
    choices: Mapping[str, tuple[str, ...]]
    describers: Mapping[str, Describe]
    default_action: int
    parse_penalty: float
    in_turns: bool
    tells_time: bool

    def rules(self, agent: str) -> str:
        """Return the agent's name, the rules as given, and the form of an answer."""
        return self.said[agent]

    def describe(self, agent: str, observation: Any) -> str:
        """Return the observation in words, with the legal answers if it contains a mask."""
        words = self.describers[agent](agent, observation)
        if not isinstance(observation, Mapping) or MASK not in observation:
            return words
        choices, mask = self.choices[agent], observation[MASK]
        legal = [choice for choice, free in zip(choices, mask, strict=True) if free]
        if self.in_turns and mask[0]:
            return f"{words}\nIt is not your turn: write '{PASS}'."
        if len(legal) + self.in_turns < len(choices):
            return f"{words}\nYou may choose: {', '.join(legal)}."
        return words

    def answers(self, agent: str) -> tuple[str, ...]:
        """Return the answers in action order."""
        return self.choices[agent]

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        """Return the action that an answer names. Never raises."""
        return parse_choice(answer, self.choices[agent])

    def legal(self, action: int, mask: Any) -> int:
        """Return the action, the default action, or the first legal one that the mask allows."""
        allowed = next((act for act in (action, self.default_action) if mask[act]), None)
        return int(np.argmax(mask)) if allowed is None else allowed


class GameWithText(SpacesOfAgents, BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """A third party's game with a `text_view`; `env` is the game, as a ParallelEnv. See with_text.

    Actions count from 0. Every info has an int8 "action_mask", which is also in the observation
    if the game has one there. An action that the mask forbids counts as the default action, or
    as the first legal one if that is forbidden too; `infos[agent]["illegal"]` is then True.

    In a game in which agents take turns, action 0 is a pass and the game's own actions follow. An
    agent that is not to move may only pass, and the agent to move may not (a pass or an unread
    answer plays the first legal move). Infos have "to_move": the rollout plays the pass of an agent
    that is not to move without a policy. Observations are `{"observation": ..., "action_mask":
    ...}`, or the game's own Dict with that mask in it.

    Raises:
        EnvError: An agent is missing or unknown, an action is outside the space, or the game leaves
            an agent no legal action.
    """

    def __init__(
        self, env: Any, view: ThirdPartyView, observed: Mapping[str, spaces.Space[Any]]
    ) -> None:
        super().__init__(env)
        self.text_view = view
        own = env.metadata
        self.metadata = {**own, "name": own.get("name") or type(env.unwrapped).__name__}
        self.render_mode: str | None = getattr(env, "render_mode", None)
        self.possible_agents: list[str] = list(env.possible_agents)
        self.agents: list[str] = []
        self.action_spaces = {
            agent: spaces.Discrete(len(view.choices[agent])) for agent in self.possible_agents
        }
        self.observation_spaces = dict(observed)
        self._masks: dict[str, np.ndarray] = {}

    @property
    def unwrapped(self) -> GameWithText:
        """The game with its text view: the game in `env` has none."""
        return self

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode of the game."""
        observations, infos = self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        return self._outgoing(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one round with one action per agent."""
        if asks_nothing(bool(self._masks), self.agents, actions):
            return {}, {}, {}, {}, {}
        chosen = {}
        for agent, action in actions.items():
            if not self.action_spaces[agent].contains(action):
                raise EnvError(
                    f"action {action!r} of {agent} is outside {self.action_spaces[agent]}"
                )
            chosen[agent] = index(action)
        played = {
            agent: self.text_view.legal(action, self._masks[agent])
            for agent, action in chosen.items()
        }
        first = 1 if self.text_view.in_turns else 0
        observations, rewards, terminations, truncations, infos = self.env.step(
            {
                agent: int(self.env.action_space(agent).start) + action - first
                for agent, action in played.items()
            }
        )
        self.agents = list(self.env.agents)
        seen, told = self._outgoing(observations, infos)
        for agent, info in told.items():
            info["illegal"] = played.get(agent) != chosen.get(agent)
        return (
            seen,
            {agent: float(reward) for agent, reward in rewards.items()},
            {agent: bool(ended) for agent, ended in terminations.items()},
            {agent: bool(ended) for agent, ended in truncations.items()},
            told,
        )

    def _outgoing(
        self, observations: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]
    ) -> Reset:
        """Return copies with masks: games return objects that they change later, or share."""
        seen: dict[str, Any] = {}
        told: dict[str, dict[str, Any]] = {}
        for agent, given in observations.items():
            observation = seen[agent] = copy.deepcopy(given)
            info = copy.deepcopy(dict(infos.get(agent, {})))
            mask = self._masks[agent] = self._mask(agent, observation, info)
            space = self.observation_spaces[agent]
            if isinstance(space, spaces.Dict) and MASK in space.spaces:
                if not isinstance(observation, dict):
                    observation = {"observation": observation}
                seen[agent] = {**observation, MASK: mask.copy()}
            told[agent] = {**info, MASK: mask.copy()}
            if self.text_view.in_turns:
                told[agent][TO_MOVE] = agent in self.agents and not mask[0]
        return seen, told

    def _mask(self, agent: str, observation: Any, info: Mapping[str, Any]) -> np.ndarray:
        held = observation if isinstance(observation, Mapping) and MASK in observation else info
        count = self.action_spaces[agent].n
        if self.text_view.in_turns:
            to_move = self.env.aec_env.agent_selection if self.agents else None
            mask = np.zeros(count, np.int8)
            mask[1:] = held.get(MASK, 1) if agent == to_move else 0
            mask[0] = agent != to_move
        else:
            mask = np.array(held.get(MASK, np.ones(count)), np.int8)
        if not mask.any():
            if agent in self.agents:
                raise EnvError(f"{agent} is to act, and the game's mask leaves no legal action")
            mask[:] = 1  # the agent's episode is over
        return mask


def _takes_turns(game: Any) -> bool:
    """Return True if PettingZoo's conversion of a turn-based game is under the wrappers."""
    while game is not None and not isinstance(game, turn_based_aec_to_parallel_wrapper):
        game = vars(game).get("env")
    return game is not None


def _for_each(agents: Sequence[str], what: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(agents, given)
    if set(given) != set(agents):
        who = sorted(map(str, given))
        raise EnvConfigError(f"{what} are for {who}, and the agents are {sorted(agents)}")
    return given


def _choices(
    space: spaces.Space[Any], agent: str, answers: Sequence[str], in_turns: bool
) -> tuple[str, ...]:
    """Return the agent's answers in action order, a pass first if agents take turns."""
    if not isinstance(space, spaces.Discrete):
        raise EnvConfigError(f"{agent} acts in {space}: only Discrete actions can be answers")
    listed = isinstance(answers, Sequence) and not isinstance(answers, str)
    if not listed or len(answers) != space.n or not all(isinstance(one, str) for one in answers):
        raise EnvConfigError(
            f"answers for {agent} are {shown(answers)}: give a list of texts, one for each of its "
            f"{space.n} actions"
        )
    choices = (PASS, *answers) if in_turns else tuple(answers)
    for action, choice in enumerate(choices):
        if parse_choice(choice, choices) != action:
            raise EnvConfigError(
                f"answer {choice!r} for {agent} cannot be read back: give other, distinct words"
            )
    return choices


def _introduction(agent: str, rules: str, choices: Sequence[str], in_turns: bool) -> str:
    moves = choices[1:] if in_turns else choices
    named = "" if len(moves) > LISTED else f": {any_of(moves) if len(moves) > 1 else moves[0]}"
    said = f"You are {agent}. {rules.strip()}\nWrite your choice alone on the last line{named}."
    if not in_turns:
        return said
    return (
        f"{said}\nOn your turn '{PASS}', or what cannot be read, plays the first move that is "
        "allowed."
    )


def _seen(space: spaces.Space[Any], agent: str, observation: Any) -> str:
    """Describe an observation of `space` without its mask."""
    if isinstance(space, spaces.Dict) and MASK in space.spaces:
        parts = {key: part for key, part in space.spaces.items() if key != MASK}
        space = spaces.Dict(parts)
        if list(parts) == ["observation"]:
            space, observation = parts["observation"], observation["observation"]
    return f"You see:{in_words(space, observation, f'the observation of {agent}')}"


class RewardContext(TypedDict):
    """Context of the output that a reward function rewards."""

    environment: str
    agent: str
    round: int
    """Counted from 0 in every episode."""
    observation: Any
    """Copy of the observation before the action."""
    reward: float
    """The environment's reward of this step."""
    info: Mapping[str, Any]
    """Copy of the agent's info after the step."""


RewardFunction = Callable[[Any, RewardContext], float]
"""Function (model_output, context) -> reward. `model_output` is the answer as written if there is
one (a text environment's action, or the words of an action), else the action."""


class CustomRewards(BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """Any PettingZoo ParallelEnv with rewards from a user's function.

    `reward_function` may be set at any time; None passes the environment's own rewards. These are
    always in `infos[agent]["environment_reward"]`. Exceptions of the function pass unchanged.

    Raises:
        EnvConfigError: `env` is no ParallelEnv, or the function is not callable.
        EnvError: A reward is not a finite number.
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
        """Source of the rewards; None for the environment's own."""
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
        # Copies, because callers may write into observations.
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
                action = actions[agent]
                output = action.text if isinstance(action, TextAction) else action
                reward = self.reward_function(output, context)
                if not isinstance(reward, Real) or not math.isfinite(reward):
                    raise EnvError(
                        f"reward_function gave {shown(reward)} for {agent}: it must give a finite "
                        "number"
                    )
                rewards[agent] = float(reward)
            infos[agent]["environment_reward"] = float(own[agent])
        self._observations, self._round = _copied(observations), self._round + 1
        return observations, rewards, terminations, truncations, infos


def _copied(seen: Any) -> Any:
    # deepcopy alone would take longer than a round of a small game.
    if isinstance(seen, np.ndarray) and seen.dtype != object:
        return seen.copy()
    if isinstance(seen, str):
        return seen
    if type(seen) is dict:
        return {name: _copied(part) for name, part in seen.items()}
    return copy.deepcopy(seen)


class SingleAgentEnv(gymnasium.Env[Any, Any]):
    """Gymnasium environment of the only agent of a PettingZoo ParallelEnv, `game`.

    Raises:
        EnvConfigError: The game has several agents.
    """

    def __init__(self, game: Any) -> None:
        if len(game.possible_agents) != 1:
            raise EnvConfigError(
                f"Gymnasium plays one agent, and the game has {len(game.possible_agents)}: "
                "give num_agents=1, or use it as a PettingZoo environment"
            )
        self.game = game
        [self._agent] = game.possible_agents
        self.metadata = game.metadata
        self.render_mode = game.render_mode
        self.observation_space: spaces.Space[Any] = game.observation_space(self._agent)
        self.action_space: spaces.Space[Any] = game.action_space(self._agent)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; see the game."""
        super().reset(seed=seed)
        observations, infos = self.game.reset(seed=seed, options=options)
        return observations[self._agent], infos[self._agent]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one round."""
        seen, rewards, terminations, truncations, infos = self.game.step({self._agent: action})
        agent = self._agent
        return seen[agent], rewards[agent], terminations[agent], truncations[agent], infos[agent]

    def render(self) -> Any:
        """Return the rendered game."""
        return self.game.render()

    def close(self) -> None:
        """Close the game."""
        self.game.close()


def single_agent_env(name: str, **parameters: Any) -> SingleAgentEnv:
    """Return the environment `name` of the registry for one agent; see registry.make."""
    return SingleAgentEnv(registry.make(name, **parameters))
