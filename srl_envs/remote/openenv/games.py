"""Games at OpenEnv servers as PettingZoo environments, played in words.

game = OpenEnvGame("http://127.0.0.1:8000", rules="Say something.", field="message")
game = JointGame("http://127.0.0.1:8000")  # several agents, where the server is ours
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.records import decode
from srl_envs.remote.openenv.session import Session
from srl_envs.text import (
    ANSWER_LENGTH,
    TEXT_LENGTH,
    ParseFailure,
    Samples,
    SpacesOfAgents,
    TextSpace,
    any_of,
    cost_of_unread,
    parse_choice,
)
from srl_envs.untrusted import printable
from srl_envs.validation import (
    Reset,
    Step,
    asks_nothing,
    number_between,
    reset_arguments,
    shown,
    whole_number,
)

AGENT = "agent_0"
"""The only agent of an OpenEnvGame."""
MASK = "action_mask"


@dataclass(frozen=True)
class ServerView:
    """The TextView of games whose observations are texts already."""

    said: Mapping[str, str]
    """Agent -> its rules."""
    choices: tuple[str, ...]
    """In action order; none where any text is an action."""
    default_action: int | str
    parse_penalty: float
    tells_time: bool = False

    def rules(self, agent: str) -> str:
        """As they were given."""
        return self.said[agent]

    def describe(self, agent: str, observation: str) -> str:
        """The text that the server sent."""
        return observation

    def answers(self, agent: str) -> tuple[str, ...]:
        """In action order."""
        return self.choices

    def parse(self, agent: str, answer: str) -> int | str | ParseFailure:
        """The choice an answer names or, without choices, the answer. Never raises."""
        if self.choices:
            return parse_choice(answer, self.choices)
        if not isinstance(answer, str) or len(answer) > ANSWER_LENGTH:
            return ParseFailure(f"the answer is no text of at most {ANSWER_LENGTH} characters")
        return answer


class _WordGame(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """The part of a PettingZoo environment that both kinds share."""

    metadata: ClassVar[dict[str, Any]] = {"name": "openenv_v0", "render_modes": []}
    render_mode = None
    text_view: ServerView

    def __init__(self, session: Session, agents: Sequence[str], actions: Callable[[], Any]) -> None:
        self._session = session
        self.possible_agents = list(agents)
        self.agents: list[str] = []
        self._begun = False
        self.observation_spaces = {agent: TextSpace(TEXT_LENGTH) for agent in agents}
        self.action_spaces = {agent: actions() for agent in agents}

    def render(self) -> None:
        """Nothing: the server's games are not drawn here."""

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _checked(self, agent: str, action: Any) -> Any:
        space = self.action_spaces[agent]
        if not space.contains(action):
            raise EnvError(f"action {shown(action):.80} of {agent} is outside {space}")
        # Half of a surrogate pair is text in Python alone; no server would take it.
        return action.encode("utf-8", "replace").decode() if isinstance(action, str) else action


