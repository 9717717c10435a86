"""OpenEnv server of our games, played in words.

    app = create_app({"pair": ServedGame("coop_compete_v0", {"variant": "pair"})})
    serve(app, port=8000)

An action is `{"actions": {agent: answer}}`, and the reply is a JointObservation.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from srl_envs import loading, registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.loading import needed_by
from srl_envs.records import encode, is_plain
from srl_envs.scenarios import refuse_levels
from srl_envs.text import TextEnv
from srl_envs.validation import is_own_request, nearest, shown, whole_number

with needed_by("an OpenEnv server"):
    import openenv.core.env_server.http_server as http_server
    import uvicorn
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
    from starlette.datastructures import Headers
    from starlette.middleware.body_limit import RequestBodyLimitMiddleware
    from starlette.responses import PlainTextResponse
    from starlette.types import ASGIApp, Receive, Scope, Send

MESSAGE_BYTES = 4 * 2**20
"""Maximum size of a message."""


@dataclass(frozen=True)
class ServedGame:
    """Environment that clients may play, with its options."""

    name: str
    """Name as in `srl_envs.make`."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    around: Callable[[Any], Any] | None = None
    """Function that wraps the environment, such as with partners, or None."""

    def make(self) -> Any:
        """Return a new TextEnv; EnvError for wrong options, held-out levels, or no text view."""
        env = registry.make(self.name, **self.options)
        refuse_levels(self.name, self.name, self.options, env)
        return TextEnv(self.around(env) if self.around else env)


class JointAction(Action):  # type: ignore[misc]  # openenv is not installed where mypy runs
    """Answers of one turn."""

    actions: dict[str, str]
    """Agent -> answer, for exactly the agents that act in this turn."""


class JointObservation(Observation):  # type: ignore[misc]
    """Texts after a reset or turn. A turn's `reward` is the sum of `rewards`."""

    agents: list[str]
    """Agents that act in the next turn."""
    observations: dict[str, str]
    rewards: dict[str, float]
    terminations: dict[str, bool]
    truncations: dict[str, bool]
    infos: dict[str, dict[str, Any]]
    """Infos as tagged JSON (`srl_envs.records`), without values that it cannot hold."""


class GameState(State):  # type: ignore[misc]
    """Description of a session's game."""

    environment: str
    """Name of the game on the server."""
    environments: list[str]
    """All games of the server: reset(environment=...) chooses one."""
    possible_agents: list[str]
    answers: dict[str, list[str]]
    """Agent -> its legal answers in action order; empty if any text is legal."""


