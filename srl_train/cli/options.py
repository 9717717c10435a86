"""Options shared by several commands, and their parsed values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from srl_agents.seeding import MOST
from srl_envs.errors import DocumentError
from srl_envs.loading import read_yaml
from srl_envs.untrusted import printable
from srl_train.config.bounds import MOST_EPISODES, MOST_THREADS, within
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.player_names import PlayerSpec
    from srl_train.players import Resolver

BOUNDS = {
    "episodes": (1, MOST_EPISODES),
    "samples": (1, MOST_EPISODES),
    "group_size": (1, MOST_EPISODES),
    "seed": (0, MOST),
    "threads": (1, MOST_THREADS),
}


class Parser(argparse.ArgumentParser):
    """Argument parser whose errors send no control characters of the arguments to a terminal."""

    def error(self, message: str) -> NoReturn:
        """Exit with the message as printable text."""
        super().error(printable(message, multiline=False))


def add_command(commands: Any, name: str, purpose: str, **how: Any) -> argparse.ArgumentParser:
    """Add a command with its purpose in the list of commands and in its own --help."""
    description = f"{purpose[0].upper()}{purpose[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=description, **how
    )
    return parser


def add_list(
    parser: argparse.ArgumentParser, flag: str, metavar: str, what: str, dest: str | None = None
) -> None:
    """Add an option that may be repeated; its value is a list, empty by default."""
    parser.add_argument(
        flag,
        dest=dest,
        action="append",
        default=[],
        metavar=metavar,
        help=f"{what}; may be repeated",
    )


def add_seed(parser: argparse.ArgumentParser, what: str = "all randomness comes from it") -> None:
    """Add --seed, 0 by default."""
    parser.add_argument("--seed", type=int, default=0, metavar="S", help=f"{what} (default: 0)")


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add --out, for a file of results."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="write everything there as JSON")


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add --trust, for commands that read files of other users."""
    text = (
        "of runs, checkpoints and records: import the code, open the files and ask the models "
        "elsewhere that they name; by default nothing outside this library is touched"
    )
    parser.add_argument("--trust", action="store_true", help=text)


def add_constrained(parser: argparse.ArgumentParser) -> None:
    """Add --constrained and --no-constrained."""
    parser.add_argument(
        "--constrained",
        action=argparse.BooleanOptionalAction,
        help="let models write legal answers only (default: as they trained, else not)",
    )


def add_model_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options of models."""
    add = parser.add_argument
    as_trained = "of models' answers (default: as the run trained, else"
    add("--temperature", type=float, help=f"{as_trained} 1)")
    add("--max-new-tokens", type=int, metavar="N", help=f"{as_trained} 32)")
    add_constrained(parser)
    add_trust(parser)
    devices = ("auto", "cpu", "cuda")
    add("--device", choices=devices, help="models run there (default: auto)")
    add("--threads", type=int, metavar="N", help="CPU threads of torch (default: 1)")


def settings(texts: Iterable[str], flag: str = "--set") -> dict[str, Any]:
    """Return dotted names and values of KEY=VALUE texts. Raises ConfigError for other texts."""
    return dict(setting(text, flag) for text in texts)


def setting(text: str, flag: str = "--set") -> tuple[str, Any]:
    """Return (dotted name, value) of KEY=VALUE. Raises ConfigError for other texts."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"{flag} {text!r}: must be KEY=VALUE, such as max_cycles=10")
    try:
        return key.strip(), read_yaml(value)
    except DocumentError as error:
        raise ConfigError(f"{flag} {text!r}: the value: {error}") from error


def check_numbers(args: argparse.Namespace) -> None:
    """Raise ConfigError for a count, a seed or a number of threads out of range."""
    for name, bounds in BOUNDS.items():
        if (value := getattr(args, name, None)) is not None:
            within(f"--{name.replace('_', '-')}", value, *bounds)


def players_of(
    flag: str, words: Sequence[str], agents: Sequence[str], usual: Sequence[str] | None = None
) -> dict[str, str]:
    """Return agent -> player, from AGENT=WHO for one of `agents` and WHO for all `usual` ones.

    `usual` defaults to `agents`. Raises ConfigError for an unknown agent and one given twice.
    """
    everyone: dict[str, str] = {}
    own: dict[str, str] = {}
    for word in words:
        agent, equals, who = word.partition("=") if "=" in word else ("every agent", "", word)
        if equals and agent not in agents:
            raise ConfigError(f"{flag} {word}: no agent {agent!r}, give one of {', '.join(agents)}")
        given = own if equals else everyone
        if agent in given:
            raise ConfigError(f"{flag} gives {agent} to both {given[agent]} and {who}")
        given[agent] = who
    shared = agents if usual is None else usual
    if everyone and not shared:
        [who] = everyone.values()
        offered = ", ".join(agents)
        raise ConfigError(f"{flag} {who}: no partners; use AGENT={who} for one of {offered}")
    return {agent: who for agent in shared for who in everyone.values()} | own


def build_resolver(args: argparse.Namespace, players: Sequence[PlayerSpec]) -> Resolver:
    """Build the resolver of the players.

    Raises:
        ConfigError: If an option of models is given without a model, or a player cannot have it.
    """
    from srl_train.players import Resolver

    overrides = {
        name: getattr(args, name) for name in ("temperature", "max_new_tokens", "constrained")
    }
    models = [player for player in players if player.sources]
    unused = {**overrides, "device": args.device, "threads": args.threads}
    for name, value in unused.items():
        if value is not None and not models:
            flag = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{flag} is for models, and no player is one: leave it out")
    resolver = Resolver(overrides=overrides, device=args.device or "auto", trusted=args.trust)
    for player in models:
        resolver.settings_of(player)
    return resolver


def prepare_torch(threads: int | None = None) -> None:
    """Load transformers with the settings for our models."""
    # The tokenizer's threads cost more than they save on batches of a few short texts.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.disable_progress_bar()  # the bars would be drawn over our output
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
