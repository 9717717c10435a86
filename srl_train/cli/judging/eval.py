"""`srl eval`: evaluation of a policy, a model or a trained run in scenarios."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srl_train.cli.notices import tell
from srl_train.cli.options import (
    add_list,
    add_model_settings,
    add_record,
    add_seed,
    build_resolver,
    check_numbers,
    players_of,
    prepare_torch,
)
from srl_train.errors import ConfigError
from srl_train.metrics.document import aligned
from srl_train.player_names import PLAYERS

if TYPE_CHECKING:
    from srl_agents.evaluation.scenarios import ScenarioScore
    from srl_agents.evaluation.solved import Solved
    from srl_envs.scenarios.scenario import Scenario

HELD_OUT = {"only": True, "none": False, "all": None}
SCHEMA_VERSION = 3
"""2 added `samples`, and `solved` to every score; 3 calls scripted policies so in `focal.kind`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    one = "a scenario (--list shows them)"
    add_list(parser, "--scenario", "NAME", one, dest="scenarios")
    own = "all scenarios of an environment, or 'module:function' for one of your own, in which "
    every = "every agent without --background is focal"
    add_list(parser, "--environment", "ENV", own + every, dest="environments")
    parser.add_argument(
        "--held-out", choices=tuple(HELD_OUT), default="all",
        help="of --environment's scenarios, or --list's, only or none of those that are kept for "
        "evaluation (default: all)",
    )  # fmt: skip
    parser.add_argument("--policy", metavar="WHO", help=f"who is scored: {PLAYERS}")
    others = "player of the background agents, in place of the scenario's own; AGENT=WHO for any "
    add_list(parser, "--background", "WHO", f"{others}agent, which is not focal then")
    parser.add_argument(
        "--episodes", type=int, default=64, metavar="N",
        help="per scenario; of tasks: how many problems (default: 64)",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=int, default=1, metavar="N",
        help="play every start, such as a task's problem, N times (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--pass-at", type=int, nargs="+", default=[], metavar="K",
        help="the chance that one of K samples solves the problem, for each K (default, for tasks: "
        "1 and as many as --samples)",
    )  # fmt: skip
    add_seed(parser, "all randomness comes from it; the same games for everyone")
    add_record(parser)
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER",
        help="write all episodes there, as <scenario>.jsonl",
    )  # fmt: skip
    add_model_settings(parser)
    parser.add_argument("--list", action="store_true", help="list scenarios and stop")
    parser.add_argument("--quiet", action="store_true", help="print no table")


def run(args: argparse.Namespace) -> int:
    """Play, score and tell."""
    from srl_envs.scenarios import lookup

    names = [*args.scenarios, *_of(args.environments, args.held_out)]
    if args.list:
        for name in names or lookup.names(holdout=HELD_OUT[args.held_out]):
            found = lookup.scenario(name)
            tell(f"{name}  [{', '.join(found.tags)}]  {found.description}")
        return 0
    _check(args, names)
    chosen_scenarios = [
        _with_background(lookup.scenario(name), args.background) for name in dict.fromkeys(names)
    ]
    pass_at = _pass_at(args, chosen_scenarios)

    from srl_agents.episode import write_jsonl
    from srl_agents.evaluation.scenarios import play_scenario, scored
    from srl_train.engine.run_files import asked_for, refuse_unwritable, versions, write_whole
    from srl_train.player_names import parse_player

    focal = parse_player(args.policy)
    others = {who for one in chosen_scenarios for who in one.background.values()}
    players = {focal.name: focal} | {who: parse_player(who) for who in others}
    resolver = build_resolver(args, list(players.values()), args.policy)
    records = {}
    if args.record is not None:
        records = {one.name: args.record / f"{one.name}.jsonl" for one in chosen_scenarios}
    for path in records.values():
        refuse_unwritable("--record", path)
    if args.out is not None:
        refuse_unwritable("--out", args.out)
    if any(player.is_local_model for player in players.values()):
        prepare_torch(args.threads or 1)
    scores, unwritten = [], None
    for scenario in chosen_scenarios:
        background = {agent: players[who] for agent, who in scenario.background.items()}
        played = play_scenario(
            scenario,
            resolver.policies(focal, scenario.make, scenario.focal),
            args.episodes,
            args.seed,
            samples=args.samples,
            background=resolver.by_agent(background, scenario.make),
        )
        if path := records.get(scenario.name):
            try:
                with asked_for("--record", path):
                    write_jsonl(path, played)
            except ConfigError as error:  # the scores are worth having all the same
                unwritten = error
        scores.append(scored(scenario, played, args.seed, pass_at=pass_at))
    if not args.quiet:
        tell(table(args.policy, scores))
    if args.out is not None:
        record = {
            "schema_version": SCHEMA_VERSION,
            "focal": {"name": args.policy, **resolver.record(focal)},
            "episodes": args.episodes,
            "samples": args.samples,
            "seed": args.seed,
            "interval": "95 % percentile bootstrap over episodes, those of one problem together",
            "versions": versions(),
            "scores": [score.as_record() for score in scores],
        }
        with asked_for("--out", args.out):
            write_whole(args.out, json.dumps(record, indent=2) + "\n")
        if not args.quiet:
            tell(f"written: {args.out}")
    if unwritten is not None:
        raise unwritten
    return 0


