"""`srl eval`: evaluation of a policy, a model or a trained run in scenarios."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from srl_envs import registry, scenarios
from srl_envs.scenarios import Scenario
from srl_extensions.judging.episodes import add_episode_options, runner_of
from srl_extensions.judging.scenarios import (
    ScenarioScore,
    Solved,
    check_pass_at,
    play_scenario,
    scored,
)
from srl_extensions.judging.shared import NamedPlayers, with_interval, write_results
from srl_train.cli.notices import tell
from srl_train.cli.options import (
    add_list,
    add_model_settings,
    add_record,
    add_seed,
    check_numbers,
    players_of,
    settings,
)
from srl_train.errors import ConfigError
from srl_train.metrics.tables import MISSING, aligned, measured
from srl_train.player_names import PLAYERS
from srl_train.run_files import refuse_unwritable, versions

HELD_OUT = {"only": True, "none": False, "all": None}
SCHEMA_VERSION = 4
"""Version of the file of --out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl eval`."""
    add_list(parser, "--scenario", "NAME", "a scenario (--list shows them)", dest="scenarios")
    add_list(
        parser, "--environment", "ENV",
        "all scenarios of an environment; 'module:function' for your own environment, in which "
        "each agent without --background is focal",
        dest="environments",
    )  # fmt: skip
    parser.add_argument(
        "--held-out", choices=tuple(HELD_OUT), default="all",
        help="scenarios of --environment or --list: only held-out scenarios (excluded from "
        "training), none of them, or all (default: all)",
    )  # fmt: skip
    parser.add_argument("--policy", metavar="NAME", help=f"policy to evaluate: {PLAYERS}")
    add_list(
        parser, "--set", "KEY=VALUE",
        "argument of the environment, instead of that of the scenario, such as max_cycles=10",
        dest="options",
    )  # fmt: skip
    add_list(
        parser, "--background", "NAME",
        "policy of the background agents, instead of that of the scenario; AGENT=NAME for one "
        "agent, which is then not focal",
    )  # fmt: skip
    parser.add_argument(
        "--episodes", type=int, default=64, metavar="N",
        help="number of starts per scenario, which are problems in tasks (default: 64)",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=int, default=1, metavar="N",
        help="number of episodes per start (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--pass-at", type=int, nargs="+", default=[], metavar="K",
        help="values of K for pass@K, the probability that one of K samples solves the problem "
        "(default for tasks: 1 and the number of --samples)",
    )  # fmt: skip
    add_seed(parser, "seed of all random numbers")
    add_record(parser)
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER",
        help="write each episode to FOLDER/SCENARIO.jsonl as soon as it ends; a new folder, except "
        "with --resume",
    )  # fmt: skip
    add_episode_options(parser)
    add_model_settings(parser)
    parser.add_argument("--list", action="store_true", help="list scenarios and exit")
    parser.add_argument("--quiet", action="store_true", help="print no table")


def run(args: argparse.Namespace) -> int:
    """Evaluate --policy in scenarios, print a table, write --out and --record; or only list.

    Raise RolloutError if all episodes of a scenario failed.
    """
    names = [*args.scenarios, *_of_environments(args.environments, args.held_out)]
    if args.list:
        for name in names or scenarios.names(holdout=HELD_OUT[args.held_out]):
            found = scenarios.scenario(name)
            tags = f"  [{', '.join(found.tags)}]" if found.tags else ""
            tell(f"{name}{tags}  {found.description}")
        return 0
    if not names:
        raise ConfigError("--scenario or --environment is required (srl eval --list shows all)")
    if args.policy is None:
        raise ConfigError(f"--policy is required: {PLAYERS}")
    check_numbers(args)
    options = settings(args.options)
    chosen = [
        _with_background(scenarios.scenario(name).with_options(options), args.background)
        for name in dict.fromkeys(names)
    ]
    pass_at = _pass_at(args, chosen)

    others = {name for one in chosen for name in one.background.values()}
    players = NamedPlayers.parse(args, dict.fromkeys([args.policy, *others]))
    if args.resume and args.record is None:
        raise ConfigError("--resume requires --record, the folder of the episodes")
    if args.out is not None:
        refuse_unwritable("--out", args.out)
    runner = runner_of(args, args.record)
    players.prepare(args.threads)
    scores = []
    for scenario in chosen:
        played = play_scenario(
            scenario,
            players.policies(args.policy, scenario.make, scenario.focal),
            args.episodes,
            args.seed,
            samples=args.samples,
            background=players.by_agent(scenario.background, scenario.make),
            runner=runner,
        )
        scores.append(scored(scenario, played, args.seed, pass_at=pass_at))
    if not args.quiet:
        tell(table(args.policy, scores))
    if args.out is not None:
        record = {
            "schema_version": SCHEMA_VERSION,
            "focal": players.record(args.policy),
            "episodes": args.episodes,
            "samples": args.samples,
            "seed": args.seed,
            "interval": "95 % percentile bootstrap over episodes, those of one problem together",
            "versions": versions(),
            "scores": [score.as_record() for score in scores],
        }
        write_results(args.out, record, quiet=args.quiet)
    return 0


def _of_environments(environments: Sequence[str], holdout: str) -> list[str]:
    found: list[str] = []
    for environment in environments:
        own = scenarios.names(environment, HELD_OUT[holdout])
        if not own:
            raise ConfigError(
                f"--environment must have scenarios, got {environment}; allowed: "
                f"{', '.join(scenarios.environments())}"
            )
        found += own
    return found


def _with_background(scenario: Scenario, words: Sequence[str]) -> Scenario:
    if not words:
        return scenario
    with closing(registry.make(scenario.environment, **scenario.options)) as env:
        agents = list(env.possible_agents)
    others = [agent for agent in agents if agent not in scenario.focal]
    own = players_of("--background", words, agents, others)
    focal = tuple(agent for agent in scenario.focal if agent not in own)
    if not focal:
        raise ConfigError("--background must leave one agent for --policy, got all agents")
    background = {**scenario.background, **own}
    return dataclasses.replace(scenario, focal=focal, background=background, held_out_partners=())


def _pass_at(args: argparse.Namespace, scenarios: Sequence[Scenario]) -> list[int]:
    if args.samples == 1 and not args.pass_at:
        return []
    values = sorted({*(args.pass_at or (1, args.samples))})
    try:
        for scenario in scenarios:
            check_pass_at(scenario, args.samples, values)
    except ValueError as error:
        raise ConfigError(f"--samples, --pass-at: {error}") from error
    return values


def table(policy: str, scores: Sequence[ScenarioScore]) -> str:
    """Return scores as text: a table of returns, and one of pass@k for scores with `solved`."""
    headers = ("scenario", "return", "95 % interval", "background return", "parse failures")
    lines = [
        f"{policy}: mean return per agent and episode, {len(scores[0].episodes)} episodes per "
        "scenario",
        *aligned(measured((*headers, "outcomes"), map(_row, scores))),
    ]
    solved = {_name(score): score.solved for score in scores if score.solved is not None}
    if solved:
        lines += ["", "Solved problems (95 % intervals):", *aligned(_solved_rows(solved))]
    if any(score.scenario.holdout for score in scores):
        lines.append("* held out: excluded from training")
    return "\n".join(lines)


def _row(score: ScenarioScore) -> tuple[str, ...]:
    interval, cooperation = score.focal_interval, score.cooperation_rate
    outcomes = {} if cooperation is None else {"cooperation": cooperation}
    notes = [f"{name} {value:.2f}" for name, value in (outcomes | dict(score.outcomes)).items()]
    if score.failed:
        notes.append(f"{score.failed} failed")
    return (
        _name(score),
        f"{score.focal_return:.3f}",
        MISSING if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}",
        MISSING if score.background_return is None else f"{score.background_return:.3f}",
        f"{score.parse_failures:.1%}",
        ", ".join(notes),
    )


def _solved_rows(solved: Mapping[str, Solved]) -> list[list[str]]:
    ks = [one.k for one in next(iter(solved.values())).pass_at]
    rows = [["scenario", "problems", "samples", *(f"pass@{k}" for k in ks)]]
    for name, each in solved.items():
        counts = [str(len(each.problems)), str(sum(one.n for one in each.problems))]
        estimates = [
            "-" if one.estimate is None else with_interval(one.estimate, one.interval, ".1%")
            for one in each.pass_at
        ]
        rows.append([name, *counts, *estimates])
    return rows


def _name(score: ScenarioScore) -> str:
    return score.scenario.name + (" *" if score.scenario.holdout else "")
