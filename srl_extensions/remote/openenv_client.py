"""Games on OpenEnv servers as PettingZoo environments in words.

game = OpenEnvGame("http://127.0.0.1:8000", rules="Say something.", field="message")
game = JointGame("http://127.0.0.1:8000")  # several agents, on a server of ours
trainer = GRPOTrainer(..., environment_factory=partial(FocalAgent, "http://127.0.0.1:8000"))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import urlsplit

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.loading.extras import needed_by
from srl_envs.loading.tagged_json import decode
from srl_envs.loading.untrusted import printable
from srl_envs.text import focal_agent
from srl_envs.text.spaces import ANSWER_LENGTH, TEXT_LENGTH, SpacesOfAgents, TextSpace
from srl_envs.text.view import ParseFailure, Samples, any_of, cost_of_unread, parse_choice
from srl_envs.validation import (
    Reset,
    Step,
    asks_nothing,
    number_between,
    reset_arguments,
    shown,
    whole_number,
)

with needed_by("a client of OpenEnv servers"):
    from openenv.core.generic_client import GenericEnvClient
    from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
    from websockets.protocol import State

AGENT = "agent_0"
"""The only agent of an OpenEnvGame."""
MESSAGE_MIB = 4
"""Maximum size of a reply."""
QUOTED = 300
"""Maximum length of a server's words in an error."""


class Reply(BaseModel):
    """Checked reply to a reset or a step."""

    model_config = ConfigDict(strict=True, from_attributes=True)
    observation: dict[str, Any]
    reward: bool | FiniteFloat | None = None
    done: bool


class JointStart(BaseModel):
    """Checked observation of a reset of a game of several agents."""

    model_config = ConfigDict(strict=True)
    agents: list[str] = Field(min_length=1)
    observations: dict[str, str]
    infos: dict[str, dict[str, Any]]


class JointTurn(BaseModel):
    """Checked observation of a step of a game of several agents."""

    model_config = ConfigDict(strict=True)
    observations: dict[str, str]
    rewards: dict[str, FiniteFloat]
    terminations: dict[str, bool]
    truncations: dict[str, bool]
    infos: dict[str, dict[str, Any]]


class JointState(BaseModel):
    """Checked state of a server of ours."""

    model_config = ConfigDict(strict=True)
    possible_agents: list[str] = Field(min_length=1)
    answers: dict[str, list[str]]


class _Client(GenericEnvClient):  # type: ignore[misc]  # openenv is not installed where mypy runs
    """OpenEnv's client without reconnection, which would continue in another episode."""

    async def _ensure_connected(self) -> None:
        if self._ws is not None and self._ws.state is not State.OPEN:
            raise ConnectionError("the connection was lost")
        await super()._ensure_connected()


class Connection:
    """Session on an OpenEnv server. Every failure is an EnvError, which ends the session."""

    def __init__(self, url: str, timeout: float = 60.0) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https", "ws", "wss") or not parts.netloc:
            raise EnvConfigError(f"url must be one such as http://127.0.0.1:8000, got {shown(url)}")
        self.url = url
        self._timeout = number_between("timeout", timeout, 0.001)
        self._client: Any = None

    def reset(self, **arguments: Any) -> Reply:
        """Start an episode."""
        return self._call(lambda client: Reply.model_validate(client.reset(**arguments)))

    def step(self, action: Mapping[str, Any]) -> Reply:
        """Play one step."""
        if self._client is None:
            raise EnvError(f"{self.url}: no episode is running: call reset() first")
        return self._call(lambda client: Reply.model_validate(client.step(dict(action))))

    def state(self) -> JointState:
        """Return the description of a server of ours."""
        return self._call(lambda client: JointState.model_validate(client.state()))

    def close(self) -> None:
        """End the session."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def refused(self, why: object) -> EnvError:
        """End the session and return an error about the server."""
        self.close()
        message = " ".join(printable(str(why), multiline=False).split())
        return EnvError(f"{self.url}: {message[:QUOTED]}")

    def _call(self, call: Callable[[Any], Any]) -> Any:
        if self._client is None:
            self._client = _Client(
                self.url,
                connect_timeout_s=self._timeout,
                message_timeout_s=self._timeout,
                max_message_size_mb=MESSAGE_MIB,
            ).sync()
        try:
            return call(self._client)
        except TimeoutError as error:
            raise self.refused(f"no reply within {self._timeout:g} s") from error
        except Exception as error:  # OpenEnv's client expects valid replies
            raise self.refused(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True)
class ServerView:
    """TextView of games whose observations are texts already."""

    said: Mapping[str, str]
    """Agent -> its rules."""
    choices: tuple[str, ...]
    """Answers in action order; empty if any text is an action."""
    default_action: int | str
    parse_penalty: float
    tells_time: bool = False

    def rules(self, agent: str) -> str:
        """Return the agent's rules."""
        return self.said[agent]

    def describe(self, agent: str, observation: str) -> str:
        """Return the server's text."""
        return observation

    def answers(self, agent: str) -> tuple[str, ...]:
        """Return the answers in action order."""
        return self.choices

    def parse(self, agent: str, answer: str) -> int | str | ParseFailure:
        """Return the chosen action or, without choices, the answer. Never raises."""
        if self.choices:
            return parse_choice(answer, self.choices)
        if not isinstance(answer, str) or len(answer) > ANSWER_LENGTH:
            return ParseFailure(f"the answer is not a text of at most {ANSWER_LENGTH} characters")
        return answer