def table(who: str, scores: Sequence[ScenarioScore]) -> str:
    """The scores as lines of text, returns per focal agent; then what was solved of tasks."""
    rows: list[tuple[str, ...]] = [
        ("scenario", "focal return", "95 % interval", "background", "unread", "outcomes")
    ]
    rows += [_row(score) for score in scores]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    lines = [f"{who}, per focal agent and episode ({len(scores[0].episodes)} episodes each):"]
    lines += aligned(rows)
    solved = {_name(score): score.solved for score in scores if score.solved is not None}
    if solved:
        lines += ["", "solved, with 95 % intervals:", *aligned(_solved_rows(solved))]
    return "\n".join(lines)


def _solved_rows(solved: Mapping[str, Solved]) -> list[tuple[str, ...]]:
    ks = sorted({one.k for each in solved.values() for one in each.pass_at})
    rows: list[tuple[str, ...]] = [
        ("scenario", "problems", "samples", *(f"pass@{k}" for k in ks), "by difficulty")
    ]
    for name, each in solved.items():
        samples = sum(one.n for one in each.problems)
        by_level = [
            f"{level}: {found['share']:.0%}" for level, found in each.by("difficulty").items()
        ]
        rows.append(
            (
                name,
                str(len(each.problems)),
                str(samples),
                *(_estimate(one.estimate, one.interval) for one in each.pass_at),
                ", ".join(by_level),
            )
        )
    return rows


def _estimate(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "-"
    spread = "" if interval is None else f" ({interval[0]:.1%} to {interval[1]:.1%})"
    return f"{value:.1%}{spread}"


def _name(score: ScenarioScore) -> str:
    return score.scenario.name + (" *" if score.scenario.holdout else "")


def _row(score: ScenarioScore) -> tuple[str, ...]:
    interval = score.focal_interval
    told = {} if score.cooperation_rate is None else {"cooperation": score.cooperation_rate}
    told |= score.outcomes
    notes = [f"{name} {value:.2f}" for name, value in told.items()]
    if score.failed:
        notes.append(f"{score.failed} failed")
    return (
        _name(score),
        f"{score.focal_return:.3f}",
        "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        "-" if score.background_return is None else f"{score.background_return:.3f}",
        f"{score.parse_failures:.1%}",
        ", ".join(notes),
    )


def _of(environments: Sequence[str], holdout: str) -> list[str]:
    from srl_envs.scenarios import lookup

    found: list[str] = []
    for environment in environments:
        own = lookup.names(environment, HELD_OUT[holdout])
        if not own:
            there = lookup.environments()
            kind = f"{environment.partition('_')[0]}_"
            near = [name for name in there if name.startswith(kind)]
            raise ConfigError(
                f"{environment} has no scenarios; there are some of {', '.join(near or there)}"
            )
        found += own
    return found


def _check(args: argparse.Namespace, names: Sequence[str]) -> None:
    if not names:
        raise ConfigError("give --scenario NAME or --environment ENV (srl eval --list shows all)")
    if args.policy is None:
        raise ConfigError(f"give --policy WHO: {PLAYERS}")
    check_numbers(args)


def _with_background(scenario: Scenario, words: Sequence[str]) -> Scenario:
    """Return the scenario with other partners, without partners that training may not meet."""
    if not words:
        return scenario
    agents = [*scenario.focal, *scenario.background]
    own = players_of("--background", words, agents, list(scenario.background))
    focal = tuple(agent for agent in scenario.focal if agent not in own)
    if not focal:
        raise ConfigError(f"--background: {', '.join(own)} are all agents: leave one to --policy")
    others = {**scenario.background, **own}
    return dataclasses.replace(scenario, focal=focal, background=others, held_out_partners=())


def _pass_at(args: argparse.Namespace, chosen: Sequence[Scenario]) -> list[int]:
    """The k of pass@k that were asked for, in order; none where there are no samples to count."""
    from srl_agents.evaluation.solved import refuse_unsolvable

    for k in args.pass_at:
        if k < 1:
            raise ConfigError(f"--pass-at is {k}: give 1 or more")
        if k > args.samples:
            raise ConfigError(f"--pass-at is {k}, --samples {args.samples}: give --samples {k}")
    if args.samples == 1 and not args.pass_at:
        return []
    for scenario in chosen:
        try:
            refuse_unsolvable(scenario)
        except ValueError as error:
            raise ConfigError(f"--samples, --pass-at: {error}") from error
    return sorted({*(args.pass_at or (1, args.samples))})
