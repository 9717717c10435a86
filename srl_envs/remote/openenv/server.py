"""OpenEnv server of our games: sessions of one or several agents, each with a game of its own.

    app = create_app({"pair": ServedGame("coop_compete_v0", {"variant": "pair"})})
    serve(app, port=8000)

A client speaks OpenEnv's WebSocket protocol. Its action is `{"actions": {agent: words or number}}`
and what comes back is a JointObservation.
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

from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.loading import needed_by
from srl_envs.records import encode, is_plain
from srl_envs.scenarios import refuse_levels
from srl_envs.text import TextEnv
from srl_envs.validation import is_loopback, is_own_request, nearest, shown, whole_number

with needed_by("an OpenEnv server"):
    import openenv.core.env_server.http_server as http_server
    import uvicorn
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, ConcurrencyConfig, Observation, State
    from starlette.datastructures import Headers
    from starlette.middleware.body_limit import RequestBodyLimitMiddleware
    from starlette.responses import PlainTextResponse
    from starlette.types import ASGIApp, Receive, Scope, Send

MESSAGE_BYTES = 4 * 2**20
"""The longest message that a client may send."""
IDLE = 600.0
"""Seconds after which a session that nobody uses loses its place."""


@dataclass(frozen=True)
class ServedGame:
    """A game that clients may play."""

    name: str
    """As `srl_envs.make` takes it."""
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    text: bool = True
    """Whether it is observed and answered in words (TextEnv); else in its own observations, and by
    the numbers of actions."""
    history: int | None = None
    """Of a game in words: the past turns that every observation repeats, for readers that keep no
    conversation; None for those that do."""
    around: Callable[[Any], Any] | None = None
    """Put around the environment, such as partners that play some of its agents."""

    def make(self) -> Any:
        """A new environment.

        Raises EnvConfigError for wrong options, and for levels that are kept for evaluation.
        """
        env = registry.make(self.name, **self.options)
        refuse_levels(self.name, self.name, self.options, env)
        if self.around is not None:
            env = self.around(env)
        return TextEnv(env, history=self.history) if self.text else env


class JointAction(Action):  # type: ignore[misc]  # openenv is not installed where this is checked
    """What the agents do in one turn, one entry for each that is in the game."""

    actions: dict[str, str | int]
    """Agent -> its answer in words, or its action's number where the game is served in numbers."""


class JointObservation(Observation):  # type: ignore[misc]
    """What the agents see after a turn. `reward` is the sum of theirs, None after a reset, and
    `done` says that nobody is left in the game."""

    agents: list[str]
    """Those that act in the coming turn."""
    observations: dict[str, Any]
    """Agent -> its text or, in numbers, its observation as srl_envs.records writes
    it."""
    rewards: dict[str, float]
    """Of every agent that acted; none after a reset, as those below."""
    terminations: dict[str, bool]
    truncations: dict[str, bool]
    infos: dict[str, dict[str, Any]]
    """As tagged JSON; what is no plain data is left out."""


class GameState(State):  # type: ignore[misc]
    """The game of a session."""

    environment: str
    """As the server calls it."""
    environments: list[str]
    """All that it serves: reset(environment=...) chooses one."""
    possible_agents: list[str]
    text: bool
    answers: dict[str, list[str]]
    """Agent -> its legal answers, in action order; none where any text is one, or in numbers."""


