"""`srl crossplay`: each player against each player, in any environments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from srl_agents.errors import RolloutError
from srl_envs import registry
from srl_extensions.judging import cross_play
from srl_extensions.judging.episodes import add_episode_options, runner_of
from srl_extensions.judging.shared import NamedPlayers, with_interval, write_results
from srl_extensions.pages.document import Document, PageSection, Table, Text, table, write_page
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_model_settings, add_seed, check_numbers, settings
from srl_train.errors import ConfigError
from srl_train.metrics.tables import MISSING
from srl_train.player_names import PLAYERS
from srl_train.run_files import refuse_taken, refuse_unwritable, versions

SCHEMA_VERSION = 2
PAYOFFS = "raw return per agent and episode of the row's player with the column's player"
RANKINGS = {
    "mean_return": "return with others",
    "won": "games won",
    "alpha_rank": "alpha-rank",
    "nash_weight": "Nash weight",
    "nash_value": "Nash value",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl crossplay`."""
    parser.add_argument(
        "players", metavar="NAME", nargs="+", help=f"two or more players: {PLAYERS}"
    )
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
        help="new folder for results.json, results.html and the episodes in games/ENV.jsonl "
        "(default: crossplay)",
    )  # fmt: skip
    add_episode_options(parser)
    add_model_settings(parser)
    parser.add_argument("--quiet", action="store_true", help="print no tables")


def run(args: argparse.Namespace) -> int:
    """Play all pairs of players, print results, write them and the games to --out, return 0.

    Raise RolloutError if all games in an environment fail.
    """
    names = args.players
    if len(names) < 2:
        raise ConfigError("players must be at least two; srl eval scores a single player")
    if len(set(names)) < len(names):
        raise ConfigError(f"players must be different, got {' '.join(names)}")
    if not args.environments:
        raise ConfigError("--environment is required")
    check_numbers(args)
    options = settings(args.options)
    arenas = [
        cross_play.arena(name, partial(registry.make, name, **options))
        for name in dict.fromkeys(args.environments)
    ]
    players = NamedPlayers.parse(args, names)
    players.prepare(args.threads)
    policies = [  # Policies of all environments, so that an error occurs before the first game.
        {name: players.by_agent(dict.fromkeys(one.agents, name), one.make) for name in names}
        for one in arenas
    ]
    path = args.out / "results.json"
    if not args.resume:
        refuse_taken(args.out, "continue with --resume, ")
    refuse_unwritable("--out", path)
    runner = runner_of(args, args.out / "games")
    found = []
    for one, own in zip(arenas, policies, strict=True):
        games = cross_play.play_cross(one, own, args.episodes, args.seed, runner=runner)
        failures = [game.failure for game in games if game.failure is not None]
        if len(failures) == len(games):
            raise RolloutError(f"every game of {one.name} failed; the first: {failures[0]}")
        found.append(cross_play.results(one, games, names, args.seed))
        if not args.quiet:
            tell(table_of_arena(found[-1]))
    record = {
        "schema_version": SCHEMA_VERSION,
        "players": [players.record(name) for name in names],
        "episodes": args.episodes,
        "seed": args.seed,
        "returns": "raw, per agent and episode, of the row's player",
        "interval": "95 %, by bootstrap over starts",
        "versions": versions(),
        "arenas": found,
    }
    written = write_page(page(record), args.out / "results.html")
    write_results(path, record, quiet=args.quiet)
    if not args.quiet:
        tell(f"written: {written}")
    return 0


def page(record: Mapping[str, Any]) -> Document:
    """Return the page of `record`, the content of results.json, with a section per environment."""
    names = [one["name"] for one in record["players"]]
    sections = [PageSection(arena["name"], _tables(arena)) for arena in record["arenas"]]
    return Document(f"Cross-play of {len(names)} players", " · ".join(names), [], sections)


def table_of_arena(arena: Mapping[str, Any]) -> str:
    """Return an entry of "arenas" in results.json as text: payoffs, rankings and any failures."""
    lines: list[str] = []
    for block in _tables(arena):
        lines += ["", *(block.lines() if isinstance(block, Table) else [block.text])]
    return "\n".join(lines)


def _tables(arena: Mapping[str, Any]) -> list[Table | Text]:
    names, title = arena["players"], f"{arena['name']}: {PAYOFFS} (95 % interval)"
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    payoffs = [
        [f"{label} {name}", *map(_mean_in_words, row)]
        for label, name, row in zip(numbers, names, arena["matrix"], strict=True)
    ]
    blocks: list[Table | Text] = [Table(["", *numbers], payoffs, title)]
    rankings = arena["rankings"]
    failed = [game for game in arena["games"] if game["failure"] is not None]
    if rankings is not None:
        rows = [
            (name, *(MISSING if own[key] is None else f"{own[key]:z.3f}" for key in RANKINGS))
            for name, own in rankings.items()
        ]
        title = "Rankings; alpha-rank and Nash use the return of the row minus that of the column"
        blocks.append(table(["player", *RANKINGS.values()], rows, title))
    if failed:
        first = failed[0]
        blocks.append(Text(
            f"{len(failed)} of {len(arena['games'])} games failed and are excluded. The first is "
            f"{first['first']} with {first['second']}: {first['failure']}"
        ))  # fmt: skip
    return blocks


def _mean_in_words(cell: Mapping[str, Any]) -> str:
    return (
        MISSING if cell["mean"] is None else with_interval(cell["mean"], cell["interval"], "z.3f")
    )
