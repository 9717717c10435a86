"""Options shared by several commands, and their parsed values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from srl_train.errors import ConfigError


def add_trust(parser: argparse.ArgumentParser) -> None:
    """--trust, in the same words for every command that reads what others wrote."""
    parser.add_argument(
        "--trust", action="store_true",
        help="of runs, checkpoints and records: import the code, open the files and ask the models "
        "elsewhere that they name; by default nothing outside this library is touched",
    )  # fmt: skip


def add_constrained(parser: argparse.ArgumentParser) -> None:
    """--constrained and --no-constrained."""
    parser.add_argument(
        "--constrained", action=argparse.BooleanOptionalAction,
        help="let models write legal answers only (default: as they trained, else not)",
    )  # fmt: skip


def players_of(flag: str, words: Sequence[str], agents: Sequence[str]) -> dict[str, str]:
    """Agent -> who plays it, from WHO for all `agents` and AGENT=WHO for one, each given once."""
    everyone: dict[str, str] = {}
    own: dict[str, str] = {}
    for word in words:
        agent, equals, who = word.partition("=") if "=" in word else ("every agent", "", word)
        if equals and agent not in agents:
            raise ConfigError(f"{flag} {word}: no agent {agent!r}, give one of {', '.join(agents)}")
        given = own if equals else everyone
        if agent in given:
            raise ConfigError(f"{flag} gives {agent} to {given[agent]} and to {who}: give one")
        given[agent] = who
    return {agent: who for agent in agents for who in everyone.values()} | own


def refuse_unread(options: Mapping[str, object], readers: str) -> None:
    """Raise ConfigError for an option that was given, and that nobody reads who plays."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"--{name.replace('_', '-')} is for {readers}: leave it out")


def prepare_torch(threads: int | None = None) -> None:
    """Set what our models are best run with, and load transformers, which takes seconds."""
    # Its threads cost more than they save on batches of a few short texts.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    logging.disable_progress_bar()  # its bars would be drawn over what we print
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
