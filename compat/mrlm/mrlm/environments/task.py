"""Environments of one agent over the tasks of srl_envs: same problems, rules and rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.types import Message, MessageRole, Observation, Reward
from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import TextEnv
from srl_envs.validation import Step, nearest

REGISTERED: Mapping[str, str] = MappingProxyType(
    {"code": "code_v0", "math": "math_v0", "debate": "debate_v0", "tool": "tool_use_v0"}
)
"""Environment type in configurations and on the command line -> name in srl_envs' registry."""


def registered_name(name: str) -> str:
    """Return the registry's name of an environment type; names of the registry are unchanged."""
    if name not in REGISTERED and not name.endswith("_v0"):
        raise EnvConfigError(f"there is no environment {name!r}{nearest(name, REGISTERED)}")
    return REGISTERED.get(name, name)


@dataclass(frozen=True)
class ProblemGenerator:
    """Selection of generated problems, drawn anew for every episode."""

    difficulty_range: tuple[int, int] | None = None
    """Lowest and highest difficulty, from 1 to 5; None selects all."""
    families: Sequence[str] | str | None = None
    """Kinds of problems, by srl_envs' names; None selects all."""

    def options(self) -> dict[str, Any]:
        """Return the options of the environment in srl_envs."""
        options = {"difficulty": self.difficulty_range, "families": self.families}
        return {name: value for name, value in options.items() if value is not None}


class TaskEnvironment(SimulatedEnvironment):
    """Environment `name` of srl_envs' registry, made with `options`, for one agent.

    Observations contain the whole conversation. `info` is the task's own, such as `score` and
    `success`.

    Raises:
        EnvConfigError: An option is unknown or its value is not allowed.
        EnvError: The environment has several agents.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, dict(options)
        self._messages: list[Message] = []
        self._game = TextEnv(registry.make(name, **options))
        agents = self._game.possible_agents
        if len(agents) != 1:
            raise EnvError(f"{name} must have one agent, got {', '.join(agents)}")
        self._agent = agents[0]

    def copy(self) -> TaskEnvironment:
        """Return another environment with the same name and options."""
        return TaskEnvironment(self.name, self.options)

    @property
    def max_turns(self) -> int:  # type: ignore[override]
        """Number of steps after which an episode is truncated."""
        return int(self._game.unwrapped.max_cycles)

    def reset(self) -> Observation:
        """Start an episode with a new problem; return the first observation."""
        texts, infos = self._game.reset(seed=int(self.rng.integers(2**31)))
        self._messages = first_messages(self._game, self._agent, texts)
        return Observation(list(self._messages), info=dict(infos[self._agent]))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Submit an answer; return observation and reward. Raises EnvError if no episode runs."""
        if not self._game.agents:
            raise EnvError("step() without a running episode: call reset() first")
        result = self._game.step({self._agent: action.content})
        self._messages.append(action)
        return observe(self._messages, self._agent, result)

    def close(self) -> None:
        """Release the task's resources."""
        self._game.close()


class ProblemEnvironment(TaskEnvironment):
    """Environment of problems; base class of code and mathematics.

    Args:
        generator: Selection of generated problems.
        options: Options of the environment in srl_envs, such as `max_cycles` (attempts) and `path`
            (a file of problems instead of generated ones).
    """

    registered: ClassVar[str]

    def __init__(self, generator: ProblemGenerator | None = None, **options: Any) -> None:
        super().__init__(self.registered, (generator or ProblemGenerator()).options() | options)


class RemoteEnvironment(TaskEnvironment):
    """Environment on a server that `mrlm serve` or `srl serve env` runs, with its own session.

    `environment_id` is "math", "code", "tool" or a name of srl_envs' registry, `server_address` is
    "host:port". Raises RemoteError if no server answers.
    """

    def __init__(self, environment_id: str, server_address: str, **options: Any) -> None:
        name = f"{registry.SERVED}{server_address}/{registered_name(environment_id)}"
        super().__init__(name, options)


def first_messages(game: TextEnv, agent: str, texts: Mapping[str, str]) -> list[Message]:
    """Return the first messages of a conversation: the rules, then the first situation."""
    rules = game.unwrapped.text_view.rules(agent)
    start = texts[agent].removeprefix(rules).strip()
    return [Message(MessageRole.SYSTEM, rules), Message(MessageRole.USER, start)]


def observe(messages: list[Message], agent: str, result: Step) -> tuple[Observation, Reward]:
    """Append the text of a step to `messages`; return the agent's observation and reward."""
    texts, rewards, terminated, truncated, infos = result
    messages.append(Message(MessageRole.ENVIRONMENT, texts[agent]))
    done, info = bool(terminated[agent] or truncated[agent]), dict(infos[agent])
    components = {"score": float(info["score"])} if "score" in info else {}
    observation = Observation(list(messages), done=done, info=info)
    return observation, Reward(float(rewards[agent]), components)
