"""An environment server in a process of its own: its speed, and whether it gives what is local.

python -m benchmarks.env_server [--minutes 10] [--sessions 64] [--repeats 5] [--json FILE]

Steps of a game for four agents: one session one call at a time, the same over a stream, all
sessions one call each at once, and all sessions in one call. The ways take turns, and ratios are
judged, since times on a busy machine vary. Then, for as many minutes as asked, all sessions play
three games at once; everything that they give is compared with the local game, and the server's
memory at the end with what it was once all had been played for a while.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import grpc
import numpy as np
import psutil

from benchmarks import records
from benchmarks.records import Check
from benchmarks.repeats import Repeats, in_turns, ratios
from srl_envs import registry
from srl_envs.vector import SyncVectorGame
from srl_extensions.remote import connect
from srl_extensions.remote import environments_pb2 as pb
from srl_extensions.remote.messages import from_step
from srl_extensions.remote.remote_env import RemoteEnv

UNARY, STREAM = "one session, a call a step", "one session, over a stream"
AT_ONCE, BATCHED = "all sessions, a call each at once", "all sessions, one call a step"
GAME, OPTIONS = "coop_compete_v0", {"num_agents": 4, "max_cycles": 10**9}
PLAYED: dict[str, dict[str, Any]] = {
    "coop_compete_v0": {"num_agents": 4, "max_cycles": 20},
    "maze_race_v0": {"width": 7, "height": 7, "max_cycles": 40},
    "social_negotiation_v0": {"max_cycles": 20},
}
BATCH_FASTER, STREAM_SHARE, GROWTH = 4.0, 0.9, 0.10
WARM = 0.1
"""Share of the minutes after which memory is first looked at: by then all has been played."""
REOPENED = 50
"""Rounds of games after which all sessions are closed and others opened."""

AS_BYTES = {
    "request_serializer": pb.StepRequest.SerializeToString,
    "response_deserializer": pb.Frames.FromString,
}


@contextmanager
def server() -> Iterator[tuple[str, psutil.Process]]:
    """A server's address and process."""
    words = ["-m", "srl_train.cli", "serve", "env", *PLAYED, "--port", "0"]
    command = [sys.executable, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], psutil.Process(process.pid)
        finally:
            process.terminate()


