"""`srl collect`: recorded episodes as training data."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_trust, check_numbers, players_of, settings
from srl_train.errors import ConfigError
from srl_train.player_names import PLAYERS, config_tree, parse_player, refuse_missing_folder
from srl_train.players import refuse_levels

if TYPE_CHECKING:
    from srl_agents.episode import Episode
    from srl_train.config.run import RunConfig

OF_ANSWERS = tuple(
    f"models.{name}"
    for name in ("sampling", "agent_sampling", "constrained", "opponent_notes", "dtype")
)
"""Settings of sampling, which a run's models have in their run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "config", nargs="?", type=Path,
        help="a YAML file (its game, agents and base models), or a run's folder (its trained ones)",
    )  # fmt: skip
    parser.add_argument("--environment", metavar="ENV", help="a game, in place of the config's")
    what = "replace one setting, such as environment.options.max_cycles=4"
    add_list(parser, "--set", "KEY=VALUE", what, dest="overrides")
    parser.add_argument(
        "--players", nargs="+", default=[], metavar="WHO",
        help=f"WHO for every agent, or AGENT=WHO: {PLAYERS} (default: as the config says)",
    )  # fmt: skip
    add_trust(parser)
    parser.add_argument("--episodes", type=int, default=64, metavar="N", help="(default: 64)")
    parser.add_argument(
        "--group-size", type=int, default=1, metavar="G",
        help="games in a row from the same start; preferences need 2 or more (default: 1)",
    )  # fmt: skip
    kept = "keep only this agent's part of each game"
    add_list(parser, "--agent", "AGENT", kept, dest="agents")
    parser.add_argument(
        "--min-return", type=float, metavar="X", help="keep only parts with at least this return"
    )
    parser.add_argument(
        "--top-fraction", type=float, default=1.0, metavar="S",
        help="keep only this share of the parts, the best returns first (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--drop-parse-failures", action="store_true",
        help="keep only parts whose every answer was read",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("episodes", "messages"), default="episodes",
        help="a game a line, as `srl replay` and the stages read it, or a kept part a line as "
        "plain chat, {\"messages\": [...]} (default: episodes)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="all randomness (default: the config's)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON lines")


def run(args: argparse.Namespace) -> int:
    """Play, filter and write episodes."""
    _check(args)
    config, trained = _config(args)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from srl_agents.episode import write_jsonl
    from srl_agents.errors import RolloutError
    from srl_train.collect import build_policies, filtered, play_games
    from srl_train.environment import build_env
    from srl_train.offline_data import chat_lines, parts_of
    from srl_train.player_names import notes_of
    from srl_train.run_files import asked_for, refuse_unwritable, write_whole

    make_env = partial(build_env, config, trusted=trained is None or args.trust)
    with closing(make_env()) as env:
        refuse_levels(config.environment, env)  # collected episodes are for training
        agents = list(env.possible_agents)
    for agent in args.agents:
        if agent not in agents:
            raise ConfigError(f"--agent: no agent {agent!r}; allowed: {', '.join(agents)}")
    wanted = players_of("--players", args.players, agents)
    _refuse_unread(args.overrides, wanted, agents)
    refuse_unwritable("--out", args.out)
    policies = build_policies(config, make_env, wanted, trained, trusted=args.trust)
    played = play_games(make_env, policies, args.episodes, config.seed, group_size=args.group_size)
    failed = [episode.failure for episode in played if episode.failure is not None]
    if len(failed) == len(played):
        raise RolloutError(f"every game failed; the first: {failed[0]}")
    kept = filtered(
        played,
        agents=args.agents or None,
        min_return=args.min_return,
        top_fraction=args.top_fraction,
        drop_parse_failures=args.drop_parse_failures,
    )
    with asked_for("--out", args.out):
        if args.format == "messages":
            notes = notes_of(config.models.opponent_notes, make_env)
            parts = parts_of(kept)
            write_whole(args.out, chat_lines(kept, parts, env.unwrapped.text_view, notes))
        else:
            write_jsonl(args.out, kept)
    tell("\n".join(_summary(played, kept)))
    tell(f"written: {args.out}")
    return 0


def _summary(played: Sequence[Episode], kept: Sequence[Episode]) -> list[str]:
    from srl_agents.evaluation.episode_stats import parse_failures
    from srl_train.offline_data import parts_of

    lines = []
    good = [episode for episode in played if episode.failure is None]
    for what, episodes in (("played", good), ("kept", kept)):
        parts = parts_of(episodes)
        steps = [step for index, agent in parts for step in episodes[index].steps_of(agent)]
        if not parts:
            lines.append(f"{what}: 0 games")
            continue
        total = sum(step.reward for step in steps)
        lines.append(
            f"{what}: {len(episodes)} games, {len(parts)} agents' parts with {len(steps)} answers, "
            f"{parse_failures(steps):.1%} of them unread; mean return {total / len(parts):.4f}, "
            f"reward a turn {total / len(steps):.4f}"
        )
    if len(good) < len(played):
        lines.append(f"left out: {len(played) - len(good)} games that failed")
    return lines


def _config(args: argparse.Namespace) -> tuple[RunConfig, Path | None]:
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


def _refuse_unread(
    overrides: Sequence[str], wanted: Mapping[str, str], agents: Sequence[str]
) -> None:
    """Raise ConfigError for settings of sampling if all models are from runs."""
    if set(wanted) != set(agents):
        return
    models = [player for player in map(parse_player, wanted.values()) if player.sources]
    for key in settings(overrides):
        if key.startswith(OF_ANSWERS) and models and all(player.run for player in models):
            raise ConfigError(
                f"--set {key}: a run's models sample as in training; use the model's folder, "
                "such as RUN/models/model_0, to change this setting"
            )


def _check(args: argparse.Namespace) -> None:
    if args.config is None and args.environment is None:
        raise ConfigError("give a configuration, a run's folder, or --environment ENV")
    if args.config is None and not args.players:
        raise ConfigError(f"give --players WHO: {PLAYERS}")
    check_numbers(args)
    if args.episodes % args.group_size:
        raise ConfigError(
            f"--episodes is {args.episodes}, must be a multiple of --group-size ({args.group_size})"
        )
    if args.min_return is not None and not math.isfinite(args.min_return):
        raise ConfigError(f"--min-return is {args.min_return}, must be finite")
    if not 0.0 < args.top_fraction <= 1.0:
        raise ConfigError(f"--top-fraction is {args.top_fraction}, must be in (0, 1]")
    if args.top_fraction < 1 and args.group_size == 1:
        raise ConfigError(f"--top-fraction is {args.top_fraction}, must be 1 with --group-size 1")
