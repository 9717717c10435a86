"""The calls of the service: sessions opened, played on, looked at and closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from srl_envs.remote.connection import PlayedGame
from srl_envs.remote.errors import WireError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server.gate import Gate
from srl_envs.remote.server.offers import Offers, described, version
from srl_envs.remote.server.refusals import Refused
from srl_envs.remote.server.sessions import Session, Sessions
from srl_envs.remote.server.settings import ServerSettings
from srl_envs.remote.server.threads import Hung, Threads
from srl_envs.remote.server.turns import Turn, looked, played, resets, steps
from srl_envs.remote.server.work import Pieces

T = TypeVar("T")
LOOK = 1.0
"""Seconds between two looks for sessions whose lease has run out."""
MOST_GAMES = 1000
"""Of one call of Play."""
MOST_AGENT_STEPS = 50_000
"""Maximum of steps times agents in one game of Play, whose record is kept in memory."""


class Player(Protocol):
    """Plays whole games with policies that are known by name: the server itself knows none."""

    @property
    def policies(self) -> Sequence[str]:
        """The names that may be played with."""
        ...

    def __call__(
        self, env: Any, players: Mapping[str, str], seed: int, at_turn: Callable[[int], None]
    ) -> PlayedGame:
        """One game, each agent played by its policy. Raises EnvError for what cannot be played.

        `at_turn` receives the number of steps after every step. Its exceptions end the game.
        """
        ...


class Service:
    """The methods behind the gate, by the names of the protocol in lower case.

    The gate counts a session that is refused while others of its call are played, too.
    """

    def __init__(self, settings: ServerSettings, gate: Gate, player: Player | None = None) -> None:
        self._settings, self._gate, self._player = settings, gate, player
        self._offers = Offers(tuple(settings.environments))
        self.sessions = Sessions(
            settings.max_sessions, settings.max_sessions_per_client, settings.lease
        )
        # With several clients, one thread always remains for the other clients.
        share = settings.threads - (len(settings.tokens) > 1)
        self._threads = Threads(settings.threads, settings.max_hung, max(1, share))
        self._tasks: set[asyncio.Task[Any]] = set()
        self.draining = asyncio.Event()

    # The calls.

    async def describe(self, request: pb.DescribeRequest, client: str) -> pb.ServerDescription:
        """What is served here."""
        return pb.ServerDescription(
            version=version(),
            environments=self._offers.names,
            max_sessions=self._settings.max_sessions_per_client,
            lease_seconds=self._settings.lease,
            policies=self._player.policies if self._player else (),
            open_sessions=self.sessions.of(client),
            refused=self._gate.refused,
        )

    async def open(self, request: pb.OpenRequest, client: str) -> pb.OpenReply:
        """New sessions of one environment, all made alike."""
        copies = request.copies or 1
        self.sessions.reserve(client, copies)
        stop = threading.Event()
        return await self._finish(self._open(request, copies, client, stop), stop)

    async def reset(self, request: pb.ResetRequest, client: str) -> pb.Frames:
        """New episodes."""
        return await self._turns(client, resets(request))

    async def step(self, request: pb.StepRequest, client: str) -> pb.Frames:
        """One round in each session."""
        return await self._turns(client, steps(request))

    async def stream(
        self, requests: AsyncIterator[pb.StepRequest], client: str
    ) -> AsyncIterator[pb.Frames]:
        """As `step`, over and over. A stream that is silent for as long as a lease is refused."""
        drained = asyncio.ensure_future(self.draining.wait())
        following = asyncio.ensure_future(_next(requests))
        try:
            while True:
                await asyncio.wait(
                    {following, drained},
                    timeout=self._settings.lease,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not following.done():
                    if drained.done():
                        raise Refused("UNAVAILABLE", "draining", "this server is ending")
                    raise Refused("DEADLINE_EXCEEDED", "silent", "the stream was silent too long")
                request = following.result()
                if request is None:
                    return
                yield await self._turns(client, steps(request), streamed=True)
                following = asyncio.ensure_future(_next(requests))
        finally:
            drained.cancel()
            following.cancel()

    async def look(self, request: pb.LookRequest, client: str) -> pb.Value:
        """The joint state, or a picture."""
        looks = {pb.LookRequest.STATE: "state", pb.LookRequest.PICTURE: "render"}
        if request.thing not in looks:
            raise WireError(f"thing {request.thing} is none to look at")
        session = self.sessions.find(request.session, client)
        await _idle([session])
        look = partial(looked, session, looks[request.thing])
        [value] = await self._finish(self._work(client, [session], [look]))
        return _given(value)

    async def play(self, request: pb.PlayRequest, client: str) -> AsyncIterator[pb.PlayedGame]:
        """Whole games, each in the same environment from a seed of its own."""
        if self._player is None:
            raise Refused("UNIMPLEMENTED", "no player", "this server plays no games itself")
        if len(request.seeds) > MOST_GAMES:
            raise Refused(
                "INVALID_ARGUMENT", "too many games",
                f"{len(request.seeds)} games, at most {MOST_GAMES} are played in one call",
            )  # fmt: skip
        players = dict(request.players)
        for policy in players.values():
            if policy not in self._player.policies:
                raise Refused(
                    "INVALID_ARGUMENT", "unknown policy",
                    f"{policy!r:.100} plays nothing here: there are "
                    f"{', '.join(self._player.policies)}",
                )  # fmt: skip
        self.sessions.reserve(client, 1)
        stop = threading.Event()
        task = self._begin(self._work(client, [], [partial(self._offers.make, request)], stop))
        try:
            env = _given(*await asyncio.shield(task))
            at_turn = partial(_at_turn, stop, MOST_AGENT_STEPS // len(env.possible_agents))
            for seed in request.seeds:
                game = partial(self._player, env, players, seed, at_turn)
                task = self._begin(self._work(client, [], [game], stop))
                yield pb.PlayedGame(**vars(_given(*await asyncio.shield(task))))
        finally:  # a game whose client is gone ends at its next step, and counts until then
            stop.set()
            task.add_done_callback(lambda _: self.sessions.release(client))

    async def close(self, request: pb.CloseRequest, client: str) -> pb.CloseReply:
        """End sessions; those that are no more are passed over."""
        there = self.sessions.all()
        mine = [there[one] for one in request.sessions if one in there]
        mine = [session for session in mine if session.client == client]
        for session in mine:
            self.sessions.end(session, "closed")
        if mine:
            await self._finish(self._close(mine))
        return pb.CloseReply(closed=len(mine))

    async def end_expired(self) -> None:
        """End sessions whose lease has run out, for as long as the server runs."""
        while True:
            await asyncio.sleep(min(LOOK, self._settings.lease / 4))
            gone = list(self.sessions.expired())
            for session in gone:
                self.sessions.end(session, "expired")
            if gone:
                await self._close(gone)

    async def end(self) -> None:
        """Close all environments."""
        gone = list(self.sessions.all().values())
        for session in gone:
            self.sessions.end(session, "closed")
        await self._close(gone)
        self._threads.close()

    # The machinery.

    async def _open(
        self, request: pb.OpenRequest, copies: int, client: str, stop: threading.Event
    ) -> pb.OpenReply:
        make = partial(self._offers.make, request)
        made: list[Any] = []
        try:
            made = await self._work(client, [], [make] * copies, stop)
            envs = [_given(one) for one in made]
            [told] = await self._work(client, [], [partial(described, envs[0])], stop)
            environment = _given(told)
        except (Refused, WireError):
            self.sessions.release(client, copies)
            raise
        sessions = [self.sessions.add(client, env) for env in envs]
        return pb.OpenReply(
            sessions=[session.id for session in sessions],
            environment=environment,
            lease_seconds=self._settings.lease,
        )

    async def _turns(
        self, client: str, turns: Sequence[Turn], *, streamed: bool = False
    ) -> pb.Frames:
        """A frame for each. Not in a stream, a call of which nothing is played is refused."""
        if len({turn.session for turn in turns}) < len(turns):
            raise WireError("a session stands in the call twice")
        sessions: dict[str, Session] = {}
        frames: dict[str, pb.Frame | Refused] = {}
        for turn in turns:
            try:
                sessions[turn.session] = self.sessions.find(turn.session, client)
            except Refused as refusal:
                frames[turn.session] = refusal
        await _idle(sessions.values())
        wanted: list[tuple[Turn, Session]] = []
        for turn in turns:
            session = sessions.get(turn.session)
            if session is None:
                continue
            if session.id not in self.sessions.all():  # it hung, or was closed, meanwhile
                frames[turn.session] = Refused("NOT_FOUND", "unknown session", "it has ended")
            elif turn.number == session.turn:
                wanted.append((turn, session))
            elif turn.number == session.turn - 1 and session.reply is not None:
                frames[turn.session] = session.reply
            else:
                frames[turn.session] = Refused(
                    "FAILED_PRECONDITION", "replayed",
                    f"turn {turn.number} was sent, and the session is at turn {session.turn}",
                )  # fmt: skip
        if wanted:
            stop = threading.Event()
            outcomes = await self._finish(
                self._work(
                    client,
                    [session for _, session in wanted],
                    [partial(played, turn, session) for turn, session in wanted],
                    stop,
                ),
                stop,
            )
            frames.update(
                (turn.session, one) for (turn, _), one in zip(wanted, outcomes, strict=True)
            )
        given = [frames[turn.session] for turn in turns]
        refusals = [one for one in given if isinstance(one, Refused)]
        if refusals and len(refusals) == len(given) and not streamed:
            raise refusals[0]
        return pb.Frames(
            frames=[
                pb.Frame(session=turn.session, turn=turn.number, refusal=self._gate.refuse(one))
                if isinstance(one, Refused)
                else one
                for turn, one in zip(turns, given, strict=True)
            ]
        )

    def _work(
        self,
        client: str,
        sessions: Sequence[Session],
        pieces: Sequence[Callable[[], Any]],
        stop: threading.Event | None = None,
    ) -> Coroutine[Any, Any, list[Any]]:
        """What each piece gave, or its Refused; piece i is on session i, and from now on nothing
        else uses the sessions. A session whose piece hangs or fails ends. No piece begins once
        `stop` is set."""
        busy: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for session in sessions:
            session.busy = busy
        return self._worked(client, busy, sessions, Pieces(pieces, stop or threading.Event()))

    async def _worked(
        self, client: str, busy: asyncio.Future[None], sessions: Sequence[Session], work: Pieces
    ) -> list[Any]:
        try:
            await self._threads.run(work, self._settings.step_seconds, client)
        except Hung:
            at = work.abandon()
            work.results.append(
                Refused(
                    "DEADLINE_EXCEEDED",
                    "slow",
                    f"the environment took longer than {self._settings.step_seconds:g} s, and was "
                    "given up",
                )
            )
            work.results.extend(
                Refused("ABORTED", "not played", "another session of the call hung: send it again")
                for _ in work.pieces[at + 1 :]
            )
        finally:
            for session in sessions:
                session.busy = None
                self.sessions.renew(session)
            busy.set_result(None)
        work.results.extend(_cancelled() for _ in work.pieces[len(work.results) :])
        for session, result in zip(sessions, work.results, strict=bool(sessions)):
            if isinstance(result, Refused) and result.reason in ("slow", "failed"):
                self.sessions.end(session, result.reason)
        return work.results

    async def _close(self, sessions: Sequence[Session]) -> None:
        await _idle(sessions)
        await self._work("", [], [session.env.close for session in sessions])

    async def _finish(self, work: Coroutine[Any, Any, T], stop: threading.Event | None = None) -> T:
        """Wait for work. If the call is cancelled, set `stop` and leave the work to end later."""
        try:
            return await asyncio.shield(self._begin(work))
        except asyncio.CancelledError:
            if stop is not None:
                stop.set()
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # is looked at, where the client that waited for it is gone


async def _idle(sessions: Any) -> None:
    """Wait until no call uses any of the sessions."""
    while busy := {session.busy for session in sessions if session.busy is not None}:
        await asyncio.wait(busy)


def _at_turn(stop: threading.Event, most: int, turn: int) -> None:
    """Raise Refused to end a game of Play."""
    if stop.is_set():
        raise _cancelled()
    if turn > most:
        raise Refused(
            "RESOURCE_EXHAUSTED", "too many steps",
            f"a game must have at most {most} steps with this number of agents, got another",
        )  # fmt: skip


def _cancelled() -> Refused:
    return Refused("CANCELLED", "cancelled", "the call ended before its work")


def _given(result: Any) -> Any:
    if isinstance(result, Refused):
        raise result
    return result


async def _next(requests: AsyncIterator[pb.StepRequest]) -> pb.StepRequest | None:
    return await anext(requests, None)
