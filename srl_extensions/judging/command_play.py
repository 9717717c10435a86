"""`srl play`: episodes in the terminal, with a person as one of the agents."""

from __future__ import annotations

import argparse
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from srl_agents.episode import AgentStep, Episode, write_jsonl
from srl_agents.human import Human
from srl_agents.rollout import play_many
from srl_envs import registry
from srl_envs.games.cheap_talk import message_in
from srl_envs.untrusted import cut, printable
from srl_extensions.judging.shared import NamedPlayers
from srl_train.cli.notices import tell
from srl_train.cli.options import (
    add_list,
    add_model_settings,
    check_numbers,
    players_of,
    settings,
)
from srl_train.errors import ConfigError
from srl_train.player_names import PLAYERS
from srl_train.run_files import asked_for, refuse_unwritable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl play`."""
    add = parser.add_argument
    add("env", metavar="ENV", help="name of an environment (listed by `srl info`)")
    add("--agent", help="agent that you play (default: the first)")
    add_list(
        parser,
        "--opponent",
        "PLAYER",
        f"player of all other agents (default: uniform): {PLAYERS}; AGENT=PLAYER for one agent",
    )
    add_model_settings(parser)
    add_list(
        parser, "--set", "KEY=VALUE", "environment argument, such as max_cycles=10", dest="options"
    )
    add("--seed", type=int, help="seed of the first episode (default: random)")
    add("--episodes", type=int, default=1, metavar="N", help="number of episodes (default: 1)")
    add("--record", type=Path, metavar="FILE", help="write the episodes to this JSON Lines file")
    add(
        "--no-picture",
        action="store_true",
        help="print no picture of the state, which shows more than your agent observes",
    )


def run(args: argparse.Namespace) -> int:
    """Play episodes until one fails or the person leaves; write --record if given.

    Return 0, or 2 after a failure. Raise ConfigError, EnvConfigError or PolicyError for
    invalid arguments.
    """
    check_numbers(args)
    options = settings(args.options)
    if args.env in registry.names():  # All registered environments can render text.
        options = {"render_mode": None if args.no_picture else "ansi", **options}
    make_env = partial(registry.make, args.env, **options)
    with closing(make_env()) as env:
        agent = env.possible_agents[0] if args.agent is None else args.agent
        if agent not in env.possible_agents:
            allowed = ", ".join(env.possible_agents)
            raise ConfigError(f"--agent must be one of {allowed}, got {agent!r}")
        if getattr(env.unwrapped, "text_view", None) is None:
            raise ConfigError(f"{args.env} has no text_view, which `srl play` requires")
        if args.record is not None:
            refuse_unwritable("--record", args.record)
        human = Human(env.unwrapped.text_view, _ask, tell, hears_words=_talks(env))
        others = [other for other in env.possible_agents if other != agent]
        names = dict.fromkeys(others, "uniform") | players_of("--opponent", args.opponent, others)
        players = NamedPlayers.parse(args, names.values())
        players.prepare(args.threads)
        policies = {**players.by_agent(names, make_env), agent: human}
    first = int(np.random.default_rng().integers(2**31)) if args.seed is None else args.seed
    episodes: list[Episode] = []
    for seed in range(first, first + args.episodes):
        tell(f"{args.env}, seed {seed}. You are {agent}.\n")
        game = make_env()
        narrator = _Narrator(game, agent)
        try:
            episodes += play_many(lambda: game, policies, [seed], spectator=narrator)  # noqa: B023
        except KeyboardInterrupt:  # While another agent acts. At the prompt, it is an answer.
            narrator.tell_end("interrupted")
            raise
        failure = episodes[-1].failure
        narrator.tell_end(None if failure is None else failure.partition(": ")[2])
        if failure is not None:
            break
    if args.record is not None:
        with asked_for("--record", args.record):
            write_jsonl(args.record, episodes)
        tell(f"written: {args.record}; to view it: srl replay {args.record} --out game.html")
    return 0 if human.left or episodes[-1].failure is None else 2


class _Narrator:
    """Spectator that prints each round: all agents' steps, "(you)" for `agent`, and any picture."""

    def __init__(self, env: Any, agent: str) -> None:
        self._env, self._agent = env, agent
        self._episode: Episode | None = None

    def __call__(self, episode: Episode, over: bool) -> None:
        self._episode = episode
        if over:
            return
        if episode.turns:
            tell()
            for step in episode.turns[-1]:
                name = f"{step.agent} (you)" if step.agent == self._agent else step.agent
                words = self._in_words(step) if step.decision.asked else "(not to move)"
                tell(f"  {name}: {words}  {step.reward:+.3g}")
                if (failure := step.decision.parse_failure) is not None:
                    answer = printable(cut(step.decision.text or "", 200))
                    tell(f"    default action, because the answer is invalid ({failure}): {answer}")
        if getattr(self._env, "render_mode", None) == "ansi":
            tell(f"\n{self._env.render()}")

    def tell_end(self, failure: str | None) -> None:
        if self._episode is None:  # The episode ended before its first step.
            return
        result = "The game is over" if failure is None else f"The game ended early ({failure})"
        tell(f"\n{result} after {len(self._episode.turns)} rounds.")
        for name in ("winner", "outcome"):  # Keys of the last infos.
            if (end := self._episode.end_of(self._agent).get(name)) is not None:
                tell(f"{name}: {end}")
        for agent, total in self._episode.returns().items():
            tell(f"  {agent} ({self._episode.seats[agent]}): {total:.3f}")

    def _in_words(self, step: AgentStep) -> str:
        action = step.decision.action
        if isinstance(action, str):  # The action space is free text.
            return f'"{action}"'
        words: str = self._env.unwrapped.text_view.answers(step.agent)[int(action)]
        message = message_in(step.decision.text or "") if _talks(self._env) else ""
        return f'"{message}" {words}' if message else words


def _talks(env: Any) -> bool:
    return getattr(env.unwrapped, "messages", False)


def _ask(prompt: str) -> str | None:
    try:
        return input(printable(prompt))
    except (EOFError, KeyboardInterrupt):
        tell()
        return None
