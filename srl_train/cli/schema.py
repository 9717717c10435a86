"""`srl schema`: all settings of a configuration, for editors and for the guide."""

from __future__ import annotations

import argparse
import json

from srl_train.cli.notices import tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--markdown", action="store_true", help="the table of the documentation in its place"
    )


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from srl_train.config import reference

    tell(reference.markdown() if args.markdown else json.dumps(reference.schema(), indent=2))
    return 0
