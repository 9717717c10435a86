"""Environments of one agent over the tasks of srl_envs: same problems, rules and rewards."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.types import Message, MessageRole, Observation, Reward
from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import TextEnv
from srl_envs.validation import nearest

REGISTERED: Mapping[str, str] = MappingProxyType(
    {"code": "code_v0", "math": "math_v0", "debate": "debate_v0", "tool": "tool_use_v0"}
)
"""Environment type in configurations and on the command line -> name in srl_envs' registry."""


def registered_name(name: str) -> str:
    """Return the registry's name of an environment type, or any NAME_v0; else EnvConfigError."""
    if name not in REGISTERED and not name.endswith("_v0"):
        raise EnvConfigError(f"there is no environment {name!r}{nearest(name, REGISTERED)}")
    return REGISTERED.get(name, name)


@dataclass(frozen=True)
class ProblemGenerator:
    """Selection of problems; each episode has a new problem, generated at random."""

    difficulty_range: tuple[int, int] | None = None
    """Lowest and highest difficulty, from 1 to 5; None selects all."""
    families: Sequence[str] | str | None = None
    """Kinds of problems, by srl_envs' names; None selects all."""

    def options(self) -> dict[str, Any]:
        """Return {"difficulty", "families"} as options of an environment, without None values."""
        options = {"difficulty": self.difficulty_range, "families": self.families}
        return {name: value for name, value in options.items() if value is not None}


class GameEnvironment(SimulatedEnvironment):
    """Environment of srl_envs' registry for one of its agents; base class of tasks and debates.

    Observations contain the whole conversation and, in `info`, the agent's info, such as `score`
    and `success`. Arguments and errors are those of `registry.make`.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, dict(options)
        self._messages: list[Message] = []
        self._game = TextEnv(registry.make(name, **options))
        self._agent: str = self._game.possible_agents[0]

    @property
    def max_turns(self) -> int:  # type: ignore[override]
        return int(self._game.unwrapped.max_cycles)

    def copy(self) -> Self:
        made = copy.copy(self)
        made.__dict__.pop("_rng", None)
        made._game = TextEnv(registry.make(self.name, **self.options))
        return made

    def reset(self) -> Observation:
        texts, infos = self._game.reset(seed=int(self.rng.integers(2**31)))
        self._agent = agent = self.choose_agent(infos)
        rules = self._game.unwrapped.text_view.rules(agent)
        start = texts[agent].removeprefix(rules).strip()
        self._messages = [Message(MessageRole.SYSTEM, rules), Message(MessageRole.USER, start)]
        return Observation(list(self._messages), info=dict(infos[agent]))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        if not self._game.agents:
            raise EnvError("step() without a running episode: call reset() first")
        agent, others = self._agent, self.other_answers()
        result = self._game.step({agent: action.content, **others})
        texts, rewards, terminated, truncated, infos = result
        self._messages += [action, Message(MessageRole.ENVIRONMENT, texts[agent])]
        done, info = bool(terminated[agent] or truncated[agent]), dict(infos[agent])
        components = {"score": float(info["score"])} if "score" in info else {}
        observation = Observation(list(self._messages), done=done, info=info)
        return observation, Reward(float(rewards[agent]), components)

    def choose_agent(self, infos: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the agent of the new episode, by default the first; `infos`: agent -> info."""
        return self._agent

    def other_answers(self) -> Mapping[str, str]:
        """Return agent -> answer of the other agents in this step; empty by default."""
        return {}

    def close(self) -> None:
        self._game.close()


class TaskEnvironment(GameEnvironment):
    """GameEnvironment with one agent. Raises EnvError for several agents."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(name, options)
        if len(agents := self._game.possible_agents) != 1:
            raise EnvError(f"{name} must have one agent, got {', '.join(agents)}")


class ProblemEnvironment(TaskEnvironment):
    """Environment of problems; base class of code and mathematics.

    `generator` selects among the generated problems; None selects all. `options` are those of
    srl_envs, such as `max_cycles` (attempts) and `path` (a file of problems instead).

    The reward is the increase of the best score, less 0.05 in each attempt after the first.
    """

    registered: ClassVar[str]

    def __init__(self, generator: ProblemGenerator | None = None, **options: Any) -> None:
        super().__init__(self.registered, (generator or ProblemGenerator()).options() | options)


class RemoteEnvironment(TaskEnvironment):
    """Session of an environment on a server of `mrlm serve` or `srl serve env`.

    `environment_id` is "math", "code", "tool" or a name NAME_v0 of srl_envs' registry, with one
    agent. `server_address` is "host:port", and `options` are those of srl_envs. Raises RemoteError
    if no server answers, or the server refuses the environment.
    """

    def __init__(self, environment_id: str, server_address: str, **options: Any) -> None:
        name = f"{registry.SERVED}{server_address}/{registered_name(environment_id)}"
        super().__init__(name, options)
