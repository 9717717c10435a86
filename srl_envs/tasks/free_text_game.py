"""Base class of environments whose actions are texts, such as tasks and debates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from srl_envs.errors import EnvError
from srl_envs.games.base import FLOAT, RoundGame
from srl_envs.text import ANSWER_LENGTH, ParseFailure, TextSpace
from srl_envs.untrusted import printable
from srl_envs.validation import Step, asks_nothing

RENDER_MODES = ("human", "ansi")
ONLY_IN_WORDS = "What is asked is only told with obs_mode='llm'."


@dataclass(frozen=True)
class Outcome:
    """Outcome of one turn of an agent."""

    reward: float
    finished: bool
    """True if the agent terminates."""
    info: dict[str, Any] = field(default_factory=dict)
    """Plain data for the agent's info."""


class FreeTextGame(RoundGame):
    """PettingZoo ParallelEnv whose actions are texts of up to ANSWER_LENGTH characters.

    `step` accepts every such text, also an empty one. Observations, by `obs_mode`: "llm" is
    `{"observation": vector, "text": text for the agent}`, "dict" is `{"observation": vector}`, and
    "vector" is the float32 vector alone. An agent terminates when its Outcome is `finished`. The
    others are truncated after `max_cycles` turns. The render modes are "human", "ansi" and None.
    Invalid arguments raise EnvConfigError, and invalid calls or actions raise EnvError.

    Subclasses pass the bounds `low` and `high` of an agent's vector to the constructor, and define
    `begin`, `take`, `prompt`, `numbers` and `make_view`. They may use `played` (turns so far,
    including the current one), `rounds` (`max_cycles` of this episode) and `np_random`.
    """

    render_modes: ClassVar[Sequence[str]] = RENDER_MODES

    _shown: dict[str, tuple[str, float]]
    """Agent -> its last text and reward."""

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        """Update the state with the texts of one turn; return the Outcome of each active agent.

        Args:
            answers: Active agent -> text of up to ANSWER_LENGTH characters, possibly blank.
            over: True in turn `max_cycles`, which truncates all agents that have not finished.
        """
        raise NotImplementedError

    def prompt(self, agent: str) -> str:
        """Return the text of any agent's observation, up to TEXT_LENGTH characters.

        Implementations must also accept terminated agents, and not rely on earlier observations.
        """
        raise NotImplementedError

    def numbers(self, agent: str) -> Sequence[float]:
        """Return the numbers of any agent's observation vector, also after its termination."""
        raise NotImplementedError

    def first_info(self, agent: str) -> dict[str, Any]:
        """Return the info of an agent at the start of an episode, empty by default."""
        return {}

    def step(self, actions: Mapping[str, Any]) -> Step:
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        agents = list(self.agents)
        for agent in agents:
            if not self.action_spaces[agent].contains(actions[agent]):
                raise EnvError(
                    f"action of {agent} must be a text of at most {ANSWER_LENGTH} characters, got "
                    f"{actions[agent]!r:.80}"
                )
        self.played += 1
        over = self.played >= self.rounds
        outcomes = self.take({agent: actions[agent] for agent in agents}, over)
        self._shown = {agent: (actions[agent], outcomes[agent].reward) for agent in agents}
        self.agents = [] if over else [a for a in agents if not outcomes[a].finished]
        if self.render_mode == "human":
            self.render()
        return (
            {agent: self._observed(agent) for agent in agents},
            {agent: float(outcomes[agent].reward) for agent in agents},
            {agent: outcomes[agent].finished for agent in agents},
            {agent: over and not outcomes[agent].finished for agent in agents},
            {agent: dict(outcomes[agent].info) for agent in agents},
        )

    def drawn_in_text(self) -> str:
        lines = [f"{self.metadata['name']} turn {self.played}/{self.rounds}"]
        for agent in self.possible_agents:
            if agent in self._shown:
                answer, reward = self._shown[agent]
                lines.append(f"{agent} wrote ({reward:+.2f}): {printable(answer)}")
            lines.append(f"{agent} is told: {printable(self.prompt(agent))}")
        return "\n".join(lines) + "\n"

    def _actions(self) -> TextSpace:
        return TextSpace(ANSWER_LENGTH)

    def _first(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        self._shown = {}
        infos = {agent: self.first_info(agent) for agent in self.agents}
        return {agent: self._observed(agent) for agent in self.agents}, infos

    def _vectors(self) -> Sequence[Sequence[float]]:
        return [self.numbers(agent) for agent in self.possible_agents]

    def _observed(self, agent: str) -> Any:
        vector = np.array(self.numbers(agent), FLOAT)
        if self.obs_mode == "vector":
            return vector
        seen: dict[str, Any] = {"observation": vector}
        if self.obs_mode == "llm":
            seen["text"] = self.prompt(agent)
        return seen


@dataclass(frozen=True)
class FreeTextView:
    """Text view of a FreeTextGame: the action is the text itself, if readable."""

    instructions: str | Mapping[str, str]
    """System message with the rules and the form of an answer: one text, or agent -> text."""
    read: Callable[[str], str | ParseFailure] | None = None
    """Check of a text that is neither blank nor too long; only a ParseFailure counts."""
    default_action: str = ""
    """Action for an unreadable answer."""
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        every = self.instructions
        return every if isinstance(every, str) else every[agent]

    def describe(self, agent: str, observation: Any) -> str:
        if isinstance(observation, Mapping) and "text" in observation:
            return str(observation["text"])
        numbers = observation["observation"] if isinstance(observation, Mapping) else observation
        return f"{ONLY_IN_WORDS} {' '.join(f'{number:g}' for number in numbers)}"

    def answers(self, agent: str) -> tuple[str, ...]:
        return ()  # Free texts cannot be listed.

    def parse(self, agent: str, answer: str) -> str | ParseFailure:
        text = readable_text(answer)
        if self.read is None or isinstance(text, ParseFailure):
            return text
        read = self.read(text)
        return read if isinstance(read, ParseFailure) else text


def readable_text(answer: Any) -> str | ParseFailure:
    """Return `answer`, or a ParseFailure if it is no str, blank, or longer than ANSWER_LENGTH."""
    if not isinstance(answer, str):
        return ParseFailure("the answer is not text")
    if not answer.strip():
        return ParseFailure("the answer was empty")
    if len(answer) > ANSWER_LENGTH:
        return ParseFailure(f"the answer was longer than {ANSWER_LENGTH} characters")
    return answer
