"""Games on OpenEnv servers as PettingZoo environments in words.

game = OpenEnvGame("http://127.0.0.1:8000", rules="Say something.", field="message")
game = PartnerGame("http://127.0.0.1:8000")  # a game of ours with partners
trainer = GRPOTrainer(..., environment_factory=partial(FocalAgent, "http://127.0.0.1:8000"))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from pettingzoo import ParallelEnv

from srl_envs import wrappers
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.loading import needed_by
from srl_envs.tasks.free_text_game import FreeTextView
from srl_envs.text import ANSWER_LENGTH, TEXT_LENGTH, Samples, SpacesOfAgents, TextSpace
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

with needed_by("a client of OpenEnv servers"):
    from openenv.core import EnvClient
    from pydantic import BaseModel, ConfigDict, FiniteFloat
    from websockets.protocol import State

AGENT = "agent_0"
"""The only agent of an OpenEnvGame."""
MESSAGE_MIB = 4
"""Maximum size of a reply."""
QUOTED = 300
"""Maximum length of a server's words in an error."""


class Reply(BaseModel):
    """Reply to a reset or a step; a field of another type raises ValueError."""

    model_config = ConfigDict(strict=True)
    observation: dict[str, Any]
    reward: bool | FiniteFloat | None = None
    done: bool = False


class StateReply(BaseModel):
    """Fields of GameState that the client requires, the server's reply to "state"."""

    model_config = ConfigDict(strict=True)
    possible_agents: list[str]
    answers: dict[str, list[str]]


class _Client(EnvClient):  # type: ignore[misc]  # openenv is not installed where mypy runs
    """OpenEnv's client, with mappings as actions and Reply as result.

    Raises ConnectionError if the connection was lost, and ValueError for an invalid result.
    """

    async def _ensure_connected(self) -> None:
        if self._ws is not None and self._ws.state is not State.OPEN:
            raise ConnectionError("the connection was lost")
        await super()._ensure_connected()

    def _step_payload(self, action: Mapping[str, Any]) -> dict[str, Any]:
        return dict(action)

    def _parse_result(self, payload: Any) -> Reply:
        return Reply.model_validate(payload)

    def _parse_state(self, payload: Any) -> Any:
        return payload


class ServerView(FreeTextView):
    """Text view of games whose observations are texts."""

    tells_time: ClassVar[bool] = False

    def describe(self, agent: str, observation: str) -> str:
        """Return the observation, which is the server's text."""
        return observation


