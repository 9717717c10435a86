"""Session at an OpenEnv server: its WebSocket protocol, with everything that comes checked.

OpenEnv's own client connects again by itself where a connection was lost, and so goes on with
another game; this one ends with an EnvError.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from srl_envs.errors import DocumentError, EnvConfigError, EnvError
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable, read_json
from srl_envs.validation import is_loopback, number_between, shown

with needed_by("a client of OpenEnv servers"):
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import ClientConnection, connect

MESSAGE_BYTES = 4 * 2**20
"""The longest message that is read."""
QUOTED = 300
"""Characters of what a server said that an error quotes."""
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


class Reply(NamedTuple):
    """What a server answers to a reset or a step."""

    observation: dict[str, Any]
    reward: float
    """0 where the server gave none."""
    done: bool


class Session:
    """A game at the OpenEnv server at `url`, connected at the first call.

    Whatever the server does wrong, and whatever it refuses, is an EnvError. After one the session
    is over, and `reset` begins a new one.
    """

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in SCHEMES or not parts.hostname:
            raise EnvConfigError(f"url is {shown(url)}: give one such as http://127.0.0.1:8000")
        self.url = url
        self._address = f"{SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}/ws"
        self._timeout = number_between("timeout", timeout, 0.001)
        self._connection: ClientConnection | None = None

    def reset(self, **arguments: Any) -> Reply:
        """Start an episode."""
        return self._reply(self._asked({"type": "reset", "data": arguments}, begins=True))

    def step(self, action: Mapping[str, Any]) -> Reply:
        """Play one turn."""
        return self._reply(self._asked({"type": "step", "data": dict(action)}))

    def state(self) -> dict[str, Any]:
        """The server's record of the episode."""
        return self._asked({"type": "state"}, begins=True)

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def refused(self, why: str) -> EnvError:
        """The error about something that the server said; the session is over."""
        self.close()
        return EnvError(f"{self.url}: {printable(why, multiline=False)[:QUOTED]}")

    def _connected(self) -> ClientConnection:
        try:
            return connect(
                self._address,
                open_timeout=self._timeout,
                close_timeout=1.0,
                max_size=MESSAGE_BYTES,
                # A proxy cannot reach this machine's own addresses.
                proxy=None if is_loopback(urlsplit(self.url).hostname or "") else True,
                max_queue=1,  # a reply is waited for before anything is asked again
            )
        except (OSError, WebSocketException) as error:
            raise self.refused(f"no OpenEnv server answers ({error})") from error

    def _asked(self, message: Mapping[str, Any], *, begins: bool = False) -> dict[str, Any]:
        """The data of the reply to a message; one that `begins` a session connects."""
        if self._connection is None:
            if not begins:
                raise EnvError(f"{self.url}: no episode is under way, call reset() first")
            self._connection = self._connected()
        try:
            self._connection.send(json.dumps(message))
            reply = read_json(self._connection.recv(timeout=self._timeout), max_bytes=MESSAGE_BYTES)
        except TimeoutError as error:
            raise self.refused(f"no reply within {self._timeout:g} s") from error
        except (OSError, WebSocketException) as error:
            raise self.refused(f"the connection was lost ({error})") from error
        except DocumentError as error:
            raise self.refused(f"the reply cannot be read: {error}") from error
        data = reply.get("data") if isinstance(reply, dict) else None
        if not isinstance(data, dict):
            raise self.refused(f"the reply has no data: {shown(reply)}")
        if reply.get("type") == "error":
            raise self.refused(f"refused: {data.get('message')}")
        return data

    def _reply(self, data: Mapping[str, Any]) -> Reply:
        observation, reward = data.get("observation"), data.get("reward")
        done = data.get("done", False)
        if not isinstance(observation, dict):
            raise self.refused(f"the observation is no object: {shown(observation)}")
        if not isinstance(done, bool):
            raise self.refused(f"done is not true or false: {shown(done)}")
        return Reply(observation, 0.0 if reward is None else self.number("reward", reward), done)

    def number(self, what: str, value: Any) -> float:
        """A finite number that the server said; a truth value counts as 0 or 1, as OpenEnv has
        it."""
        try:
            found = float(value) if isinstance(value, int | float) else math.nan
        except OverflowError:
            found = math.inf
        if not math.isfinite(found):
            raise self.refused(f"{what} is no finite number: {shown(value)}")
        return found
