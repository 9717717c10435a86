"""Episodes of an evaluation: played with limits, written as they end, and resumed."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

from srl_agents.episode import Decision, Episode, read_jsonl, to_json
from srl_agents.errors import BackendError
from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_agents.evaluation.progress import LongWork
from srl_agents.event_loop import run
from srl_agents.policy import Policy
from srl_agents.rollout import ALL_AT_ONCE, Game
from srl_train.errors import ConfigError
from srl_train.run_files import asked_for, refuse_taken, write_whole

CONCURRENCY = 64
"""Default of the maximum number of concurrent episodes."""
MAY_CHANGE = ("concurrency", "quiet", "resume")
"""Arguments of a command that may differ when it is resumed."""


@dataclass(frozen=True)
class EpisodePlan:
    """Environment, policies and seeds of one episode."""

    make: Callable[[], Any]
    """Constructor of the environment."""
    seats: Mapping[str, Policy]
    """Agent to policy."""
    seed: int
    """Seed of the environment's reset."""
    policy_seed: int
    names: Mapping[str, str]
    """Agent to name in the record."""
    extra: Mapping[str, Any]
    """JSON data for `Episode.extra`."""


@dataclass
class TimedGame(Game):
    """Running episode that fails after a number of seconds."""

    seconds: float | None = None
    """Time limit in seconds; None for no limit."""

    def begin(self) -> None:
        """Start the time, and reset the environment."""
        now = asyncio.get_running_loop().time()
        self.deadline = None if self.seconds is None else now + self.seconds
        super().begin()

    async def ask(self, decisions: dict[str, Decision], *, leaders: bool) -> None:
        """Add decisions as `Game.ask` does; raise BackendError after the time limit."""
        try:
            async with asyncio.timeout_at(self.deadline) as limit:
                await super().ask(decisions, leaders=leaders)
        except TimeoutError:
            if not limit.expired():
                raise
        # Policies and environments that do not wait cannot be interrupted.
        now = asyncio.get_running_loop().time()
        if limit.expired() or (self.deadline is not None and now > self.deadline):
            raise BackendError(f"the episode did not end within {self.seconds} seconds (--timeout)")


@dataclass(frozen=True)
class EpisodeRunner:
    """Limits of the episodes of an evaluation, and the folder of their records."""

    concurrency: int = CONCURRENCY
    """Maximum number of concurrent episodes."""
    timeout: float | None = None
    """Seconds after which an episode fails; None for no limit."""
    retries: int = 0
    """Number of times that a failed episode is played again, with the same seeds."""
    folder: Path | None = None
    """Folder of the records; None to write none. Recorded episodes are not played again."""

    def play(self, name: str, plans: Sequence[EpisodePlan]) -> list[Episode]:
        """Play the episodes, and append each to FOLDER/NAME.jsonl as soon as it ends.

        Args:
            name: Name of the scenario or environment.
            plans: Episodes to play. The number in this list identifies an episode in the file.

        Returns:
            The episodes in the order of `plans`. The `failure` of a failed episode is set.

        Raises:
            ConfigError: If the file cannot be written.
        """
        if self.folder is None:
            return run(self._play(name, plans, {}, None))
        path = self.folder / f"{name}.jsonl"
        with asked_for("episodes", path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+", encoding="ascii")
        with file:
            return run(self._play(name, plans, _finished(path), file))

    async def _play(
        self, name: str, plans: Sequence[EpisodePlan], done: dict[int, Episode], file: TextIO | None
    ) -> list[Episode]:
        known, begun, in_flight = len(done), time.monotonic(), 0
        failed = sum(episode.failure is not None for episode in done.values())
        waiting = (number for number in range(len(plans)) if number not in done)
        work = LongWork(f"playing {name}")

        def tell_progress(turn: int = 0) -> None:
            remaining: object = "unknown"
            if len(done) > known:
                pace = (time.monotonic() - begun) / (len(done) - known)
                remaining = timedelta(seconds=round(pace * (len(plans) - len(done))))
            work.at(
                f"{len(done)} of {len(plans)} episodes finished, {in_flight} in flight, {failed} "
                f"failed, remaining time {remaining}"
            )

        async def work_through() -> None:
            nonlocal in_flight, failed
            for number in waiting:
                in_flight += 1
                episode = await self._episode(plans[number], number, tell_progress)
                in_flight -= 1
                if file is not None:
                    with asked_for("episodes", Path(file.name)):
                        file.write(to_json(episode) + "\n")
                        file.flush()
                done[number] = episode
                failed += episode.failure is not None
                tell_progress()

        count = min(self.concurrency, len(plans) - known)
        workers = [asyncio.create_task(work_through()) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return [done[number] for number in range(len(plans))]

    async def _episode(
        self, plan: EpisodePlan, number: int, at_turn: Callable[[int], None]
    ) -> Episode:
        """Play an episode until an attempt does not fail, or no attempt is left."""
        for attempt in range(self.retries + 1):
            env = plan.make()
            try:
                game = TimedGame(
                    *(env, plan.seats, plan.seed, plan.policy_seed, ALL_AT_ONCE),
                    reset_options={"episode": LONG_AFTER},
                    given_names=plan.names,
                    extra={**plan.extra, "number": number},
                    at_turn=at_turn,
                    seconds=self.timeout,
                )
                episode = await game.play()
            finally:
                env.close()
            if episode.failure is None or attempt == self.retries:
                break
        return episode


UNRECORDED = EpisodeRunner()
"""Runner with the default limits, which writes no records."""


def add_episode_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of an `EpisodeRunner`, and --resume."""
    add = parser.add_argument
    add(
        "--concurrency", type=int, default=CONCURRENCY, metavar="N",
        help=f"maximum number of concurrent episodes (default: {CONCURRENCY})",
    )  # fmt: skip
    add(
        "--timeout", type=float, metavar="SECONDS",
        help="time after which an episode fails (default: no limit)",
    )  # fmt: skip
    add(
        "--retries", type=int, default=0, metavar="N",
        help="number of new attempts of a failed episode, with the same seeds (default: 0)",
    )  # fmt: skip
    add(
        "--resume", action="store_true",
        help="play only the episodes that the interrupted command has not written",
    )  # fmt: skip


def runner_of(args: argparse.Namespace, folder: Path | None) -> EpisodeRunner:
    """Return the runner of a command line, whose episodes are written to the folder.

    FOLDER/command.json records the command line.

    Raises:
        ConfigError: If the folder contains files and --resume was not given, or if --resume was
            given and the command line differs from the recorded one.
    """
    runner = EpisodeRunner(args.concurrency, args.timeout, args.retries, folder)
    if folder is None:
        return runner
    given = {name: str(value) for name, value in vars(args).items() if name not in MAY_CHANGE}
    path = folder / "command.json"
    if not (args.resume and path.exists()):
        refuse_taken(folder)
        with asked_for("episodes", path):
            write_whole(path, json.dumps(given, indent=1) + "\n")
        return runner
    then = json.loads(path.read_text())
    changed = [
        f"{name} ({given.get(name)}, was {then.get(name)})"
        for name in {**then, **given}
        if given.get(name) != then.get(name)
    ]
    if changed:
        raise ConfigError(
            f"--resume: the command line must be that of {path}, but differs in "
            f"{', '.join(changed)}"
        )
    return runner


def _finished(path: Path) -> dict[int, Episode]:
    """Return the episodes of a file by number, and remove a last line that is not complete."""
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
    return {episode.extra["number"]: episode for episode in read_jsonl(path)}
