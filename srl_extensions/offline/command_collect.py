"""`srl collect`: recorded episodes as training data."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from srl_envs.scenarios import refuse_levels
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_trust, check_numbers, players_of, settings
from srl_train.errors import ConfigError
from srl_train.player_names import PLAYERS, config_tree, refuse_missing_folder

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl collect` to the parser."""
    config = "YAML file (its environment and base models), or a run's folder (its trained models)"
    parser.add_argument("config", nargs="?", type=Path, help=config)
    parser.add_argument("--environment", metavar="ENV", help="replace the config's environment")
    what = "replace one setting, such as environment.options.max_cycles=4"
    add_list(parser, "--set", "KEY=VALUE", what, dest="overrides")
    who = f"WHO for every agent, or AGENT=WHO: {PLAYERS} (default: as the config says)"
    parser.add_argument("--players", nargs="+", default=[], metavar="WHO", help=who)
    add_trust(parser)
    parser.add_argument("--episodes", type=int, default=64, metavar="N", help="(default: 64)")
    same = "episodes from the same start; preferences need 2 or more (default: 1)"
    parser.add_argument("--group-size", type=int, default=1, metavar="G", help=same)
    least = "keep only parts (one agent's play of one episode) with at least this return"
    parser.add_argument("--min-return", type=float, metavar="X", help=least)
    best = "keep only this share of the parts, the best returns first (default: 1)"
    parser.add_argument("--top-fraction", type=float, default=1.0, metavar="S", help=best)
    parser.add_argument("--seed", type=int, help="all randomness (default: the config's)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines")


def run(args: argparse.Namespace) -> int:
    """Play episodes, write the selected ones to --out, print counts, and return 0.

    Raise RolloutError if all episodes failed.
    """
    config, trained = _config(args)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from srl_agents.episode import write_jsonl
    from srl_agents.errors import RolloutError
    from srl_agents.evaluation.episode_stats import parse_failures
    from srl_extensions.offline.collect import build_policies, filtered, play_games
    from srl_extensions.offline.data import parts_of
    from srl_train.environment import build_env
    from srl_train.run_files import asked_for, refuse_unwritable

    make_env = partial(build_env, config, trusted=trained is None or args.trust)
    with closing(make_env()) as env:
        refuse_levels("environment", config.environment.name, config.environment.options, env)
        wanted = players_of("--players", args.players, env.possible_agents)
    refuse_unwritable("--out", args.out)
    policies = build_policies(config, make_env, wanted, trained, trusted=args.trust)
    played = play_games(make_env, policies, args.episodes, config.seed, group_size=args.group_size)
    if all(episode.failure for episode in played):
        raise RolloutError(f"all episodes failed; the first: {played[0].failure}")
    kept = filtered(played, min_return=args.min_return, top_fraction=args.top_fraction)
    with asked_for("--out", args.out):
        write_jsonl(args.out, kept)
    steps = [step for index, agent in parts_of(kept) for step in kept[index].steps_of(agent)]
    failed = sum(episode.failure is not None for episode in played)
    tell(f"written: {args.out}")
    tell(
        f"{len(kept)} of {len(played)} episodes ({failed} failed) with {len(steps)} answers, "
        f"{parse_failures(steps):.1%} not parsed"
    )
    return 0


def _config(args: argparse.Namespace) -> tuple[RunConfig, Path | None]:
    if args.config is None and not (args.environment and args.players):
        raise ConfigError(
            f"give a configuration, a run's folder, or --environment ENV --players WHO: {PLAYERS}"
        )
    check_numbers(args)
    if args.episodes % args.group_size:
        raise ConfigError(
            f"--episodes is {args.episodes}, must be a multiple of --group-size ({args.group_size})"
        )
    if not 0.0 < args.top_fraction <= 1.0:
        raise ConfigError(f"--top-fraction is {args.top_fraction}, must be in (0, 1]")
    overrides = settings(args.overrides)
    if args.environment is not None:
        overrides["environment.name"] = args.environment
    if args.seed is not None:
        overrides["seed"] = args.seed
    from srl_train.config.yaml_file import from_tree, load

    if args.config is None:
        return from_tree({}, overrides), None
    if args.config.is_dir():
        return from_tree(config_tree(args.config), overrides), args.config
    if args.config.suffix not in (".yaml", ".yml"):
        refuse_missing_folder(str(args.config))
    return load(args.config, overrides), None
