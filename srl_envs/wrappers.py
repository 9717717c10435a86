"""Wrappers for PettingZoo ParallelEnvs: text views, custom rewards, Gymnasium's interface."""

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
    ANSWER_LENGTH,
    LISTED,
    TO_MOVE,
    ParseFailure,
    SpacesOfAgents,
    TextAction,
    any_of,
    cost_of_unread,
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
"""Answer of action 0 in turn-based games, for agents that are not to move."""
MASK = "action_mask"
MOST_NUMBERS = 256  # An observation with more numbers needs a description by the user.

Describe = Callable[[str, Any], str]
"""Function (agent, observation) -> description."""


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
    """Add a text view to a PettingZoo game with Discrete actions.

    Args:
        env: A ParallelEnv, or an AECEnv, which PettingZoo's conversion makes parallel. See
            GameWithText for turn-based games.
        rules: Rules, for all agents or by agent. The agent and the form of an answer are added.
        answers: One answer per action in action order, for all agents or by agent, without a pass.
        describe: Function (agent, observation) -> text; None uses `in_words`.
        default_action: Action for an answer that names no legal action, or the first legal one if
            this is illegal. None for 0. Must be None for turn-based games.
        parse_penalty: Reward that such an answer costs, at least 0.
        tells_time: True if descriptions contain the remaining time. If False, PPO treats a
            truncated episode as one that could have continued.

    Returns:
        The game, as a ParallelEnv with a `text_view`.

    Raises:
        EnvConfigError: An argument does not fit the game, or an answer is not parsed as its action.
    """
    if not isinstance(env, AECEnv | ParallelEnv):
        raise EnvConfigError(f"env must be a PettingZoo ParallelEnv or AECEnv, got {env!r}")
    game = env
    if isinstance(env, AECEnv):
        in_cycles = env.metadata.get("is_parallelizable", False)
        game = aec_to_parallel(env) if in_cycles else turn_based_aec_to_parallel(env)
    in_turns = _takes_turns(game)
    if in_turns and default_action is not None:
        raise EnvConfigError(
            f"default_action must be None for a turn-based game, got {default_action!r}"
        )
    agents = list(game.possible_agents)
    answers_of = _for_each(agents, "answers", answers)
    choices, observed = {}, {}
    for agent in agents:
        actions = game.action_space(agent)
        choices[agent] = _checked_answers(actions, agent, answers_of[agent], in_turns)
        space = game.observation_space(agent)
        masked = isinstance(space, spaces.Dict) and MASK in space.spaces
        if masked or in_turns:
            parts = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
            mask = spaces.Box(0, 1, (len(choices[agent]),), np.int8)
            space = spaces.Dict({**parts, MASK: mask})
        observed[agent] = space
        if describe is None:
            _seen(observed, agent, space.sample())  # Raises for a space without description.
    view = ThirdPartyView(
        rules_of=_for_each(agents, "rules", rules),
        choices=choices,
        describer=describe or partial(_seen, observed),
        default_action=whole_number(
            "default_action", default_action or 0, 0, min(map(len, choices.values())) - 1
        ),
        parse_penalty=number_between("parse_penalty", parse_penalty, 0.0),
        in_turns=in_turns,
        tells_time=true_or_false("tells_time", tells_time),
    )
    return GameWithText(game, view, observed)


@dataclass(frozen=True)
class ThirdPartyView:
    """TextView of `with_text`. Mappings are by agent; `choices` start with PASS if `in_turns`."""

    rules_of: Mapping[str, str]
    choices: Mapping[str, tuple[str, ...]]
    describer: Describe
    default_action: int
    parse_penalty: float
    in_turns: bool
    tells_time: bool

    def rules(self, agent: str) -> str:
        moves = self.choices[agent][1 if self.in_turns else 0 :]
        named = "" if len(moves) > LISTED else f": {any_of(moves) if moves[1:] else moves[0]}"
        text = f"You are {agent}. {self.rules_of[agent].strip()}\n"
        text += f"Write your choice alone on the last line{named}."
        if self.in_turns:
            text += f"\nOn your turn '{PASS}', or what cannot be read, plays the first move that "
            text += "is allowed."
        return text + cost_of_unread(self.parse_penalty)

    def describe(self, agent: str, observation: Any) -> str:
        words = self.describer(agent, observation)
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
        return self.choices[agent]

    def parse(self, agent: str, answer: str) -> int | ParseFailure:
        return parse_choice(answer, self.choices[agent])

    def legal(self, action: int, mask: Any) -> int:
        """Return `action` if the mask allows it, else the default action, else the first legal."""
        allowed = next((act for act in (action, self.default_action) if mask[act]), None)
        return int(np.argmax(mask)) if allowed is None else allowed


