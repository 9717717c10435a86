"""`srl crossplay`: all players with all others, in any environments."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_train.cli.notices import tell
from srl_train.cli.options import (
    add_list,
    add_model_settings,
    add_seed,
    build_resolver,
    check_numbers,
    prepare_torch,
    setting,
)
from srl_train.errors import ConfigError
from srl_train.metrics.document import aligned, as_lines
from srl_train.player_names import PLAYERS

if TYPE_CHECKING:
    from srl_agents.episode import Episode
    from srl_agents.evaluation.population.arena import Arena
    from srl_agents.evaluation.population.cross_play import Game
    from srl_agents.policy import Policy
    from srl_envs.scenarios.scenario import Scenario
    from srl_train.metrics.document import Transcript
    from srl_train.player_names import PlayerSpec
    from srl_train.players import Resolver

KEPT_GAMES = 2
"""Of the best and of the worst games of each environment."""
EXTREMES = {"best": "Most was earned", "worst": "Least was earned"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.add_argument(
        "players", metavar="[GROUP=]WHO", nargs="+",
        help=f"who meets: {PLAYERS}; those of one GROUP are independent seeds of one method, and "
        "the gap between self-play and cross-play is told for it",
    )  # fmt: skip
    places = "a player holds one of its teams, or one of its agents where it has none, and "
    places += "another player the rest, in every place"
    add_list(parser, "--environment", "ENV", places, dest="environments")
    held = "a scenario: a player holds its focal agents, another its background"
    add_list(parser, "--scenario", "NAME", held, dest="scenarios")
    option = "an option of the environment, or of all, such as max_cycles=10"
    add_list(parser, "--set", "[ENV.]KEY=VALUE", option, dest="options")
    parser.add_argument(
        "--episodes", type=int, default=16, metavar="N",
        help="starts; each pair plays all of them in every place (default: 16)",
    )  # fmt: skip
    add_seed(parser, "all randomness comes from it; the same starts for everyone")
    parser.add_argument(
        "--out", type=Path, default=Path("crossplay"), metavar="FOLDER",
        help="results.json, their page results.html, and the best and worst games in games/ are "
        "written there, where nothing may be yet (default: crossplay)",
    )  # fmt: skip
    parser.add_argument(
        "--held-out", action="store_true",
        help="also score every player in the environments' scenarios with held-out partners",
    )  # fmt: skip
    parser.add_argument(
        "--record", action="store_true", help="write all games there, as games/ENV.jsonl"
    )
    add_model_settings(parser)
    parser.add_argument("--quiet", action="store_true", help="print no tables")


def run(args: argparse.Namespace) -> int:
    """Play, judge and tell."""
    from srl_agents.evaluation.population.ratings import can_rate
    from srl_agents.evaluation.population.results import (
        SCHEMA_VERSION,
        Played,
        rated_together,
        results,
    )
    from srl_train.cli.judging.population import held_out, population, ratings
    from srl_train.engine.run_files import (
        asked_for,
        refuse_taken,
        refuse_unwritable,
        versions,
        write_whole,
    )
    from srl_train.metrics.page import write
    from srl_train.player_names import parse_player

    groups = _groups(args.players)
    _check(args)
    arenas = _arenas(args)
    players = {name: parse_player(name) for name in groups}
    resolver = build_resolver(args, list(players.values()), "every player")
    if any(player.is_local_model for player in players.values()):
        prepare_torch(args.threads or 1)
    policies = [  # of all environments first: who cannot play one is told before any game
        {
            name: resolver.by_agent(dict.fromkeys(arena.agents, player), arena.make)
            for name, player in players.items()
        }
        for arena in arenas
    ]
    scenarios = _held_out(args.environments) if args.held_out else []
    path = args.out / "results.json"
    refuse_taken(args.out)  # games of another cross-play would stay beside this one's
    refuse_unwritable("--out", path)
    judged, every, shown = [], [], {}
    for arena, playing in zip(arenas, policies, strict=True):
        games, extremes = _played(arena, playing, args)
        judged.append(results(arena, games, groups, args.seed))
        every.append(Played(arena.name, tuple(groups), arena.two_sided, tuple(games)))
        shown[arena.name] = _transcripts(arena, extremes)
        if not args.quiet:
            tell(table(judged[-1]))
    rates_all = len(every) > 1 and can_rate()
    record = {
        "schema_version": SCHEMA_VERSION,
        "players": [
            {"name": name, "group": groups[name], **resolver.record(player)}
            for name, player in players.items()
        ],
        "episodes": args.episodes,
        "seed": args.seed,
        "returns": "raw, per agent and episode, of the row's player",
        "interval": "95 %, by bootstrap over starts; of gaps over seeds and starts",
        "versions": versions(),
        "arenas": judged,
        "overall": asdict(rated_together(every, args.seed)) if rates_all else None,
        "held_out": _scores(scenarios, players, resolver, args) if args.held_out else None,
    }
    with asked_for("--out", path):
        write_whole(path, json.dumps(record, indent=1, allow_nan=False) + "\n")
    page = write(population(record, shown), args.out / "results.html")
    if not args.quiet:
        if record["overall"] is not None:
            tell("\n".join(["", *as_lines(ratings(record["overall"], None))]))
        if record["held_out"] is not None:
            tell(
                "\n".join(
                    ["", "Scores with held-out partners", *as_lines([held_out(record["held_out"])])]
                )
            )
        tell(f"written: {path} and {page}")
    return 0


def _played(
    arena: Arena, policies: Mapping[str, Mapping[str, Policy]], args: argparse.Namespace
) -> tuple[list[Game], dict[str, list[Episode]]]:
    """The arena's games, and those in which a player earned most and least, per agent, the earlier
    of equals; these, or all, are written."""
    from srl_agents.episode import write_jsonl
    from srl_agents.errors import RolloutError
    from srl_agents.evaluation.population.cross_play import play_cross
    from srl_train.engine.run_files import asked_for

    every: list[Episode] = []
    kept: dict[str, list[tuple[float, Episode]]] = {which: [] for which in EXTREMES}

    def keep(game: Game, episode: Episode) -> None:
        if args.record:
            every.append(episode)
        if game.first_return is None or game.second_return is None:
            return
        low, high = sorted((game.first_return, game.second_return))
        for which, score in (("best", -high), ("worst", low)):
            ranked = sorted([*kept[which], (score, episode)], key=itemgetter(0))
            kept[which] = ranked[:KEPT_GAMES]

    games = play_cross(arena, policies, args.episodes, args.seed, at_game=keep)
    failures = [game.failure for game in games if game.failure is not None]
    if len(failures) == len(games):
        raise RolloutError(f"every game of {arena.name} failed; the first: {failures[0]}")
    extremes = {which: [episode for _, episode in ranked] for which, ranked in kept.items()}
    folder = args.out / "games"
    for which, episodes in (extremes | ({"": every} if args.record else {})).items():
        path = folder / ".".join(filter(None, (arena.name, which, "jsonl")))
        with asked_for("--out", path):
            write_jsonl(path, episodes)
    return games, extremes


def _held_out(environments: Sequence[str]) -> list[Scenario]:
    from srl_envs.scenarios import lookup

    named = [name for environment in environments for name in lookup.names(environment, True)]
    found = [one for one in map(lookup.scenario, named) if one.held_out_partners]
    if not found:
        told = ", ".join(environments) or "a scenario"
        raise ConfigError(
            f"--held-out: {told} has no scenarios with held-out partners: leave it out"
        )
    return found


def _scores(
    scenarios: Sequence[Scenario],
    players: Mapping[str, PlayerSpec],
    resolver: Resolver,
    args: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Every player as the focal agents of every scenario, in the scenario's own games."""
    from srl_agents.evaluation.scenarios import score

    found = []
    for scenario in scenarios:
        for name, player in players.items():
            focal = resolver.policies(player, scenario.make, scenario.focal)
            one = score(scenario, focal, args.episodes, args.seed)
            found.append(
                {
                    "scenario": scenario.name,
                    "partners": list(scenario.held_out_partners),
                    "player": name,
                    "focal_return": one.focal_return,
                    "interval": one.focal_interval,
                    "failed": one.failed,
                }
            )
    return found