class OpenEnvGame(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # no types in PettingZoo
    """Environment of an OpenEnv server for its one agent, `agent_0`.

    Args:
        url: URL of the server.
        rules: Text that the agent reads once.
        field: Field of the server's action that contains the agent's text.
        describe: Function from the server's observation to a text; by default `listed`.
        max_cycles: Steps after which the episode is truncated, at least 1.
        timeout: Time limit of a reply in seconds.

    Raises:
        EnvConfigError: For a wrong `url`, `max_cycles` or `timeout`.
        EnvError: In `reset` and `step`, for every failure and refusal of the server.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "openenv_v0", "render_modes": []}
    render_mode = None

    def __init__(
        self,
        url: str,
        *,
        rules: str,
        field: str,
        describe: Callable[[Mapping[str, Any]], str] | None = None,
        max_cycles: int = 64,
        timeout: float = 60.0,
    ) -> None:
        self._field = field
        self._describe = describe or listed
        self.max_cycles = whole_number("max_cycles", max_cycles, low=1)
        self.text_view = ServerView(rules, parse_penalty=0.1)
        if not re.match(r"(http|ws)s?://[^/]", str(url)):
            raise EnvConfigError(f"url must be one such as http://127.0.0.1:8000, got {shown(url)}")
        self._url = url
        self._client: Any = None
        self._timeout = number_between("timeout", timeout, 0.001)
        self.possible_agents = [AGENT]
        self.agents: list[str] = []
        self._begun = False
        self.observation_spaces = {AGENT: TextSpace(TEXT_LENGTH)}
        self.action_spaces = {AGENT: TextSpace(ANSWER_LENGTH)}

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode and return {"agent_0": text}, {"agent_0": {}}. EnvError if this fails.

        `options` are arguments of the server's reset.
        """
        seed, options = reset_arguments(seed, options)
        self.agents = []
        begin = {} if seed is None else {"seed": seed}
        reply = self._call("reset", **{**options, **begin})
        if reply.done:
            raise self._refused("the episode is done at its start")
        seen = self._text(reply.observation)
        self.agents, self._begun, self._played = [AGENT], True, 0
        return {AGENT: seen}, {AGENT: {}}

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play a step and return its results by agent; EnvError if this fails.

        A failed call of the server ends the episode; an invalid action does not.
        """
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        action, space = actions[AGENT], self.action_spaces[AGENT]
        if not space.contains(action):
            raise EnvError(f"action {shown(action):.80} of {AGENT} is outside {space}")
        # Half of a surrogate pair is a text in Python, but not in JSON.
        action = action.encode("utf-8", "replace").decode()
        self.agents = []  # a failure below ends the session
        if self._client is None:
            raise EnvError(f"{self._url}: no episode is running: call reset() first")
        reply = self._call("step", self._sent(action))
        seen = self._text(reply.observation)
        self._played += 1
        cut = not reply.done and self._played >= self.max_cycles
        self.agents = [] if reply.done or cut else [AGENT]
        reward = float(reply.reward or 0.0)
        return {AGENT: seen}, {AGENT: reward}, {AGENT: reply.done}, {AGENT: cut}, {AGENT: {}}

    def close(self) -> None:
        """End the session on the server, if there is one. The next reset opens another one."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()

    def _call(self, method: str, /, *arguments: Any, **options: Any) -> Any:
        if self._client is None:
            self._client = _Client(
                self._url,
                connect_timeout_s=self._timeout,
                message_timeout_s=self._timeout,
                max_message_size_mb=MESSAGE_MIB,
            ).sync()
        try:
            return getattr(self._client, method)(*arguments, **options)
        except TimeoutError as error:
            raise self._refused(f"no reply within {self._timeout:g} s") from error
        except Exception as error:  # OpenEnv's client expects valid replies
            raise self._refused(f"{type(error).__name__}: {error}") from error

    def _refused(self, why: object) -> EnvError:
        self.close()
        message = " ".join(printable(str(why), multiline=False).split())
        return EnvError(f"{self._url}: {message[:QUOTED]}")

    def _sent(self, action: Any) -> Mapping[str, Any]:
        return {self._field: action}

    def _text(self, observation: Mapping[str, Any]) -> str:
        text = self._describe(observation)
        if not isinstance(text, str):
            raise self._refused(f"an observation must be a text, got {shown(text):.80}")
        return text[:TEXT_LENGTH]


def listed(observation: Mapping[str, Any]) -> str:
    """Return "key: value" lines, without values None, "", [] and {}; a sentence if none is left."""
    lines = [
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in observation.items()
        if value not in (None, "", [], {})
    ]
    return printable("\n".join(lines)) or "There is nothing to see."


class PartnerGame(OpenEnvGame):
    """Game of an `srl serve openenv` server whose partners play all agents but one.

    The agent is named `agent_0` here. The first text of an episode contains the rules. The server
    parses the answers, and subtracts the penalty of an unparsable answer from the reward.

    Args:
        url: Address of the server, to which the constructor connects.
        environment: Name of a game of the server; by default its first.
        timeout: Time limit of a reply in seconds.

    Raises:
        EnvConfigError: For a wrong `url` or `timeout`.
        EnvError: For every failure and refusal of the server, and if several agents lack partners.
    """

    def __init__(self, url: str, environment: str | None = None, *, timeout: float = 60.0) -> None:
        super().__init__(
            url,
            rules="You play a game on a server. Its rules come first.",
            field="actions",
            describe=self._own_text,
            max_cycles=2**31,  # The server ends the episodes.
            timeout=timeout,
        )
        self._chosen = {} if environment is None else {"environment": environment}
        if environment is not None:
            self._call("reset", **self._chosen)
        try:
            state = StateReply.model_validate(self._call("state"))
        except ValueError as error:
            raise self._refused(f"the state is invalid: {error}") from error
        if len(state.possible_agents) != 1:
            names = ", ".join(state.possible_agents)
            raise self._refused(f"{names or 'no agents'} are left to one model: name partners")
        [self._agent] = state.possible_agents
        self._answers = state.answers.get(self._agent, [])

    def sample_answers(self, agent: str, rng: np.random.Generator, count: int) -> Samples:
        """Return up to `count` legal answers in random order, or None if any text is legal."""
        answers = self._answers
        return tuple(answers[i] for i in rng.permutation(len(answers))[:count]) or None

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode and return {"agent_0": text}, {"agent_0": {}}. EnvError if this fails.

        `options` are the reset options of the game on the server.
        """
        given = {"options": dict(options)} if options else {}
        return super().reset(seed, {**self._chosen, **given})

    def _sent(self, action: Any) -> Mapping[str, Any]:
        return {"actions": {self._agent: action}}

    def _own_text(self, observation: Mapping[str, Any]) -> Any:
        texts = observation.get("observations")
        return texts.get(self._agent) if isinstance(texts, dict) else None


class FocalAgent(wrappers.FocalAgent):
    """One agent of a game on a server, for TRL's `environment_factory`.

    Partners on the server play the other agents. The server needs one session per concurrent
    completion.
    `environment` is the name of a game of the server, by default its first. Raises EnvError for a
    wrong `url`, for every failure of the server, and if several agents lack partners.
    """

    def __init__(self, url: str, environment: str | None = None) -> None:
        super().__init__(PartnerGame(url, environment))
