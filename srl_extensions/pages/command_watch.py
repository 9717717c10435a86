"""`srl watch`: the live page of running and finished runs."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from srl_envs.loading import needed_by
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, listening

PORT = 8421


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl watch`."""
    parser.add_argument(
        "folders", metavar="RUN|FOLDER", nargs="+", type=Path,
        help="folder of a run, or of several runs; it may be created later",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"0 selects a free port (default: {PORT})"
    )
    names = "host name that browsers may use, in addition to localhost and IP addresses"
    add_list(parser, "--name", "HOST", names)


def run(args: argparse.Namespace) -> int:
    """Print the live page's address, serve it until Ctrl-C; ConfigError for a bad or used port."""
    with needed_by("`srl watch`"):
        from srl_extensions.pages.live_server import server

    served = server(args.folders, port=args.port, names=args.name)
    with listening(args.port) as (listener, address):
        tell(f"watching {', '.join(map(str, args.folders))} at {address}/")
        tell("Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            served.run(sockets=[listener])
    return 0
