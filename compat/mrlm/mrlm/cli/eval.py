"""`mrlm eval`: evaluation of a model in an environment."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mrlm.cli import playing
from srl_agents.episode import Episode
from srl_train.cli.notices import tell
from srl_train.engine.run_files import refuse_unwritable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    playing.add_arguments(parser, episodes=10)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write results there")


def run(args: argparse.Namespace) -> int:
    """Play, tell and write."""
    if args.output is not None:
        refuse_unwritable("--output", args.output)
    episodes, agent, _ = playing.played(args)
    told = [_told(number, episode, agent) for number, episode in enumerate(episodes)]
    mean = sum(one["total_reward"] for one in told) / len(told)
    tell(f"{args.model} in {args.environment}: mean reward {mean:.4f} ({len(told)} episodes)")
    if args.output is not None:
        record = {
            "model": args.model,
            "environment": args.environment,
            "num_episodes": len(told),
            "episodes": told,
            "average_reward": mean,
        }
        playing.write(args.output, record)
        tell(f"written: {args.output}")
    return 0


def _told(number: int, episode: Episode, agent: str) -> dict[str, Any]:
    rewards = playing.rewards_of(episode, agent)
    last = len(rewards) - 1
    return {
        "episode": number,
        "steps": [
            {"step": step, "reward": reward, "done": step == last}
            for step, reward in enumerate(rewards)
        ],
        "total_reward": sum(rewards),
        "length": len(rewards),
    }