def _transcripts(
    arena: Arena, extremes: Mapping[str, Sequence[Episode]]
) -> list[tuple[str, Transcript]]:
    """Which each game is, and its transcript, for the page."""
    from srl_train.metrics.transcript import transcript

    with closing(arena.make()) as env:
        view = getattr(env.unwrapped, "text_view", None)
    return [
        (f"{EXTREMES[which]}: {' with '.join(dict.fromkeys(one.seats.values()))}",
         transcript(one, view))
        for which, kept in extremes.items()
        for one in kept
    ]  # fmt: skip


def table(judged: Mapping[str, Any]) -> str:
    """The results of one environment as lines of text."""
    from srl_train.cli.judging.population import standings

    names = judged["players"]
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    lines = [
        f"\n{judged['name']}: raw return per agent, of the row's player with the column's, "
        "+- half of the 95 % interval"
    ]
    rows = [["", *numbers]]
    for number, name, row in zip(numbers, names, judged["matrix"], strict=True):
        rows.append([f"{number} {name}", *map(_mean, row)])
    lines += aligned(rows)
    lines += as_lines(standings(judged))
    failed = judged["failed"]
    if failed:
        first = failed[0]
        lines.append(
            f"{len(failed)} of {len(judged['games'])} games failed and count nowhere; the first, "
            f"{first['first']} with {first['second']}: {first['failure']}"
        )
    return "\n".join(lines)


