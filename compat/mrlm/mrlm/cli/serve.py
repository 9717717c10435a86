"""`mrlm serve`: environments for clients elsewhere, by the server of `srl serve env`."""

from __future__ import annotations

import argparse

from mrlm.environments.catalogue import ENVIRONMENTS, registered_name
from srl_train.cli.options import Parser
from srl_train.cli.serve import environments

PORT = 50051


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own arguments."""
    parser.epilog = (
        "All options of `srl serve env` may follow, such as --certificate, --key and --tokens."
    )
    parser.add_argument(
        "-e", "--environments", required=True, metavar="ENV1,ENV2",
        help=f"what clients may open: {', '.join(ENVIRONMENTS)}, or names of srl_envs",
    )  # fmt: skip
    parser.add_argument("-p", "--port", type=int, default=PORT, help=f"0 takes a free one ({PORT})")
    parser.add_argument(
        "--host", default="127.0.0.1",
        help="the address to serve at; others than this machine's own want --certificate, --key "
        "and --tokens (default: 127.0.0.1)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Serve until somebody interrupts."""
    names = [registered_name(name.strip()) for name in args.environments.split(",")]
    parser = Parser(prog="mrlm serve")
    environments.add_arguments(parser.add_subparsers())
    place = ["--port", str(args.port), "--host", args.host]
    return environments.run(parser.parse_args(["env", *names, *place, *args.rest]))
