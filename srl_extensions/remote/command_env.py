"""`srl serve env`: environments over gRPC."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any

from srl_envs.loading import needed_by
from srl_extensions.remote.sessions import SessionLimits
from srl_train.cli.notices import tell
from srl_train.cli.options import add_command

PORT = 50051
LIMITS = {
    "lease": "seconds without a call after which a session ends",
    "step_seconds": "time limit of one session's reset or step",
    "max_sessions": "maximum number of open sessions",
    "threads": "calls that compute at once",
}
"""Limits that are options, with their meaning."""


def add_arguments(servers: Any) -> None:
    """Add the command `srl serve env`, which calls `run`, to the subparsers `servers`."""
    parser = add_command(servers, "env", "serve environments over gRPC, until Ctrl-C or SIGTERM")
    parser.add_argument(
        "environments", nargs="+", metavar="NAME",
        help="names of the catalogue, or module:function of your own",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1",
        help="loopback address (default: 127.0.0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"0 takes a free one (default: {PORT})"
    )
    for name, meaning in LIMITS.items():
        default = getattr(SessionLimits, name)
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default,
            help=f"{meaning} (default: {default:g})",
        )  # fmt: skip
    parser.set_defaults(serve=run)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; EnvConfigError for invalid arguments or a port in use."""
    with needed_by("`srl serve env`"):
        from srl_extensions.remote.grpc_server import ServerSettings, serving

    settings = ServerSettings(
        environments=args.environments, host=args.host, port=args.port,
        **{name: getattr(args, name) for name in LIMITS},
    )  # fmt: skip
    asyncio.run(_serve(settings, serving(settings)))
    return 0


async def _serve(settings: Any, server: Any) -> None:
    over = asyncio.Event()
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, over.set)
    async with server as running:
        tell(f"serving {', '.join(settings.environments)} at {running.address}")
        tell(f"environment's name for clients: grpc://{running.address}/{settings.environments[0]}")
        tell("Ctrl-C ends it.")
        await over.wait()