class Client:
    """Sessions of the timed game, stepped as fast as a client can that reads all it is given."""

    def __init__(self, address: str, count: int) -> None:
        self._address = address
        self._connection = connect(address)
        vector = self._connection.vector(GAME, count, **OPTIONS)
        vector.reset(seed=0)
        self.sessions: list[RemoteEnv] = vector.envs
        self._actions = dict.fromkeys(vector.possible_agents, 0)

    def close(self) -> None:
        """End the sessions."""
        for session in self.sessions:
            session.close()
        self._connection.close()

    def seconds(self, way: str, steps: int) -> float:
        """Per step of one session."""
        ways = {
            UNARY: partial(self._one, self._unary),
            STREAM: self._streamed,
            AT_ONCE: self._at_once,
            BATCHED: self._batched,
        }
        return asyncio.run(self._timed(ways[way], steps))

    async def _timed(self, way: Callable[[Any, int], Awaitable[int]], steps: int) -> float:
        async with grpc.aio.insecure_channel(self._address) as channel:
            await way(channel, 3)  # the connection is there, and everything has been called
            start = time.perf_counter()
            played = await way(channel, steps)
            return (time.perf_counter() - start) / played

    def _asked(self, sessions: Sequence[RemoteEnv]) -> pb.StepRequest:
        return pb.StepRequest(sessions=[one.to_step(self._actions) for one in sessions])

    def _read(self, sessions: Sequence[RemoteEnv], frames: pb.Frames) -> None:
        for session, frame in zip(sessions, frames.frames, strict=True):
            from_step(session.played(frame))

    def _unary(self, channel: Any) -> Any:
        return channel.unary_unary("/srl.env.v1.Environments/Step", **AS_BYTES)

    async def _one(
        self, call: Callable[[Any], Any], channel: Any, steps: int, session: int = 0
    ) -> int:
        step, mine = call(channel), self.sessions[session : session + 1]
        for _ in range(steps):
            self._read(mine, await step(self._asked(mine)))
        return steps

    async def _streamed(self, channel: Any, steps: int) -> int:
        mine = self.sessions[:1]
        stream = channel.stream_stream("/srl.env.v1.Environments/Stream", **AS_BYTES)()
        for _ in range(steps):
            await stream.write(self._asked(mine))
            self._read(mine, await stream.read())
        await stream.done_writing()
        return steps

    async def _at_once(self, channel: Any, steps: int) -> int:
        each = max(1, steps // len(self.sessions))
        played = (
            self._one(self._unary, channel, each, session) for session in range(len(self.sessions))
        )
        return sum(await asyncio.gather(*played))

    async def _batched(self, channel: Any, steps: int) -> int:
        step, rounds = self._unary(channel), max(1, steps // len(self.sessions))
        for _ in range(rounds):
            self._read(self.sessions, await step(self._asked(self.sessions)))
        return rounds * len(self.sessions)


def speeds(address: str, sessions: int, steps: int, repeats: int) -> dict[str, Repeats]:
    """Way -> microseconds per step of one session."""
    with closing(Client(address, sessions)) as client:
        ways = {
            way: partial(lambda way, repeat: 1e6 * client.seconds(way, steps), way)
            for way in (UNARY, STREAM, AT_ONCE, BATCHED)
        }
        return in_turns(ways, repeats, warm_ups=1)


def soak(address: str, process: psutil.Process, sessions: int, minutes: float) -> dict[str, float]:
    """Trajectories compared and different, steps, and the server's MiB of memory early and late."""
    share = sessions // len(PLAYED)
    counts = dict.fromkeys(PLAYED, share) | {GAME: sessions - share * (len(PLAYED) - 1)}
    found = {"trajectories": 0, "different": 0, "steps": 0, "early": 0.0, "late": 0.0}
    rng, start, rounds = np.random.default_rng(0), time.monotonic(), 0
    with connect(address) as connection:
        locals_ = {
            name: SyncVectorGame(partial(registry.make, name, **PLAYED[name]), count)
            for name, count in counts.items()
        }
        remotes: dict[str, Any] = {}
        while (past := time.monotonic() - start) < 60 * minutes:
            if rounds % REOPENED == 0:
                for remote in remotes.values():
                    remote.close()
                remotes = {
                    name: connection.vector(name, count, **PLAYED[name])
                    for name, count in counts.items()
                }
            if not found["early"] and past > WARM * 60 * minutes:
                found["early"] = process.memory_info().rss / 2**20
            for name, local in locals_.items():
                same, steps = _alike(local, remotes[name], int(rng.integers(2**31)), rng)
                found["trajectories"] += len(same)
                found["different"] += int((~same).sum())
                found["steps"] += steps
            rounds += 1
        found["late"] = process.memory_info().rss / 2**20
    return found


def _alike(local: Any, remote: Any, seed: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Which environments (N,) gave the same from reset to end, and how many steps were played."""
    count, choices = local.num_envs, int(local.single_action_space.n)
    same = _same(local.reset(seed=seed), remote.reset(seed=seed), count)
    over, steps = np.zeros(count, bool), 0
    while not over.all():
        actions = rng.integers(choices, size=(count, local.num_agents))
        here, there = local.step(actions), remote.step(actions)
        same &= _same(here, there, count)
        over |= (here[2] | here[3]).all(axis=1)
        steps += count
    return same, steps


def _same(one: Any, other: Any, count: int) -> np.ndarray:
    """For which environments all arrays are equal, bit for bit."""
    same = np.ones(count, bool)
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return ~same
        one, other = tuple(one.values()), tuple(other.values())
    if isinstance(one, tuple):
        for part, counterpart in zip(one, other, strict=True):
            same &= _same(part, counterpart, count)
        return same
    if one.dtype != other.dtype or one.shape != other.shape:
        return ~same
    pairs = zip(one, other, strict=True)
    if one.dtype.hasobject:
        return np.array([a.tolist() == b.tolist() for a, b in pairs])
    return np.array([a.tobytes() == b.tobytes() for a, b in pairs])


def tables(found: dict[str, Repeats], played: dict[str, float]) -> tuple[str, list[Check]]:
    """The result as Markdown, and what was to be reached."""
    batched = ratios(found[AT_ONCE], found[BATCHED])
    streamed = ratios(found[STREAM], found[UNARY])
    checks = [
        Check(
            f"one call for all steps at least {BATCH_FASTER:g} times as fast as a call each",
            batched.middle >= BATCH_FASTER, f"{batched:.1f} times",
        ),
        Check(
            f"a stream takes at most {STREAM_SHARE:g} of a call's time",
            streamed.middle <= STREAM_SHARE, f"{streamed:.2f}",
        ),
    ]  # fmt: skip
    if played["trajectories"]:
        growth = played["late"] / played["early"] - 1
        checks += [
            Check(
                "every trajectory equals the local one to the bit", not played["different"],
                f"{played['different']:.0f} of {played['trajectories']:.0f} differ, "
                f"{played['steps']:.0f} steps",
            ),
            Check(
                f"the server's memory grows by less than {GROWTH:.0%}", growth < GROWTH,
                f"{played['early']:.0f} to {played['late']:.0f} MiB, {growth:+.1%}",
            ),
        ]  # fmt: skip
    lines = [(way, f"{own:.0f}", f"{1e6 / own.middle:.0f}") for way, own in found.items()]
    table = records.table(("way", "microseconds per step", "steps per second"), lines)
    return table, checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = records.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of play to compare; 0: none")
    parser.add_argument("--sessions", type=int, default=64, help="at once")
    parser.add_argument("--steps", type=int, default=1280, help="timed, per way and repeat")
    parser.add_argument("--repeats", type=int, default=5, help="measured, per way")
    asked = parser.parse_args(arguments)
    with server() as (address, process):
        found = speeds(address, asked.sessions, asked.steps, asked.repeats)
        played = soak(address, process, asked.sessions, asked.minutes)
    markdown, checks = tables(found, played)
    head = f"{asked.sessions} sessions, {GAME} for four agents, {asked.minutes:g} minutes of play"
    result = {"microseconds": found, "play": played}
    return records.keep("env_server", result, f"{head}\n\n{markdown}", asked, checks)


if __name__ == "__main__":
    raise SystemExit(main())
