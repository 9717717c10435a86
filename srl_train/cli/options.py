"""Arguments shared by several commands, and checks of their values."""

from __future__ import annotations

import argparse
import math
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from srl_agents.seeding import MOST
from srl_envs.errors import DocumentError
from srl_envs.loading import read_yaml
from srl_envs.untrusted import printable
from srl_train.config.bounds import MOST_EPISODES, MOST_THREADS
from srl_train.errors import ConfigError

_BOUNDS = {
    "episodes": (1, MOST_EPISODES),
    "samples": (1, MOST_EPISODES),
    "group_size": (1, MOST_EPISODES),
    "seed": (0, MOST),
    "threads": (1, MOST_THREADS),
    "concurrency": (1, MOST_EPISODES),
    "timeout": (0.001, 1e6),
    "retries": (0, 1000),
    "min_return": (-math.inf, math.inf),
}


class Parser(argparse.ArgumentParser):
    """Argument parser that escapes control characters in its error messages."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message to stderr, and raise SystemExit(2)."""
        super().error(printable(message, multiline=False))


def add_command(commands: Any, name: str, purpose: str, **options: Any) -> argparse.ArgumentParser:
    """Add a command to `commands`, the result of `add_subparsers`, and return its parser.

    `purpose` is the text in the list of commands, in lower case and without a full stop; --help
    shows it as a sentence. `options` are arguments of `add_parser`.
    """
    description = f"{purpose[0].upper()}{purpose[1:]}."
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=description, **options
    )
    return parser


def add_list(
    parser: argparse.ArgumentParser, flag: str, metavar: str, what: str, dest: str | None = None
) -> None:
    """Add a repeatable option `flag` with the help text `what`.

    Its value is a list of text, [] by default, in `dest` or the option's name.
    """
    parser.add_argument(
        flag,
        dest=dest,
        action="append",
        default=[],
        metavar=metavar,
        help=f"{what}; may be repeated",
    )


def add_seed(parser: argparse.ArgumentParser, what: str = "seed of all random numbers") -> None:
    """Add --seed, an integer with the help text `what`, 0 by default."""
    parser.add_argument("--seed", type=int, default=0, metavar="S", help=f"{what} (default: 0)")


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add --out, the path of a JSON file for results, None by default."""
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write all results to this JSON file"
    )


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add --trust (False by default), which allows code, files and servers that records name."""
    text = (
        "import the code, read the files and query the servers that a run, checkpoint or record "
        "names; by default, only parts of this library are used"
    )
    parser.add_argument("--trust", action="store_true", help=text)


def add_model_settings(parser: argparse.ArgumentParser) -> None:
    """Add --temperature, --max-new-tokens, --constrained, --trust, --device and --threads.

    All are None by default, except --trust, which is False.
    """
    add = parser.add_argument
    default = "(default: as in training, else"
    add("--temperature", type=float, help=f"sampling temperature {default} 1)")
    add("--max-new-tokens", type=int, metavar="N", help=f"maximum tokens per answer {default} 32)")
    answers = "sample only legal answers (default: as in training, else --no-constrained)"
    add("--constrained", action=argparse.BooleanOptionalAction, help=answers)
    add_trust(parser)
    devices = ("auto", "cpu", "cuda")
    add("--device", choices=devices, help="device of the models (default: auto)")
    add("--threads", type=int, metavar="N", help="number of CPU threads of torch (default: 1)")


def settings(texts: Iterable[str], flag: str = "--set") -> dict[str, Any]:
    """Parse KEY=VALUE texts, values of the option `flag`, into dotted name -> YAML value.

    Raises ConfigError, which names the option, for a text without "=" or a value that is no YAML.
    """
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{flag} {text!r}: must be KEY=VALUE, such as max_cycles=10")
        try:
            found[key.strip()] = read_yaml(value)
        except DocumentError as error:
            raise ConfigError(f"{flag} {text!r}: {error}") from error
    return found


def check_numbers(args: argparse.Namespace) -> None:
    """Raise ConfigError for a number in `args` that is out of its range.

    Checked are the numbers in _BOUNDS, unless absent or None.
    """
    for name, (low, high) in _BOUNDS.items():
        value = getattr(args, name, None)
        if value is not None and not low <= value <= high:
            raise ConfigError(
                f"--{name.replace('_', '-')} must be from {low} to {high}, got {value}"
            )


@contextmanager
def listening(port: int) -> Iterator[tuple[socket.socket, str]]:
    """Yield a socket that listens at `port` of 127.0.0.1 (0: a free one), and its http address.

    Raises ConfigError for a port that is invalid or in use.
    """
    if not 0 <= port < 2**16:
        raise ConfigError(f"--port must be 0 to {2**16 - 1}, got {port}")
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise ConfigError(f"--port must be a free port, got {port}: {error}") from error
    with listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


def players_of(
    flag: str, words: Sequence[str], agents: Sequence[str], default: Sequence[str] | None = None
) -> dict[str, str]:
    """Return agent -> player from the values `words` of the option `flag`.

    A value AGENT=PLAYER is for one of `agents`. One value PLAYER is for all agents in `default` (by
    default all `agents`) that no value AGENT=PLAYER names. Agents without a player are missing.
    Raises ConfigError for an unknown agent, an agent with two players, two values PLAYER, or one
    if `default` is empty.
    """
    shared: list[str] = []
    assigned: dict[str, str] = {}
    for word in words:
        agent, equals, player = word.partition("=")
        if not equals:
            shared.append(word)
        elif agent not in agents:
            raise ConfigError(f"{flag} {word}: agent must be one of {', '.join(agents)}")
        elif agent in assigned:
            raise ConfigError(
                f"{flag}: {agent} must have one player, got {assigned[agent]}, {player}"
            )
        else:
            assigned[agent] = player
    if len(shared) > 1:
        raise ConfigError(f"{flag}: must be one player for all agents, got {', '.join(shared)}")
    others = agents if default is None else default
    if shared and not others:
        raise ConfigError(
            f"{flag} {shared[0]}: there are no partners; use AGENT={shared[0]} with one of the "
            f"agents {', '.join(agents)}"
        )
    return {agent: player for agent in others for player in shared} | assigned


def prepare_torch(threads: int | None = None) -> None:
    """Disable transformers' progress bars; set TOKENIZERS_PARALLELISM to false unless set.

    `threads` is the new number of torch's CPU threads; None keeps it.
    """
    # For batches of a few short texts, the tokenizer's threads cost more than they save.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.disable_progress_bar()  # The bars would overwrite the output of commands.
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
