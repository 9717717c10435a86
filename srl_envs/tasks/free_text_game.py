"""Base class of games in which agents act by writing: any text is an action.

Seeding, spaces, turns, the refusal of what is no text, and rendering. A game says what is told,
what an answer does, and who has finished. srl_envs.tasks.base builds on it, and so do debates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Outcome of one agent's answer."""

    reward: float
    finished: bool
    """The agent is done: it is terminated and plays no further turn."""
    info: dict[str, Any] = field(default_factory=dict)
    """Plain data."""


class FreeTextGame(RoundGame):
    """A PettingZoo ParallelEnv whose agents write.

    Actions are texts of up to ANSWER_LENGTH characters, as written: reading them is the game's
    work, and nothing in them raises. Observations, by `obs_mode`:

    - "llm": `{"observation": vector, "text": what the agent is told}`;
    - "dict": `{"observation": vector}`, and "vector": the float32 vector alone, which does not
      hold what is asked.

    An agent leaves when it has finished (terminated); all others leave after `max_cycles` turns
    (truncated). Setting `max_cycles` takes effect at the next reset. Raises EnvConfigError for
    wrong arguments and EnvError for wrong use.

    A game gives `low` and `high` of an agent's vector, and defines `begin`, `take`, `prompt`,
    `numbers` and `make_view`; it may say more in `first_info`. It may read `played` (turns so far,
    this one included), `rounds` (of this episode) and `np_random`.
    """

    render_modes: ClassVar[Sequence[str]] = RENDER_MODES

    _shown: dict[str, tuple[str, float]]
    """Agent -> what it wrote last, and what that earned."""

    # What a game defines.

    def take(self, answers: Mapping[str, str], over: bool) -> dict[str, Outcome]:
        """One turn: what each playing agent's answer did. `over` says that it is the last turn."""
        raise NotImplementedError

    def prompt(self, agent: str) -> str:
        """What an agent is told now: all that it needs to answer, on every turn."""
        raise NotImplementedError

    def numbers(self, agent: str) -> Sequence[float]:
        """The agent's observation vector now, of any agent, also one that has left."""
        raise NotImplementedError

    # What a game may say besides.

    def first_info(self, agent: str) -> dict[str, Any]:
        """An agent's info at the start of an episode."""
        return {}

    # PettingZoo's interface.

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one turn with one text per playing agent.

        Raises EnvError for a missing or unknown agent, an action that is no text of an allowed
        length, or no episode.
        """
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        agents = list(self.agents)
        for agent in agents:
            if not self.action_spaces[agent].contains(actions[agent]):
                said = f"{actions[agent]!r:.80}"
                raise EnvError(
                    f"action {said} of {agent} must be a text of at most {ANSWER_LENGTH} characters"
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
        """What each agent was told last, and wrote before."""
        lines = [f"{self.metadata['name']} turn {self.played}/{self.rounds}"]
        for agent in self.possible_agents:
            if agent in self._shown:
                answer, reward = self._shown[agent]
                lines.append(f"{agent} wrote ({reward:+.2f}): {printable(answer)}")
            lines.append(f"{agent} is told: {printable(self.prompt(agent))}")
        return "\n".join(lines) + "\n"

    # The machinery.

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
    """A TextView over what a written game tells; a game gives its rules, and how it reads."""

    said: str
    """The rules, the same for every agent."""
    default_action: str = ""
    """Stands for an answer that could not be read."""
    parse_penalty: float = 0.1

    def rules(self, agent: str) -> str:
        """Instructions, and how to answer."""
        return self.said

    def describe(self, agent: str, observation: Any) -> str:
        """What the agent is told, question and all, on every turn."""
        if isinstance(observation, Mapping) and "text" in observation:
            return str(observation["text"])
        numbers = observation["observation"] if isinstance(observation, Mapping) else observation
        return f"{ONLY_IN_WORDS} {' '.join(f'{number:g}' for number in numbers)}"

    def answers(self, agent: str) -> tuple[str, ...]:
        """None: legal answers cannot be listed."""
        return ()

    def parse(self, agent: str, answer: str) -> str | ParseFailure:
        """The whole answer, or why it cannot be read. Never raises."""
        return readable_text(answer)


def readable_text(answer: Any) -> str | ParseFailure:
    """An answer as a game can be given it: not empty, not too long."""
    if not isinstance(answer, str):
        return ParseFailure("the answer is not text")
    if not answer.strip():
        return ParseFailure("the answer was empty")
    if len(answer) > ANSWER_LENGTH:
        return ParseFailure(f"the answer was longer than {ANSWER_LENGTH} characters")
    return answer
