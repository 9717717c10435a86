"""Episodes of a model in an environment, as `eval` and `collect` play them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from mrlm.core.types import GenerationConfig
from mrlm.environments.catalogue import ENVIRONMENTS, make
from srl_agents.episode import Episode
from srl_agents.errors import RolloutError
from srl_train.cli.notices import tell
from srl_train.cli.options import prepare_torch
from srl_train.data.collect import play_games
from srl_train.engine.run_files import asked_for, write_whole
from srl_train.errors import ConfigError
from srl_train.players.player_spec import PLAYERS, parse_player
from srl_train.players.resolver import Resolver, SamplingOverrides
from srl_train.players.trained_models import ModelSettings

MOST_TURNS = 100
"""Of an episode."""


class Played(NamedTuple):
    """Episodes that were played to their end, and what they were played in."""

    episodes: list[Episode]
    agent: str
    view: Any


def add_arguments(parser: argparse.ArgumentParser, episodes: int) -> None:
    """Which model, where, how often and how it answers."""
    parser.add_argument("-m", "--model", required=True, help=PLAYERS)
    parser.add_argument("-e", "--environment", required=True, help=f"{', '.join(ENVIRONMENTS)}")
    parser.add_argument(
        "-n", "--num-episodes", type=int, default=episodes, metavar="N",
        help=f"how many (default: {episodes})",
    )  # fmt: skip
    usual = GenerationConfig()
    parser.add_argument(
        "--max-new-tokens", type=int, metavar="N",
        help=f"of an answer (default: as a run's models trained, else {usual.max_new_tokens})",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", type=float,
        help=f"of answers (default: as a run's models trained, else {usual.temperature:g})",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="all randomness (default: 0)")


def played(args: argparse.Namespace) -> Played:
    """The episodes; raises RolloutError where all failed, and ConfigError for wrong options."""
    if args.num_episodes < 1:
        raise ConfigError(f"--num-episodes is {args.num_episodes}: give 1 or more")
    environment = make(args.environment)
    player = parse_player(args.model)
    if player.is_local_model:
        prepare_torch()
    resolver = Resolver(
        None if player.kind == "api" else ModelSettings(GenerationConfig().sampling()),
        SamplingOverrides(args.temperature, args.max_new_tokens),
    )
    with environment, closing(environment.parallel_env()) as game:
        [agent], view = game.possible_agents, game.unwrapped.text_view
        [policy] = resolver.policies(player, environment.parallel_env)[:1]
    found = play_games(environment.parallel_env, {agent: policy}, args.num_episodes, args.seed)
    whole = [episode for episode in found if episode.failure is None]
    if not whole:
        raise RolloutError(f"every episode failed; the first: {found[0].failure}")
    if len(whole) < len(found):
        tell(f"left out: {len(found) - len(whole)} episodes that failed")
    return Played(whole, agent, view)


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write what a command was asked for, as JSON."""
    with asked_for("--output", path):
        write_whole(path, json.dumps(record, indent=2) + "\n")


def rewards_of(episode: Episode, agent: str) -> Sequence[float]:
    """What the agent earned, turn by turn."""
    return [float(step.reward) for step in episode.steps_of(agent)]
