"""Environments of one agent over the tasks of srl_envs: the same rules, problems and rewards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrlm.core.environment import SimulatedEnvironment
from mrlm.core.types import Message, MessageRole, Observation, Reward
from srl_envs import registry
from srl_envs.errors import EnvError
from srl_envs.text.env import TextEnv
from srl_envs.validation import Step


@dataclass(frozen=True)
class ProblemGenerator:
    """Problems drawn anew for every episode, of difficulty `difficulty_range[0]` to `[1]`."""

    difficulty_range: tuple[int, int] | None = None
    """The easiest and the hardest, 1 to 5; all where not given."""
    families: Sequence[str] | str | None = None
    """Kinds of problems, by srl_envs' names; all where not given."""


def problems(
    generator: ProblemGenerator | None, dataset: str | os.PathLike[str] | None
) -> dict[str, Any]:
    """The arguments of srl_envs' environment that stand for a generator and a file."""
    drawn = generator or ProblemGenerator()
    given = {"difficulty": drawn.difficulty_range, "families": drawn.families, "path": dataset}
    return {name: value for name, value in given.items() if value is not None}


class TaskEnvironment(SimulatedEnvironment):
    """The environment `name` of srl_envs' registry, made with `options`, played by one agent.

    Observations are the conversation so far. `info` is the task's own, such as `score` and
    `success`. Raises EnvConfigError for wrong options, and where it has several agents.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name, self.options = name, dict(options)
        self._game: TextEnv | None = None
        self._said: list[Message] = []
        self._open()

    def parallel_env(self) -> Any:
        """Another of its kind, as srl_envs has it."""
        return registry.make(self.name, **self.options)

    def copy(self) -> TaskEnvironment:
        """Another of its kind."""
        return TaskEnvironment(self.name, self.options)

    @property
    def max_turns(self) -> int:  # type: ignore[override]
        """Turns after which an episode is cut off."""
        return int(self._open().unwrapped.max_cycles)

    def reset(self) -> Observation:
        """Ask a problem."""
        game = self._open()
        texts, infos = game.reset(seed=int(self.rng.integers(2**31)))
        [agent] = game.possible_agents
        self._said = opening(game, agent, texts)
        return Observation(list(self._said), info=dict(infos[agent]))

    def step(self, action: Message) -> tuple[Observation, Reward]:
        """Take an answer. Raises EnvError where no episode is under way."""
        game = self._open()
        if not game.agents:
            raise EnvError("step() without a running episode: call reset() first")
        [agent] = game.possible_agents
        outcome = game.step({agent: action.content})
        self._said.append(action)
        return told(self._said, agent, outcome)

    def close(self) -> None:
        """Let go of what the task holds; `reset` opens it again."""
        if self._game is not None:
            self._game.close()
            self._game = None

    def _open(self) -> TextEnv:
        if self._game is None:
            self._game = TextEnv(self.parallel_env())
            agents = self._game.possible_agents
            if len(agents) != 1:
                raise EnvError(f"{self.name} has the agents {', '.join(agents)}: give one for one")
        return self._game


def opening(game: TextEnv, agent: str, texts: Mapping[str, str]) -> list[Message]:
    """The rules and the first situation, as a conversation begins."""
    rules = game.unwrapped.text_view.rules(agent)
    start = texts[agent].removeprefix(rules).strip()
    return [Message(MessageRole.SYSTEM, rules), Message(MessageRole.USER, start)]


def told(said: list[Message], agent: str, outcome: Step) -> tuple[Observation, Reward]:
    """What an agent observes after a step, all that was `said` to it, and what it earned."""
    texts, rewards, ended, cut, infos = outcome
    said.append(Message(MessageRole.ENVIRONMENT, texts[agent]))
    done, info = bool(ended[agent] or cut[agent]), dict(infos[agent])
    components = {"score": float(info["score"])} if "score" in info else {}
    return Observation(list(said), done=done, info=info), Reward(float(rewards[agent]), components)
