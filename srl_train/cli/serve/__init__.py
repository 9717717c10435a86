"""`srl serve`: model servers, environments for clients elsewhere, and the list of what runs."""

from __future__ import annotations

import argparse

from srl_extensions.vllm import cli as models
from srl_train.cli.serve import environments, openenv

COMMANDS = {
    "models": models.models,
    "status": models.status,
    "env": environments.run,
    "openenv": openenv.run,
}
"""What to serve or list -> what does it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the command takes."""
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    models.add_arguments(what)
    environments.add_arguments(what)
    openenv.add_arguments(what)


def run(args: argparse.Namespace) -> int:
    """Serve, or list what is served."""
    return COMMANDS[args.what](args)
