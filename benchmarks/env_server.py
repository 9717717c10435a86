"""Speed of an environment server in its own process, and equality with local environments.

python -m benchmarks.env_server [--minutes 10] [--sessions 64] [--repeats 5] [--json FILE]

Timed are steps of a game for four agents: one call per session, and one call for all sessions.
Then all sessions play three games for some minutes. Every array is compared with a local
environment's, and the server's memory at the end with its memory after a tenth of the time.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import psutil

from benchmarks import records
from benchmarks.records import Check, Repeats, in_turns, ratios
from srl_envs import registry
from srl_envs.vector import SyncVectorGame
from srl_extensions.remote.client import connect

SINGLE, BATCHED = "a call for each session", "one call for all sessions"
GAME, OPTIONS = "coop_compete_v0", {"num_agents": 4, "max_cycles": 10**9}
PLAYED: dict[str, dict[str, Any]] = {
    "coop_compete_v0": {"num_agents": 4, "max_cycles": 20},
    "maze_race_v0": {"width": 7, "height": 7, "max_cycles": 40},
    "social_negotiation_v0": {"max_cycles": 20},
}
FASTER, GROWTH = 4.0, 0.10
WARM = 0.1
"""Share of the minutes after which memory is first measured."""
REOPENED = 50
"""Number of games after which all sessions are closed and new ones opened."""


@contextmanager
def server() -> Iterator[tuple[str, psutil.Process]]:
    """Start a server; yield its address and process."""
    words = ["-m", "srl_train.cli", "serve", "env", *PLAYED, "--port", "0"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1], psutil.Process(process.pid)
        finally:
            process.terminate()


def speeds(address: str, sessions: int, steps: int, repeats: int) -> dict[str, Repeats]:
    """Return microseconds per step of one session, by the way of calling."""
    rounds = max(1, steps // sessions)
    with connect(address) as connection:
        envs = [connection.env(GAME, **OPTIONS) for _ in range(sessions)]
        vector = connection.vector(GAME, sessions, **OPTIONS)
        vector.reset(seed=0)
        for seed, env in enumerate(envs):
            env.reset(seed=seed)
        actions = dict.fromkeys(envs[0].possible_agents, 0)
        batch = np.zeros((sessions, vector.num_agents), np.int64)

        def single(_: int) -> float:
            start = time.perf_counter()
            for _round in range(rounds):
                for env in envs:
                    env.step(actions)
            return 1e6 * (time.perf_counter() - start) / (rounds * sessions)

        def batched(_: int) -> float:
            start = time.perf_counter()
            for _round in range(rounds):
                vector.step(batch)
            return 1e6 * (time.perf_counter() - start) / (rounds * sessions)

        return in_turns({SINGLE: single, BATCHED: batched}, repeats, warm_ups=1)


def soak(address: str, process: psutil.Process, sessions: int, minutes: float) -> dict[str, float]:
    """Return numbers of trajectories, different ones and steps, and memory early and late (MiB)."""
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
        while time.monotonic() - start < 60 * minutes:
            if rounds % REOPENED == 0:
                for remote in remotes.values():
                    remote.close()
                remotes = {
                    name: connection.vector(name, count, **PLAYED[name])
                    for name, count in counts.items()
                }
            for name, local in locals_.items():
                same, steps = _play_both(local, remotes[name], int(rng.integers(2**31)), rng)
                found["trajectories"] += len(same)
                found["different"] += int((~same).sum())
                found["steps"] += steps
            rounds += 1
            if not found["early"] and time.monotonic() - start > WARM * 60 * minutes:
                found["early"] = process.memory_info().rss / 2**20
        found["late"] = process.memory_info().rss / 2**20
    return found


def _play_both(
    local: Any, remote: Any, seed: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Play random actions to the end; return which environments (N,) are equal, and the steps."""
    count, choices = local.num_envs, int(local.single_action_space.n)
    same = equal(local.reset(seed=seed), remote.reset(seed=seed), count)
    over, steps = np.zeros(count, bool), 0
    while not over.all():
        actions = rng.integers(choices, size=(count, local.num_agents))
        here, there = local.step(actions), remote.step(actions)
        same &= equal(here, there, count)
        over |= (here[2] | here[3]).all(axis=1)
        steps += count
    return same, steps


def equal(one: Any, other: Any, count: int) -> np.ndarray:
    """Return for which of `count` environments all arrays are equal to the bit."""
    same = np.ones(count, bool)
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return ~same
        one, other = tuple(one.values()), tuple(other.values())
    if isinstance(one, tuple):
        for part, counterpart in zip(one, other, strict=True):
            same &= equal(part, counterpart, count)
        return same
    if one.dtype != other.dtype or one.shape != other.shape:
        return ~same
    pairs = zip(one, other, strict=True)
    if one.dtype.hasobject:
        return np.array([a.tolist() == b.tolist() for a, b in pairs])
    return np.array([a.tobytes() == b.tobytes() for a, b in pairs])


def tables(found: dict[str, Repeats], played: dict[str, float]) -> tuple[str, list[Check]]:
    """Return the result as Markdown, and its checks."""
    faster = ratios(found[SINGLE], found[BATCHED])
    claim = f"one call for all sessions is at least {FASTER:g} times as fast as a call for each"
    checks = [Check(claim, faster.middle >= FASTER, f"{faster:.1f} times")]
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
    return records.table(("way", "microseconds per step", "steps per second"), lines), checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="duration of the comparison")
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1280, help="timed steps per way and repeat")
    parser.add_argument("--repeats", type=int, default=5, help="measurements per way")
    options = parser.parse_args(arguments)
    with server() as (address, process):
        found = speeds(address, options.sessions, options.steps, options.repeats)
        played = soak(address, process, options.sessions, options.minutes)
    markdown, checks = tables(found, played)
    head = f"{options.sessions} sessions, {GAME} for four agents, {options.minutes:g} minutes"
    result = {"microseconds": found, "play": played}
    return records.keep("env_server", result, f"{head}\n\n{markdown}", options, checks)


if __name__ == "__main__":
    raise SystemExit(main())