class _WordGame(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Common part of both kinds of games."""

    metadata: ClassVar[dict[str, Any]] = {"name": "openenv_v0", "render_modes": []}
    render_mode = None
    text_view: ServerView

    def __init__(self, server: Connection, agents: Sequence[str], choices: int = 0) -> None:
        self._server = server
        self.possible_agents = list(agents)
        self.agents: list[str] = []
        self._begun = False
        self.observation_spaces = {agent: TextSpace(TEXT_LENGTH) for agent in agents}
        self.action_spaces: dict[str, Any] = {
            agent: spaces.Discrete(choices) if choices else TextSpace(ANSWER_LENGTH)
            for agent in agents
        }

    def render(self) -> None:
        """Return None: these games have no pictures."""

    def close(self) -> None:
        """End the session."""
        self._server.close()

    def _checked(self, agent: str, action: Any) -> Any:
        space = self.action_spaces[agent]
        if not space.contains(action):
            raise EnvError(f"action {shown(action):.80} of {agent} is outside {space}")
        # Half of a surrogate pair is a text in Python, but not in JSON.
        return action.encode("utf-8", "replace").decode() if isinstance(action, str) else action


class OpenEnvGame(_WordGame):
    """Environment of an OpenEnv server for its one agent, `agent_0`.

    Args:
        url: Address of the server.
        rules: Text that the agent reads once. The form of an answer is added.
        answers: Answer -> action of the server; or use `field`.
        field: Field of the server's action that takes any text.
        describe: Function that makes a text of the server's observation; by default its fields.
        max_cycles: Steps after which the episode is truncated.
        parse_penalty: Amount subtracted from the shaped reward for an answer that cannot be read.
        timeout: Time limit of a reply in seconds.

    Raises:
        EnvConfigError: For wrong arguments.
        EnvError: For every failure and refusal of the server.
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
            raise EnvConfigError("give either answers= or field=, to define what an answer does")
        if answers is not None and len(answers) < 2:
            raise EnvConfigError(f"answers must be at least two, got {shown(answers)}")
        self._actions, self._field = list((answers or {}).values()), field
        self._describe = describe or listed
        self.max_cycles = whole_number("max_cycles", max_cycles, low=1)
        penalty = number_between("parse_penalty", parse_penalty, 0.0)
        choices, said = tuple(answers or ()), rules
        if choices:
            said += f"\nWrite your choice alone on the last line: {any_of(choices)}."
            said += cost_of_unread(penalty)
        self.text_view = ServerView({AGENT: said}, choices, 0 if choices else "", penalty)
        super().__init__(Connection(url, timeout), [AGENT], len(choices))

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode. `options` are keyword arguments of the server's reset."""
        seed, options = reset_arguments(seed, options)
        self.agents = []
        reply = self._server.reset(**({} if seed is None else {"seed": seed}), **options)
        if reply.done:
            raise self._server.refused("the episode is done at its start")
        self.agents, self._begun, self._played = [AGENT], True, 0
        return {AGENT: self._text(reply.observation)}, {AGENT: {}}

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one step."""
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        action = self._checked(AGENT, actions[AGENT])
        self.agents = []  # a failure below ends the session
        reply = self._server.step(
            self._actions[int(action)] if self._field is None else {self._field: action}
        )
        seen = self._text(reply.observation)
        self._played += 1
        cut = not reply.done and self._played >= self.max_cycles
        self.agents = [] if reply.done or cut else [AGENT]
        reward = float(reply.reward or 0.0)
        return {AGENT: seen}, {AGENT: reward}, {AGENT: reply.done}, {AGENT: cut}, {AGENT: {}}

    def _text(self, observation: Mapping[str, Any]) -> str:
        text = self._describe(observation)
        if not isinstance(text, str):
            raise EnvError(f"describe() must return a text, got {shown(text):.80}")
        return text[:TEXT_LENGTH]


def listed(observation: Mapping[str, Any]) -> str:
    """Return the fields of an observation that are not empty, one per line."""
    lines = [
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in observation.items()
        if value not in (None, "", [], {})
    ]
    return printable("\n".join(lines)) or "There is nothing to see."


class JointGame(_WordGame):
    """Game of several agents on an OpenEnv server of ours.

    The first text of an episode contains the rules. The server reads the answers, and subtracts the
    penalty of an answer that it cannot read from the reward.

    Args:
        url: Address of the server.
        environment: Name of the game on the server; by default its first.
        timeout: Time limit of a reply in seconds.

    Raises:
        EnvError: For every failure and refusal of the server.
    """

    def __init__(self, url: str, environment: str | None = None, *, timeout: float = 60.0) -> None:
        server = Connection(url, timeout)
        self._chosen = {} if environment is None else {"environment": environment}
        if environment is not None:
            server.reset(**self._chosen)
        state = server.state()
        agents = state.possible_agents
        if len(set(agents)) < len(agents) or not all(agents) or set(agents) - set(state.answers):
            raise server.refused(f"possible_agents are invalid: {shown(agents)}")
        self._answers = state.answers
        rules = "You are {} in a game on a server. Its rules come first."
        said = {agent: rules.format(printable(agent, multiline=False)) for agent in agents}
        self.text_view = ServerView(said, (), "", 0.0)
        super().__init__(server, agents)

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Return up to `count` legal answers in random order, or None if the server lists none."""
        answers = self._answers[agent]
        return tuple(answers[i] for i in rng.permutation(len(answers))[:count]) or None

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode. `options` are those of the game's own reset."""
        seed, options = reset_arguments(seed, options)
        self.agents = []
        given = {"seed": seed, "options": dict(options) or None}
        given = {key: value for key, value in given.items() if value is not None}
        start = self._read(JointStart, self._server.reset(**self._chosen, **given))
        live = [agent for agent in self.possible_agents if agent in start.agents]
        outcome = self._of(live, "observations", start), self._infos(live, start)
        self.agents, self._begun = live, True
        return outcome

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one turn with one answer per agent."""
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        live = self.agents
        answers = {agent: self._checked(agent, actions[agent]) for agent in live}
        self.agents = []
        turn = self._read(JointTurn, self._server.step({"actions": answers}))
        observations, rewards, terminations, truncations = (
            self._of(live, what, turn)
            for what in ("observations", "rewards", "terminations", "truncations")
        )
        infos = self._infos(live, turn)
        self.agents = [one for one in live if not (terminations[one] or truncations[one])]
        return observations, rewards, terminations, truncations, infos

    def _read(self, kind: Any, reply: Reply) -> Any:
        try:
            return kind.model_validate(reply.observation)
        except ValueError as error:
            raise self._server.refused(f"the observation is invalid: {error}") from error

    def _of(self, agents: Sequence[str], what: str, turn: BaseModel) -> dict[str, Any]:
        values = getattr(turn, what)
        if not set(agents) <= set(values):
            raise self._server.refused(f"{what} must be of {', '.join(agents)}, got {list(values)}")
        if what == "observations":
            return {agent: values[agent][:TEXT_LENGTH] for agent in agents}
        return {agent: values[agent] for agent in agents}

    def _infos(self, agents: Sequence[str], turn: BaseModel) -> dict[str, Any]:
        try:
            infos = {agent: decode(info) for agent, info in self._of(agents, "infos", turn).items()}
            # A mask is of numbers, and these actions are texts.
            return {
                agent: {str(key): value for key, value in info.items() if key != "action_mask"}
                for agent, info in infos.items()
            }
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise self._server.refused(f"infos cannot be read: {error}") from error


class FocalAgent(focal_agent.FocalAgent):
    """One agent of a game on a server, for TRL's `environment_factory`.

    Partners on the server play the other agents. The server needs one session per concurrent
    completion. Raises EnvError for a game with several agents left.
    """

    def __init__(self, url: str, environment: str | None = None) -> None:
        super().__init__(JointGame(url, environment))