class GameSession(Environment):  # type: ignore[misc]
    """One client's game, as OpenEnv's server calls it."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, games: Mapping[str, ServedGame]) -> None:
        super().__init__()
        self._games = games
        self._name = next(iter(games))
        self._env: Any = games[self._name].make()
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
        """Start an episode of `environment`, by default of the one that was played before.

        Raises EnvConfigError for an environment that is not served, and wrong arguments.
        """
        if unknown:
            raise EnvConfigError(
                f"reset() got {', '.join(map(shown, unknown))}: it takes seed, episode_id, "
                "environment and options"
            )
        if environment is not None and environment != self._name:
            if not isinstance(environment, str) or environment not in self._games:
                raise EnvConfigError(
                    f"{shown(environment)} is not served here{nearest(environment, self._games)}"
                )
            self.close()
            self._name, self._env = environment, self._games[environment].make()
        env = self._open()
        observations, infos = env.reset(seed=seed, options=options)
        self._episode, self._turns = episode_id, 0
        return self._seen(observations, infos, rewards={}, terminations={}, truncations={})

    def step(
        self, action: JointAction, timeout_s: float | None = None, **unknown: Any
    ) -> JointObservation:
        """Play one turn. Raises EnvError for missing and unknown agents, an action that the game
        has not, and where no episode is under way."""
        env = self._open()
        seen, rewards, terminations, truncations, infos = env.step(action.actions)
        self._turns += 1
        paid = {agent: float(reward) for agent, reward in rewards.items()}
        return self._seen(
            seen,
            infos,
            done=not env.agents,
            reward=sum(paid.values()),
            rewards=paid,
            terminations={agent: bool(over) for agent, over in terminations.items()},
            truncations={agent: bool(over) for agent, over in truncations.items()},
        )

    @property
    def state(self) -> GameState:
        """The game that is played; raises EnvError for a session that was closed."""
        env, game = self._open(), self._games[self._name]
        agents = list(env.possible_agents)
        view = env.unwrapped.text_view if game.text else None
        return GameState(
            episode_id=self._episode,
            step_count=self._turns,
            environment=self._name,
            environments=list(self._games),
            possible_agents=agents,
            text=game.text,
            answers={agent: list(view.answers(agent)) if view else [] for agent in agents},
        )

    def close(self) -> None:
        """Close the game."""
        if self._env is not None:
            self._env.close()
            self._env = None

    def _seen(
        self, observations: Mapping[str, Any], infos: Mapping[str, Mapping[str, Any]], **others: Any
    ) -> JointObservation:
        return JointObservation(
            agents=list(self._env.agents),
            observations={agent: encode(seen) for agent, seen in observations.items()},
            infos={
                agent: {key: encode(value) for key, value in info.items() if is_plain(value)}
                for agent, info in infos.items()
            },
            **others,
        )

    def _open(self) -> Any:
        if self._env is None:
            raise EnvError("this session was closed, unused for too long: connect again")
        return self._env


class OwnRequests:
    """ASGI middleware that refuses requests and WebSockets of other sites' pages."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with status 421."""
        app: ASGIApp = self._app
        if scope["type"] != "lifespan":
            sent = Headers(scope=scope)
            if not is_own_request(sent.get("host", ""), sent.get("origin"), self._names):
                app = PlainTextResponse(
                    "The request's Host is not a name of this server, or its Origin is another "
                    "site. Use the server's address, or allow its name: create_app(names=...)\n",
                    421,
                )
        await app(scope, receive, send)


def create_app(
    games: Mapping[str, ServedGame],
    *,
    max_sessions: int = 64,
    idle: float = IDLE,
    names: Iterable[str] = (),
) -> Any:
    """The FastAPI application that serves these games and no others, by the names given here.

    A connection is a session and has a game of its own, the first one until its reset names
    another. Sessions beyond `max_sessions` are refused, and one that was not used for `idle`
    seconds may lose its place. A request's Host must be `localhost`, an address or one of `names`,
    and its Origin, if any, the same.

    Every game is made once here: raises EnvConfigError for one that cannot be, for levels kept for
    evaluation, and where none is given.
    """
    if not games:
        raise EnvConfigError("create_app() was given no games: name at least one that is served")
    for game in games.values():
        game.make().close()
    app = http_server.create_app(
        partial(GameSession, dict(games)),
        JointAction,
        JointObservation,
        env_name="core-srl",
        concurrency_config=ConcurrencyConfig(
            max_concurrent_envs=whole_number("max_sessions", max_sessions, low=1),
            session_timeout=idle,
        ),
        state_cls=GameState,
    )
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=MESSAGE_BYTES)
    app.add_middleware(OwnRequests, names=names)
    return app


def serve(app: Any, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve an application until it is interrupted. Raises as `configured` does."""
    uvicorn.Server(configured(app, host, port)).run()


@contextmanager
def in_background(app: Any) -> Iterator[str]:
    """Serve an application in a thread of this process while the context lasts; its address.

    Raises EnvError where it does not start.
    """
    server = uvicorn.Server(configured(app, "127.0.0.1", 0))
    thread = threading.Thread(target=server.run, name="openenv-server", daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise EnvError("the OpenEnv server did not start: its log says why")
            time.sleep(0.01)
        [listening] = server.servers[0].sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def configured(app: Any, host: str, port: int) -> Any:
    """uvicorn's settings for an application: plain, on this machine alone, with short messages.

    OpenEnv asks nobody for a name. Raises EnvConfigError for a host that other machines reach.
    """
    if not is_loopback(host):
        raise EnvConfigError(
            f"host is {shown(host)}: OpenEnv has no tokens, so it is served on this machine alone "
            "(127.0.0.1); put a proxy that asks for them before it"
        )
    return uvicorn.Config(app, host=host, port=port, log_level="warning", ws_max_size=MESSAGE_BYTES)