class GameSession(Environment):  # type: ignore[misc]
    """Environment of one OpenEnv session. `games` is name -> (game, initial state)."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, games: Mapping[str, tuple[ServedGame, GameState]]) -> None:
        super().__init__()
        self._games = games
        self._name = next(iter(games))
        self._env: Any = None
        self._episode: str | None = None
        self._turns = 0

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        environment: str | None = None,
        options: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> JointObservation:
        """Start an episode of the game `environment`, and return the first texts.

        None selects the current game, which is the first one until a reset names another. `seed`
        and `options` are passed to the game's reset; `episode_id` is only shown in `state`. Raises
        EnvConfigError for an unknown game or argument, and the errors of the game's reset.
        """
        if unknown:
            raise EnvConfigError(
                f"reset() takes seed, episode_id, environment and options, got "
                f"{', '.join(map(shown, unknown))}"
            )
        name = self._name if environment is None else environment
        if not isinstance(name, str) or name not in self._games:
            raise EnvConfigError(f"{shown(name)} is not served here{nearest(name, self._games)}")
        if name != self._name:
            self.close()
        self._name = name
        if self._env is None:
            self._env = self._games[name][0].make()
        with loading.closed():  # The client's options may not name code.
            observations, infos = self._env.reset(seed=seed, options=options)
        self._episode, self._turns = episode_id, 0
        return _seen(self._env, observations, infos, rewards={}, terminations={}, truncations={})

    def step(
        self, action: JointAction, timeout_s: float | None = None, **unknown: Any
    ) -> JointObservation:
        """Play a turn; only `action` is used. EnvError unless exactly the active agents answer."""
        if self._env is None:
            raise EnvError("no episode is running in this session: call reset() first")
        seen, rewards, terminations, truncations, infos = self._env.step(action.actions)
        self._turns += 1
        paid = {agent: float(reward) for agent, reward in rewards.items()}
        return _seen(
            self._env, seen, infos,
            done=not self._env.agents, reward=sum(paid.values()), rewards=paid,
            terminations=terminations, truncations=truncations,
        )  # fmt: skip

    @property
    def state(self) -> GameState:
        """Description of the current game, with its `episode_id` (or None) and `step_count`."""
        progress = {"episode_id": self._episode, "step_count": self._turns}
        state: GameState = self._games[self._name][1].model_copy(update=progress)
        return state

    def close(self) -> None:
        """Close the environment, if there is one. The next reset makes another one."""
        if self._env is not None:
            self._env.close()
            self._env = None


def _seen(env: Any, observations: Any, infos: Any, **others: Any) -> JointObservation:
    plain = {
        agent: {key: encode(value) for key, value in info.items() if is_plain(value)}
        for agent, info in infos.items()
    }
    agents = list(env.agents)
    return JointObservation(agents=agents, observations=observations, infos=plain, **others)


class OwnRequests:
    """ASGI middleware that refuses requests unless `is_own_request` with the hosts `names`."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to `app`; answer with status 421 if Host or Origin is foreign."""
        app: ASGIApp = self._app
        if scope["type"] != "lifespan":
            sent = Headers(scope=scope)
            if not is_own_request(sent.get("host", ""), sent.get("origin"), self._names):
                app = PlainTextResponse(
                    "Host or Origin is foreign: use the server's address or create_app(names=)\n",
                    421,
                )
        await app(scope, receive, send)


def create_app(
    games: Mapping[str, ServedGame],
    *,
    max_sessions: int = 64,
    names: Iterable[str] = (),
) -> Any:
    """Make the FastAPI application that serves games.

    A connection is a session, which plays the first game until its reset names another.

    Args:
        games: Name on the server -> game.
        max_sessions: Maximum number of sessions, at least 1.
        names: Host names allowed in requests, in addition to `localhost` and IP addresses.

    Raises:
        EnvError: If a game cannot be made or has held-out levels, or an argument is wrong.
    """
    if not games:
        raise EnvConfigError("create_app() was given no games: name at least one that is served")
    whole_number("max_sessions", max_sessions, low=1)
    described = {}
    for name, game in games.items():
        env = game.make()
        agents, view = list(env.possible_agents), env.unwrapped.text_view
        env.close()
        state = GameState(
            environment=name,
            environments=list(games),
            possible_agents=agents,
            answers={agent: list(view.answers(agent) or ()) for agent in agents},
        )
        described[name] = game, state
    app = http_server.create_app(
        partial(GameSession, described),
        JointAction,
        JointObservation,
        env_name="core-srl",
        max_concurrent_envs=max_sessions,
        state_cls=GameState,
    )
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=MESSAGE_BYTES)
    app.add_middleware(OwnRequests, names=names)
    return app


def serve(app: Any, *, port: int = 8000, sockets: Any = None) -> None:
    """Serve until SIGINT or SIGTERM, which is raised again; SystemExit if the port is in use.

    Listening `sockets` replace `port`.
    """
    server_at(app, port).run(sockets)


@contextmanager
def in_background(app: Any) -> Iterator[str]:
    """Serve in a thread on a free port, and yield the URL; EnvError if the server cannot start."""
    server = server_at(app, 0)
    thread = threading.Thread(target=server.run, name="openenv-server", daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise EnvError("the OpenEnv server did not start; see its log")
            time.sleep(0.01)
        [listening] = server.servers[0].sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def server_at(app: Any, port: int) -> uvicorn.Server:
    """Return the server at a port of this machine alone: OpenEnv has no tokens."""
    limits = {"log_level": "warning", "ws_max_size": MESSAGE_BYTES}
    return uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, **limits))
