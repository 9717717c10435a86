"""Speed of an environment server in its own process.

python -m benchmarks.env_server [--sessions 64] [--repeats 5] [--json FILE]

Timed are steps of a game for four agents: one call per session, and one call for all sessions.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from benchmarks import records
from benchmarks.records import Check, Repeats, in_turns, ratios
from srl_extensions.remote.client import connect

SINGLE, BATCHED = "a call for each session", "one call for all sessions"
GAME, OPTIONS = "coop_compete_v0", {"num_agents": 4, "max_cycles": 10**9}
FASTER = 4.0


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yield its address."""
    words = ["-m", "srl_train.cli", "serve", "env", GAME, "--port", "0"]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
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


def tables(found: dict[str, Repeats]) -> tuple[str, list[Check]]:
    """Return the result as Markdown, and its checks."""
    faster = ratios(found[SINGLE], found[BATCHED])
    claim = f"one call for all sessions is at least {FASTER:g} times as fast as a call for each"
    checks = [Check(claim, faster.middle >= FASTER, f"{faster:.1f} times")]
    lines = [(way, f"{own:.0f}", f"{1e6 / own.middle:.0f}") for way, own in found.items()]
    return records.table(("way", "microseconds per step", "steps per second"), lines), checks


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--sessions", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1280, help="timed steps per way and repeat")
    parser.add_argument("--repeats", type=int, default=5, help="measurements per way")
    options = parser.parse_args(arguments)
    with server() as address:
        found = speeds(address, options.sessions, options.steps, options.repeats)
    markdown, checks = tables(found)
    head = f"{options.sessions} sessions, {GAME} for four agents"
    result = {"microseconds": found}
    return records.keep("env_server", result, f"{head}\n\n{markdown}", options, checks)


if __name__ == "__main__":
    raise SystemExit(main())
