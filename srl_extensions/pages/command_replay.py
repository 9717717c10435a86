"""`srl replay`: replay a recorded episode, to verify the record or to write an animation."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from srl_agents.episode import read_jsonl
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.replay import remade, replay
from srl_extensions.pages.transcript import write_html
from srl_train.cli.notices import tell
from srl_train.cli.options import add_trust
from srl_train.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl replay`."""
    parser.add_argument(
        "episodes", metavar="EPISODES", type=Path,
        help="file of RUN/episodes or of `srl play --record`; a run's folder for its newest file",
    )  # fmt: skip
    parser.add_argument(
        "--episode", type=int, default=0, metavar="N", help="episode in the file (default: 0)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE",
        help="animation to write, NAME.html (default: only verify the record)",
    )  # fmt: skip
    add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Replay an episode, write --out if given, print a line, and return 0.

    Raise EpisodeError unless the record is reproduced.
    """
    path, out = args.episodes, args.out
    if path.is_dir():
        path = max((path / "episodes").glob("round_*.jsonl"), default=path / "episodes")
    episodes = list(read_jsonl(path)) if path.is_file() else []
    if not episodes:
        raise EpisodeError(f"no episodes in {path}: use a file of episodes, or a run's folder")
    if not 0 <= args.episode < len(episodes):
        most = len(episodes) - 1
        raise EpisodeError(f"--episode must be between 0 and {most}, got {args.episode}")
    episode = episodes[args.episode]
    if out is not None and out.suffix != ".html":
        raise ConfigError(f"--out must end in .html, got {out}")
    with closing(remade(episode, out and "rgb_array", trusted=args.trust)) as env:
        frames = replay(episode, env)
        if out is None:
            turns = sum(1 for _ in frames) - 1
            tell(f"{path}, episode {args.episode}: {turns} turns replayed, as recorded")
            return 0
        view = getattr(env.unwrapped, "text_view", None)
        write_html(episode, frames, out, 1 / env.metadata.get("render_fps", 1), view=view)
    tell(f"{out}: {len(episode.turns) + 1} frames of {args.episodes}, episode {args.episode}")
    return 0