class GameWithText(SpacesOfAgents, BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """PettingZoo ParallelEnv with the text view of `with_text`; `env` is the game without it.

    Actions are numbered from 0. `infos[agent]["action_mask"]` is an int8 mask, which is also in the
    observation if the game has it there. An illegal action is replaced by the default action, or by
    the first legal one if that is illegal too; `infos[agent]["illegal"]` is then True, else False.

    In a turn-based game action 0 is a pass, and the game's actions follow. An agent that is not to
    move can only pass. A pass or an unparsed answer of the agent to move plays the first legal
    action. `infos[agent]["to_move"]` is False for agents whose pass the rollout plays without a
    policy. Observations are `{"observation": ..., "action_mask": ...}`, or the game's own Dict with
    this mask.

    Raises:
        EnvError: An agent is missing or unknown, an action is outside the space, or the game's mask
            leaves an agent no legal action.
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
        return self

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observations, infos = self.env.reset(seed=seed, options=options)
        self.agents = list(self.env.agents)
        return self._outgoing(observations, infos)

    def step(self, actions: Mapping[str, Any]) -> Step:
        if asks_nothing(bool(self._masks), self.agents, actions):
            return {}, {}, {}, {}, {}
        chosen = {}
        for agent, action in actions.items():
            if not self.action_spaces[agent].contains(action):
                raise EnvError(
                    f"action {action!r} of {agent} is outside {self.action_spaces[agent]}"
                )
            chosen[agent] = index(action)
        legal, masks = self.text_view.legal, self._masks
        played = {agent: legal(action, masks[agent]) for agent, action in chosen.items()}
        first = 1 if self.text_view.in_turns else 0
        observations, rewards, terminations, truncations, infos = self.env.step(
            {
                agent: int(self.env.action_space(agent).start) + action - first
                for agent, action in played.items()
            }
        )
        self.agents = list(self.env.agents)
        observations, infos = self._outgoing(observations, infos)
        for agent, info in infos.items():
            info["illegal"] = played.get(agent) != chosen.get(agent)
        return (
            observations,
            {agent: float(reward) for agent, reward in rewards.items()},
            {agent: bool(ended) for agent, ended in terminations.items()},
            {agent: bool(ended) for agent, ended in truncations.items()},
            infos,
        )

    def _outgoing(
        self, observations: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]]
    ) -> Reset:
        seen: dict[str, Any] = {}
        new_infos: dict[str, dict[str, Any]] = {}
        # Games may change returned objects later.
        for agent, given in observations.items():
            observation = seen[agent] = copy.deepcopy(given)
            info = copy.deepcopy(dict(infos.get(agent, {})))
            mask = self._masks[agent] = self._mask(agent, observation, info)
            space = self.observation_spaces[agent]
            if isinstance(space, spaces.Dict) and MASK in space.spaces:
                if not isinstance(observation, dict):
                    observation = {"observation": observation}
                seen[agent] = {**observation, MASK: mask.copy()}
            new_infos[agent] = {**info, MASK: mask.copy()}
            if self.text_view.in_turns:
                new_infos[agent][TO_MOVE] = agent in self.agents and not mask[0]
        return seen, new_infos

    def _mask(self, agent: str, observation: Any, info: Mapping[str, Any]) -> np.ndarray:
        source = observation if isinstance(observation, Mapping) and MASK in observation else info
        count = self.action_spaces[agent].n
        if self.text_view.in_turns:
            to_move = self.env.aec_env.agent_selection if self.agents else None
            mask = np.zeros(count, np.int8)
            mask[1:] = source.get(MASK, 1) if agent == to_move else 0
            mask[0] = agent != to_move
        else:
            mask = np.array(source.get(MASK, np.ones(count)), np.int8)
        if not mask.any():
            if agent in self.agents:
                raise EnvError(f"the game's action mask of {agent} has no legal action")
            mask[:] = 1  # The agent's episode is over.
        return mask


def _takes_turns(game: Any) -> bool:
    while game is not None and not isinstance(game, turn_based_aec_to_parallel_wrapper):
        game = vars(game).get("env")
    return game is not None


def _for_each(agents: Sequence[str], name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(agents, given)
    if set(given) != set(agents):
        keys = sorted(map(str, given))
        raise EnvConfigError(f"{name} must have the agents {sorted(agents)} as keys, got {keys}")
    return given


def _checked_answers(
    space: spaces.Space[Any], agent: str, answers: Sequence[str], in_turns: bool
) -> tuple[str, ...]:
    if not isinstance(space, spaces.Discrete):
        raise EnvConfigError(f"actions of {agent} must be Discrete, got {space}")
    listed = isinstance(answers, Sequence) and not isinstance(answers, str)
    if not listed or len(answers) != space.n or not all(isinstance(one, str) for one in answers):
        raise EnvConfigError(
            f"answers of {agent} must be {space.n} texts, one per action, got {shown(answers)}"
        )
    choices = (PASS, *answers) if in_turns else tuple(answers)
    for action, choice in enumerate(choices):
        if parse_choice(choice, choices) != action:
            raise EnvConfigError(
                f"answers of {agent} must be distinct and parsed as their actions, got {choice!r}"
            )
    return choices


def _seen(observed: Mapping[str, spaces.Space[Any]], agent: str, observation: Any) -> str:
    space = observed[agent]
    if isinstance(space, spaces.Dict) and MASK in space.spaces:
        parts = {key: part for key, part in space.spaces.items() if key != MASK}
        space = spaces.Dict(parts)
        if list(parts) == ["observation"]:
            space, observation = parts["observation"], observation["observation"]
    return f"You see:{in_words(space, observation, f'the observation of {agent}')}"


def in_words(space: spaces.Space[Any], value: Any, where: str = "the observation") -> str:
    """Return a description of an observation, after a space (one line) or a line break (several).

    Numbers have at most two decimals and six digits. Matrices are written by rows, arrays of more
    dimensions as matrices along the last axis, and parts of a Dict by name.

    Args:
        space: Observation space.
        value: The observation.
        where: Name of the observation in errors.

    Raises:
        EnvConfigError: A part has over 256 numbers, or neither numbers nor text, such as a Graph.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        words = "\n".join(
            f"{str(key).replace('_', ' ')}:{in_words(part, value[key], f'{where}[{key!r}]')}"
            for key, part in parts
        )
    elif isinstance(space, spaces.Text):
        words = str(value)
    elif isinstance(
        space, spaces.Discrete | spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary
    ):
        array = np.asarray(value)
        if array.size > MOST_NUMBERS:
            raise EnvConfigError(
                f"{where} has {array.size} numbers, at most {MOST_NUMBERS} are described: "
                "pass describe="
            )
        words = _rows(array)
    else:
        raise EnvConfigError(f"{where} is {space}, which has no description: pass describe=")
    return f"\n{words}" if "\n" in words else f" {words}"


def _rows(array: np.ndarray) -> str:
    if array.ndim < 2:
        # Adding 0.0 turns -0.0 into 0.0.
        return " ".join(f"{round(float(value), 2) + 0.0:g}" for value in array.reshape(-1))
    if array.ndim == 2:
        return "\n".join(map(_rows, array))
    planes = np.moveaxis(array, -1, 0)
    return "\n".join(f"plane {number}:\n{_rows(plane)}" for number, plane in enumerate(planes, 1))


class RewardContext(TypedDict):
    """Second argument of a reward function."""

    environment: str
    agent: str
    round: int
    """Number of the round, from 0."""
    observation: Any
    """Copy of the observation before the action."""
    reward: float
    """Reward of the environment for this step."""
    info: Mapping[str, Any]
    """Shallow copy of the agent's info after the step."""


RewardFunction = Callable[[Any, RewardContext], float]
"""Function (model_output, context) -> reward. `model_output` is the answer (the text of an action)
if there is one, else the action."""


class CustomRewards(BaseParallelWrapper):  # type: ignore[misc]  # PettingZoo ships no types
    """PettingZoo wrapper with rewards from a user's function, for each agent with an action.

    After a step, `infos[agent]["environment_reward"]` is the environment's own reward. Exceptions
    of the function are not caught.

    Args:
        env: A ParallelEnv.
        reward_function: Function (model_output, context) -> reward; see RewardFunction and
            RewardContext. None keeps the environment's rewards. The attribute can be set later.

    Raises:
        EnvConfigError: `env` is no ParallelEnv, or the function is not callable.
        EnvError: A reward is not a finite number.
    """

    def __init__(self, env: Any, reward_function: RewardFunction | None = None) -> None:
        if not isinstance(env, ParallelEnv):
            raise EnvConfigError(f"env must be a PettingZoo ParallelEnv, got {shown(env)}")
        super().__init__(env)
        self.reward_function = reward_function
        self._observations: dict[str, Any] = {}
        self._round = 0

    @property
    def reward_function(self) -> RewardFunction | None:
        """Reward function, or None for the environment's; EnvConfigError if set to another type."""
        return self._reward_function

    @reward_function.setter
    def reward_function(self, function: RewardFunction | None) -> None:
        if function is not None and not callable(function):
            raise EnvConfigError(
                "reward_function must be a function (model_output, context) -> reward, or None, "
                f"got {shown(function)}"
            )
        self._reward_function = function

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observations, infos = self.env.reset(seed=seed, options=options)
        # Copies, because callers may write into observations.
        self._observations, self._round = copy.deepcopy(observations), 0
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> Step:
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
                        f"reward_function must return a finite number, got {shown(reward)} for "
                        f"{agent}"
                    )
                rewards[agent] = float(reward)
            infos[agent]["environment_reward"] = float(own[agent])
        self._observations, self._round = copy.deepcopy(observations), self._round + 1
        return observations, rewards, terminations, truncations, infos