def _mean(cell: Mapping[str, Any]) -> str:
    """A mean of the matrix, with its interval where there is one."""
    if cell["mean"] is None:
        return "-"
    if cell["interval"] is None:
        return f"{cell['mean']:z.3f}"
    low, high = cell["interval"]
    return f"{cell['mean']:z.3f} +- {(high - low) / 2:z.3f}"


def _groups(words: Sequence[str]) -> dict[str, str]:
    """Player -> group, itself where none is given."""
    found: dict[str, str] = {}
    for word in words:
        group, equals, name = word.rpartition("=")
        if not name or (equals and not group):
            raise ConfigError(f"{word!r} names nobody: give WHO or GROUP=WHO")
        if name in found:
            raise ConfigError(f"{name} is given twice: give each player once")
        found[name] = group or name
    if len(found) < 2:
        raise ConfigError("one player alone meets nobody: give two or more, or use srl eval")
    return found


def _check(args: argparse.Namespace) -> None:
    if not args.environments and not args.scenarios:
        raise ConfigError("give --environment ENV or --scenario NAME")
    check_numbers(args)


def _arenas(args: argparse.Namespace) -> list[Arena]:
    from srl_agents.evaluation.population.arena import arena, scenario_arena
    from srl_envs import registry
    from srl_envs.scenarios import lookup

    options: dict[str, dict[str, Any]] = {name: {} for name in args.environments}
    for text in args.options:
        key, value = setting(text)
        name, dot, option = key.rpartition(".")
        if dot and name not in options:
            raise ConfigError(f"--set {text}: {name} is none of --environment")
        if not options:
            raise ConfigError(f"--set {text}: scenarios have their options, give --environment")
        for own in [name] if dot else options:
            options[own][option] = value
    made = (arena(name, partial(registry.make, name, **own)) for name, own in options.items())
    named = (scenario_arena(lookup.scenario(name)) for name in dict.fromkeys(args.scenarios))
    return [*made, *named]
