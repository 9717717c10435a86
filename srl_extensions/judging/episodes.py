"""Episodes of an evaluation: played with limits, written as they end, and resumed."""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from srl_agents.episode import Episode, read_jsonl, to_json
from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_agents.policy import Policy
from srl_agents.rollout import Game, play_many
from srl_envs.untrusted import read_json
from srl_train.errors import ConfigError
from srl_train.run_files import RunFiles, asked_for, refuse_taken, write_whole

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
    """Agent -> policy."""
    seed: int
    """Seed of the environment's reset."""
    policy_seed: int
    """Seed of the policies."""
    names: Mapping[str, str]
    """Agent -> name of its player in the record."""
    extra: Mapping[str, Any]
    """JSON data for `Episode.extra`."""


@dataclass
class TimedGame(Game):
    """Running episode with a time limit of `seconds`, or None for no limit."""

    seconds: float | None = field(kw_only=True)

    async def play(self) -> Episode:
        """Play the episode; return its record, with a `failure` if it took over `seconds`."""
        begun = time.monotonic()
        try:
            async with asyncio.timeout(self.seconds) as limit:
                await super().play()
        except TimeoutError:
            if not limit.expired():
                raise
        # A policy or environment that does not wait cannot be interrupted.
        if self.seconds is not None and time.monotonic() - begun > self.seconds:
            self.failure = (
                f"BackendError: the episode did not end within {self.seconds} seconds (--timeout)"
            )
        return self.episode()


@dataclass(frozen=True)
class EpisodeRunner:
    """Limits of the episodes of an evaluation, and the folder of their records."""

    concurrency: int = CONCURRENCY
    """Maximum number of concurrent episodes."""
    timeout: float | None = None
    """Seconds after which an episode fails; None for no limit."""
    retries: int = 0
    """Number of times that failed episodes are played again, with the same seeds."""
    folder: Path | None = None
    """Folder of the records; None to write none. Recorded episodes are not played again."""
    lock: object = None
    """Object that keeps the folder locked until the runner is deleted; None without a folder."""

    def play(self, name: str, plans: Sequence[EpisodePlan]) -> list[Episode]:
        """Play the planned episodes, and return all in the order of `plans`.

        With a `folder`, append each episode to `folder`/NAME.jsonl when its last attempt ends (NAME
        is `name` with _ for /). Episodes that the file already contains, also failed ones, are not
        played. An episode that fails in all attempts has its `failure`.

        Raise ConfigError for a file of other plans or not writable, EpisodeError for a damaged one.
        """
        path = None if self.folder is None else self.folder / f"{name.replace('/', '_')}.jsonl"
        done = {} if path is None else _finished(path, plans)
        for attempt in range(self.retries + 1):
            self._attempt(path, plans, done, last=attempt == self.retries)
        return [done[number] for number in range(len(plans))]

    def _attempt(
        self,
        path: Path | None,
        plans: Sequence[EpisodePlan],
        done: dict[int, Episode],
        *,
        last: bool,
    ) -> None:
        numbers = [number for number in range(len(plans)) if number not in done]
        left = [plans[number] for number in numbers]

        def keep(index: int, episode: Episode) -> None:
            if episode.failure is None or last:
                if path is not None:
                    with asked_for("episodes", path), path.open("a", encoding="ascii") as file:
                        file.write(to_json(episode) + "\n")
                done[numbers[index]] = episode

        play_many(
            [plan.make for plan in left],
            [plan.seats for plan in left],
            [plan.seed for plan in left],
            policy_seeds=[plan.policy_seed for plan in left],
            names=[plan.names for plan in left],
            extra=[{**plans[number].extra, "number": number} for number in numbers],
            reset_options=[{"episode": LONG_AFTER}] * len(left),
            in_flight=self.concurrency,
            make_game=partial(TimedGame, seconds=self.timeout),
            on_end=keep,
        )


UNRECORDED = EpisodeRunner()
"""Runner with the default limits, which writes no records."""


def add_episode_options(parser: argparse.ArgumentParser) -> None:
    """Add --concurrency, --timeout, --retries and --resume, read by `runner_of`, to a parser."""
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
    """Return the runner with a command line's limits, which writes episodes to `folder`, if any.

    Lock the folder, and write the command line to FOLDER/command.json. With --resume, compare it
    with an existing command.json instead. Raise ConfigError if more than MAY_CHANGE differs,
    command.json is invalid, or the folder is locked, not writable, or neither resumed nor empty.
    """
    limits = args.concurrency, args.timeout, args.retries
    if folder is None:
        return EpisodeRunner(*limits)
    given = {name: str(value) for name, value in vars(args).items() if name not in MAY_CHANGE}
    path = folder / "command.json"
    resumed = args.resume and path.exists()
    if not resumed:
        refuse_taken(folder, "continue with --resume, ")
    runner = EpisodeRunner(*limits, folder, RunFiles(folder, folder).lock())
    if not resumed:
        with asked_for("episodes", path):
            write_whole(path, json.dumps(given, indent=1) + "\n")
        return runner
    try:
        then = dict(read_json(path.read_bytes()))
    except (OSError, TypeError, ValueError) as error:
        raise ConfigError(f"--resume: {path} is no command line: {error}") from error
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


def _finished(path: Path, plans: Sequence[EpisodePlan]) -> dict[int, Episode]:
    """Return index in `plans` -> episode of a file, from which an incomplete last line is cut."""
    if not path.exists():
        return {}
    with asked_for("episodes", path), path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
    found: dict[int, Episode] = {}
    for line, episode in enumerate(read_jsonl(path), start=1):
        extra, number = episode.extra, episode.extra.get("number", -1)
        plan = plans[number] if isinstance(number, int) and 0 <= number < len(plans) else None
        if plan is None or episode.seed != plan.seed or not plan.extra.items() <= extra.items():
            raise ConfigError(f"--resume: episode {line} of {path} is of another command")
        found[number] = episode
    return found
