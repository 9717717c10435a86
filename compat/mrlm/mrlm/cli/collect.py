"""`mrlm collect`: episodes of a model as data to learn from."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mrlm.cli import playing
from srl_agents.episode import Episode
from srl_train.cli.notices import tell
from srl_train.data.chats import messages_of
from srl_train.engine.run_files import refuse_unwritable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    playing.add_arguments(parser, episodes=100)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON")
    parser.add_argument(
        "--filter-reward", type=float, metavar="THRESHOLD",
        help="keep only episodes with at least this reward in all",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Play, choose, write and tell."""
    refuse_unwritable("--output", args.output)
    episodes, agent, view = playing.played(args)
    told = [_trajectory(episode, agent, view) for episode in episodes]
    threshold = args.filter_reward
    kept = [
        one for one in told if threshold is None or one["metadata"]["total_reward"] >= threshold
    ]
    record = {
        "trajectories": kept,
        "num_trajectories": len(kept),
        "num_transitions": sum(one["metadata"]["num_steps"] for one in kept),
    }
    playing.write(args.output, record)
    of_all = "" if threshold is None else f" of {len(told)}, those of {threshold:g} or more"
    tell(f"written: {len(kept)} episodes{of_all}, to {args.output}")
    return 0


def _trajectory(episode: Episode, agent: str, view: Any) -> dict[str, Any]:
    """An episode: what was told before each answer (the conversation so far), the answers, and what
    they earned."""
    chat = messages_of(episode, agent, view)
    answers = [place for place, one in enumerate(chat) if one["role"] == "assistant"]
    rewards = playing.rewards_of(episode, agent)
    return {
        "observations": [
            {"messages": [dict(one) for one in chat[:place]], "done": False} for place in answers
        ],
        "actions": [dict(chat[place]) for place in answers],
        "rewards": [{"value": reward} for reward in rewards],
        "metadata": {"num_steps": len(answers), "total_reward": sum(rewards)},
    }