def only_agent(game: Any) -> str:
    """Return the agent of a game; raise EnvConfigError unless it has exactly one."""
    if len(game.possible_agents) != 1:
        names = ", ".join(game.possible_agents)
        raise EnvConfigError(
            f"game must have one agent, got {names}: set num_agents to 1, or add partners"
        )
    agent: str = game.possible_agents[0]
    return agent


class SingleAgentEnv(gymnasium.Env[Any, Any]):
    """Gymnasium environment of the single agent of a PettingZoo ParallelEnv.

    Args:
        game: A ParallelEnv with one agent.

    Raises:
        EnvConfigError: The game has no or several agents.
    """

    def __init__(self, game: Any) -> None:
        self.game, self._agent = game, only_agent(game)
        self.metadata = game.metadata
        self.render_mode = game.render_mode
        self.observation_space: spaces.Space[Any] = game.observation_space(self._agent)
        self.action_space: spaces.Space[Any] = game.action_space(self._agent)
        self._info: Mapping[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        observations, infos = self.game.reset(seed=seed, options=options)
        self._info = infos[self._agent]
        return observations[self._agent], infos[self._agent]

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, rewards, terminations, truncations, infos = self.game.step({self._agent: action})
        agent = self._agent
        self._info = infos[agent]
        return seen[agent], rewards[agent], terminations[agent], truncations[agent], infos[agent]

    def action_masks(self) -> np.ndarray:
        """Return the bool mask of legal actions, as MaskablePPO expects.

        Raises KeyError before `reset`, and for environments without masks.
        """
        return np.array(self._info[MASK], bool)

    def render(self) -> Any:
        return self.game.render()

    def close(self) -> None:
        self.game.close()


def single_agent_env(name: str, **parameters: Any) -> SingleAgentEnv:
    """Make an environment as a SingleAgentEnv; EnvConfigError unless it has one agent."""
    return SingleAgentEnv(registry.make(name, **parameters))


class FocalAgent:
    """Tools of the single agent of a text game, for TRL's `environment_factory`.

    TRL makes a tool of every public method except `reset` and `get_reward`, and creates one object
    per concurrent completion. TRL records an EnvError of `play` as a failed call; `get_reward`
    raises it again.

    Args:
        game: ParallelEnv with texts as actions and one agent. It may contain partners.

    Raises:
        EnvConfigError: The game has no or several agents.
    """

    def __init__(self, game: Any) -> None:
        self._game, self._agent = game, only_agent(game)
        self._return = 0.0
        self._error: EnvError | None = None

    def reset(self, seed: int | None = None, **row: Any) -> str:
        """Start an episode; return its first observation, the rules and the situation.

        `seed` None draws a random episode. `row`, the columns of TRL's dataset, is ignored.
        """
        self._return, self._error = 0.0, None
        observations, _ = self._game.reset(seed=seed)
        first: str = observations[self._agent]
        return first

    def play(self, answer: str) -> str:
        """Play your next turn of the game.

        Args:
            answer: Your answer, written as the rules say.

        Returns:
            Your situation after the turn, and "The game is over." at the end.

        Raises:
            EnvError: The environment refuses the turn; `get_reward` raises the error again.
        """
        if not self._game.agents:
            return "The game is over."
        try:
            # A model may call the tool with an argument of any type and length.
            text = str(answer)[:ANSWER_LENGTH]
            seen, rewards, *_ = self._game.step({self._agent: text})
        except EnvError as error:
            self._error = error
            raise
        self._return += rewards[self._agent]
        situation: str = seen[self._agent]
        return situation if self._game.agents else f"{situation}\nThe game is over."

    def get_reward(self) -> float:
        """Return the sum of rewards since the last reset; raise an EnvError of `play` again."""
        if self._error is not None:
            raise self._error
        return self._return
