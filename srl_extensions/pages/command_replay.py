"""`srl replay`: a recorded episode played again, to verify or to watch it."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from srl_agents.episode import Episode, read_jsonl
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.replay import remade, replay
from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust
from srl_train.errors import ConfigError

SUFFIXES = (".gif", ".html")
MOST_FRAMES = 50  # per second: what a GIF can hold


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "episodes", metavar="EPISODES", type=Path,
        help="a file of RUN/episodes or of `srl play --record`, or a run's folder for its newest",
    )  # fmt: skip
    parser.add_argument("--episode", type=int, default=0, metavar="N", help="(default: 0)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="the animation: a name that ends in .html or .gif (default: only check the record)",
    )  # fmt: skip
    parser.add_argument(
        "--turns", metavar="FIRST:LAST", help="only these turns; 0 is the start (default: all)"
    )
    add_trust(parser)
    parser.add_argument("--fps", type=float, help="frames per second (default: the game's own)")


def run(args: argparse.Namespace) -> int:
    """Play the episode again, and write what was asked for."""
    path = _newest(args.episodes) if args.episodes.is_dir() else args.episodes
    episode = _episode(path, args.episode)
    if args.out is not None and args.out.suffix not in SUFFIXES:
        raise ConfigError(f"--out is {args.out}: give a name that ends in {' or '.join(SUFFIXES)}")
    first, last = _turns(args.turns, len(episode.turns))
    mode = None if args.out is None else "rgb_array"
    with closing(remade(episode, mode, trusted=args.trust)) as env:
        told = _replayed(args, path, episode, env, first, last)
    tell(told)
    return 0


def _replayed(
    args: argparse.Namespace, path: Path, episode: Episode, env: Any, first: int, last: int
) -> str:
    """Play it and write it; returns what there is to say of that."""
    speed = env.metadata.get("render_fps", 1) if args.fps is None else args.fps
    if not 0 < speed <= MOST_FRAMES:
        raise ConfigError(f"--fps is {speed:g}: give a number above 0, at most {MOST_FRAMES}")
    moments = enumerate(replay(episode, env))
    if args.out is None:
        for option in ("turns", "fps"):
            if getattr(args, option) is not None:
                raise ConfigError(f"--{option} is of the animation: give --out FILE as well")
        turns = sum(1 for _ in moments) - 1
        return f"{path}, episode {args.episode}: {turns} turns played again as recorded"
    # The whole record is checked, also the turns that are not shown.
    frames = (frame for turn, frame in moments if first <= turn <= last)
    # Only now: to check a record needs no page.
    from srl_extensions.pages.animation import write_gif, write_html

    if args.out.suffix == ".gif":
        write_gif(frames, args.out, 1 / speed)
    else:
        view = getattr(env.unwrapped, "text_view", None)
        write_html(episode, frames, args.out, 1 / speed, first=first, view=view)
    return f"{args.out}: {last - first + 1} frames of {args.episodes}, episode {args.episode}"


def _newest(folder: Path) -> Path:
    """The newest file of sample episodes in a run's folder."""
    files = sorted((folder / "episodes").glob("round_*.jsonl"))
    if not files:
        raise EpisodeError(f"no episodes in {folder}/episodes: give a run's folder or a file")
    return files[-1]


def _episode(path: Path, number: int) -> Episode:
    if not path.is_file():
        raise EpisodeError(f"no file at {path}: give a file of episodes, or a run's folder")
    episodes = list(read_jsonl(path))
    if not episodes:
        raise EpisodeError(f"no episode in {path}: give a file of episodes, or a run's folder")
    if not 0 <= number < len(episodes):
        raise EpisodeError(f"--episode is {number}: {path} holds {len(episodes)}, counted from 0")
    return episodes[number]


def _turns(given: str | None, count: int) -> tuple[int, int]:
    """The first and the last turn to show."""
    if given is None:
        return 0, count
    first, colon, last = given.partition(":")
    numbers = (first or "0", last or str(count))
    if colon and all(number.isdecimal() for number in numbers):
        begin, end = map(int, numbers)
        if begin <= end <= count:
            return begin, end
    raise ConfigError(f"--turns is {given!r}: give FIRST:LAST, from 0 to {count}")
