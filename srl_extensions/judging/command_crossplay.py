"""`srl crossplay`: each player against each player, in any environments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from srl_agents.episode import Episode, write_jsonl
from srl_agents.errors import RolloutError
from srl_agents.policy import Policy
from srl_envs import registry
from srl_extensions.judging import cross_play, crossplay_page
from srl_extensions.judging.payoffs import SCHEMA_VERSION, results
from srl_extensions.judging.shared import NamedPlayers, write_results
from srl_extensions.pages.document import write_page
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_model_settings, add_seed, check_numbers, settings
from srl_train.errors import ConfigError
from srl_train.player_names import PLAYERS
from srl_train.run_files import asked_for, refuse_taken, refuse_unwritable, versions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "players", metavar="[GROUP=]NAME", nargs="+",
        help=f"players: {PLAYERS}; players of one GROUP are independent seeds of one method, whose "
        "gap between self-play and cross-play is measured",
    )  # fmt: skip
    places = "an environment; one player controls a team (or agent), the other all other agents"
    add_list(parser, "--environment", "ENV", places, dest="environments")
    option = "an option of the environments, such as max_cycles=10"
    add_list(parser, "--set", "KEY=VALUE", option, dest="options")
    parser.add_argument(
        "--episodes", type=int, default=16, metavar="N",
        help="number of starts; each pair plays all starts in each place (default: 16)",
    )  # fmt: skip
    add_seed(parser, "seed of all random numbers")
    parser.add_argument(
        "--out", type=Path, default=Path("crossplay"), metavar="FOLDER",
        help="new folder for results.json and results.html (default: crossplay)",
    )  # fmt: skip
    parser.add_argument(
        "--record", action="store_true", help="write all episodes to games/ENV.jsonl in the folder"
    )
    add_model_settings(parser)
    parser.add_argument("--quiet", action="store_true", help="print no tables")


def run(args: argparse.Namespace) -> int:
    """Play all pairs of players, print and write the results (JSON and HTML), and return 0."""
    groups = _groups(args.players)
    if not args.environments:
        raise ConfigError("--environment is required")
    check_numbers(args)
    options = settings(args.options)
    arenas = [
        cross_play.arena(name, partial(registry.make, name, **options))
        for name in dict.fromkeys(args.environments)
    ]
    players = NamedPlayers.parse(args, groups)
    players.prepare(args.threads)
    policies = [  # Policies of all environments, so that an error occurs before the first game.
        {name: players.by_agent(dict.fromkeys(one.agents, name), one.make) for name in groups}
        for one in arenas
    ]
    path = args.out / "results.json"
    refuse_taken(args.out)
    refuse_unwritable("--out", path)
    found = []
    for one, own in zip(arenas, policies, strict=True):
        games = _play(one, own, args)
        found.append(results(one, games, groups, args.seed))
        if not args.quiet:
            tell(crossplay_page.table_of_arena(found[-1]))
    record = {
        "schema_version": SCHEMA_VERSION,
        "players": [players.record(name) | {"group": group} for name, group in groups.items()],
        "episodes": args.episodes,
        "seed": args.seed,
        "returns": "raw, per agent and episode, of the row's player",
        "interval": "95 %, by bootstrap over starts",
        "versions": versions(),
        "arenas": found,
    }
    page = write_page(crossplay_page.page(record), args.out / "results.html")
    write_results(path, record, quiet=args.quiet)
    if not args.quiet:
        tell(f"written: {page}")
    return 0


def _groups(words: Sequence[str]) -> dict[str, str]:
    """Return the group of each player, which is by default the name of the player."""
    found: dict[str, str] = {}
    for word in words:
        group, equals, name = word.rpartition("=")
        if not name or (equals and not group):
            raise ConfigError(f"players must be NAME or GROUP=NAME, got {word!r}")
        if name in found:
            raise ConfigError(f"players must be different, got {name} twice")
        found[name] = group or name
    if len(found) < 2:
        raise ConfigError("players must be at least two; srl eval scores a single player")
    return found


def _play(
    arena: cross_play.Arena, policies: Mapping[str, Mapping[str, Policy]], args: argparse.Namespace
) -> list[cross_play.PairGame]:
    """Play and return the games of an arena, and write their episodes if --record was given."""
    episodes: list[Episode] = []
    games = cross_play.play_cross(
        arena, policies, args.episodes, args.seed, at_game=lambda game, one: episodes.append(one)
    )
    failures = [game.failure for game in games if game.failure is not None]
    if len(failures) == len(games):
        raise RolloutError(f"every game of {arena.name} failed; the first: {failures[0]}")
    if args.record:
        path = args.out / "games" / f"{arena.name}.jsonl"
        with asked_for("--out", path):
            write_jsonl(path, episodes)
    return games