class OpenEnvGame(_WordGame):
    """The environment of an OpenEnv server for its one agent, `agent_0`.

    What an answer does is said by one of two: `answers`, a mapping from answers to the server's
    actions ({"left": {"direction": 0}}), whose numbers are the actions here; or `field`, the field
    of the server's action that takes any text. `rules` are what the agent is told once; how to
    answer is said for you. `describe` makes a text of the server's observation, a mapping; by
    default it lists the fields. `options` of a reset go to the server's as keyword arguments.

    The episode is terminated where the server says that it is done, and truncated after
    `max_cycles` steps. The first answer is played for one that could not be read, at the price of
    `parse_penalty` of the shaped reward. Raises EnvConfigError for wrong arguments, and EnvError
    for whatever the server does wrong or refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        rules: str,
        answers: Mapping[str, Mapping[str, Any]] | None = None,
        field: str | None = None,
        describe: Callable[[Mapping[str, Any]], str] | None = None,
        max_cycles: int = 64,
        parse_penalty: float = 0.1,
        timeout: float = 60.0,
    ) -> None:
        if (answers is None) is (field is None):
            raise EnvConfigError("give answers= or field=, one of them, to say what an answer does")
        if answers is not None and len(answers) < 2:
            raise EnvConfigError(f"answers are {shown(answers)}: give at least two")
        self._actions, self._field = list((answers or {}).values()), field
        self._describe = describe or listed
        self.max_cycles = whole_number("max_cycles", max_cycles, low=1)
        penalty = number_between("parse_penalty", parse_penalty, 0.0)
        choices, said = tuple(answers or ()), rules
        if choices:
            said += f"\nWrite your choice alone on the last line: {any_of(choices)}."
            said += cost_of_unread(penalty)
        self.text_view = ServerView({AGENT: said}, choices, 0 if choices else "", penalty)
        super().__init__(
            Session(url, timeout=timeout),
            [AGENT],
            lambda: spaces.Discrete(len(choices)) if choices else TextSpace(ANSWER_LENGTH),
        )

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode."""
        seed, options = reset_arguments(seed, options)
        self.agents = []
        reply = self._session.reset(**({} if seed is None else {"seed": seed}), **options)
        if reply.done:
            raise self._session.refused("the episode is done at its start")
        self.agents, self._begun, self._played = [AGENT], True, 0
        return {AGENT: self._told(reply.observation)}, {AGENT: {}}

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one step."""
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        action = self._checked(AGENT, actions[AGENT])
        self.agents = []  # also where what comes raises: the session is over then
        reply = self._session.step(
            self._actions[int(action)] if self._field is None else {self._field: action}
        )
        seen = self._told(reply.observation)
        self._played += 1
        cut = not reply.done and self._played >= self.max_cycles
        self.agents = [] if reply.done or cut else [AGENT]
        return {AGENT: seen}, {AGENT: reply.reward}, {AGENT: reply.done}, {AGENT: cut}, {AGENT: {}}

    def _told(self, observation: Mapping[str, Any]) -> str:
        told = self._describe(observation)
        if not isinstance(told, str):
            raise EnvError(f"describe() gave {shown(told):.80}: it must give a text")
        return told[:TEXT_LENGTH]


def listed(observation: Mapping[str, Any]) -> str:
    """The fields of an observation, one a line, without those that are empty."""
    lines = [
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in observation.items()
        if value not in (None, "", [], {})
    ]
    return printable("\n".join(lines)) or "There is nothing to see."


class JointGame(_WordGame):
    """A game of several agents at an OpenEnv server of ours (srl_envs.remote.openenv.server).

    `environment` is as the server calls it, by default its first; it is one that is served in
    words. The first text of an episode holds the rules. An answer is read by the server, which
    takes the price of one that it could not read off the reward. Raises EnvError for whatever the
    server does wrong or refuses.
    """

    def __init__(self, url: str, environment: str | None = None, *, timeout: float = 60.0) -> None:
        session = Session(url, timeout=timeout)
        self._chosen = {} if environment is None else {"environment": environment}
        if environment is not None:
            session.reset(**self._chosen)
        state = session.state()
        agents, answers = state.get("possible_agents"), state.get("answers")
        named = isinstance(agents, list) and all(isinstance(a, str) and a for a in agents)
        if not named or not agents or len(set(agents)) < len(agents):
            raise session.refused(f"possible_agents are {shown(agents)}: is this server ours?")
        if state.get("text") is not True:
            raise session.refused("the game is not served in words")
        self._answers = {agent: _texts(session, answers, agent) for agent in agents}
        told = "You are {} in a game on a server. Its rules come first."
        said = {agent: told.format(printable(agent, multiline=False)) for agent in agents}
        self.text_view = ServerView(said, (), "", 0.0)
        super().__init__(session, agents, lambda: TextSpace(ANSWER_LENGTH))

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Up to `count` legal answers in random order, which the embedded model starts from; None
        where the server lists none."""
        answers = self._answers[agent]
        return tuple(answers[i] for i in rng.permutation(len(answers))[:count]) or None

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; `options` are those of the game's own reset."""
        seed, options = reset_arguments(seed, options)
        self.agents = []
        asked = {"seed": seed, "options": dict(options) or None}
        told = {key: value for key, value in asked.items() if value is not None}
        said = self._session.reset(**self._chosen, **told).observation
        acting = said.get("agents")
        if not isinstance(acting, list) or not acting:
            raise self._session.refused(f"agents are {shown(acting)}")
        live = [agent for agent in self.possible_agents if agent in acting]
        observations = self._of_each(said, "observations", live, self._text)
        infos = self._of_each(said, "infos", live, self._info)
        self.agents, self._begun = live, True
        return observations, infos

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one turn with one answer per agent."""
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        live = self.agents
        answers = {agent: self._checked(agent, actions[agent]) for agent in live}
        self.agents = []
        said = self._session.step({"actions": answers}).observation
        observations = self._of_each(said, "observations", live, self._text)
        rewards = self._of_each(said, "rewards", live, self._session.number)
        terminations = self._of_each(said, "terminations", live, self._flag)
        truncations = self._of_each(said, "truncations", live, self._flag)
        infos = self._of_each(said, "infos", live, self._info)
        self.agents = [one for one in live if not (terminations[one] or truncations[one])]
        return observations, rewards, terminations, truncations, infos

    def _of_each(
        self,
        said: Mapping[str, Any],
        what: str,
        agents: Sequence[str],
        read: Callable[[str, Any], Any],
    ) -> dict[str, Any]:
        """A field of the reply, which has an entry for each of the agents."""
        values = said.get(what)
        if not isinstance(values, dict) or not set(agents) <= set(values):
            raise self._session.refused(f"{what} are not of {', '.join(agents)}: {shown(values)}")
        return {agent: read(f"{what} of {agent}", values[agent]) for agent in agents}

    def _text(self, what: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._session.refused(f"{what} are no text: {shown(value)}")
        return value[:TEXT_LENGTH]

    def _flag(self, what: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._session.refused(f"{what} are not true or false: {shown(value)}")
        return value

    def _info(self, what: str, value: Any) -> dict[str, Any]:
        try:
            info = decode(value)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise self._session.refused(f"{what} cannot be read: {error}") from error
        if not isinstance(info, dict) or not all(isinstance(key, str) for key in info):
            raise self._session.refused(f"{what} are no names with values: {shown(value)}")
        # A mask is of numbers, and these actions are words.
        return {key: entry for key, entry in info.items() if key != MASK}


def _texts(session: Session, answers: Any, agent: str) -> tuple[str, ...]:
    own = answers.get(agent) if isinstance(answers, dict) else None
    if not isinstance(own, list) or not all(isinstance(each, str) for each in own):
        raise session.refused(f"the answers of {agent} are no texts: {shown(own)}")
    return tuple(own)
