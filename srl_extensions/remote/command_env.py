"""`srl serve env`: environments over gRPC."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import Any

from srl_envs.loading import needed_by
from srl_train.cli.notices import tell
from srl_train.cli.options import add_command
from srl_train.config.bounds import within

PORT = 50051
LIMITS = {
    "lease": (float, 300.0, "SECONDS", "time without a call after which a session ends"),
    "step_seconds": (float, 30.0, "SECONDS", "time limit of one session's reset or step"),
    "max_sessions": (int, 1024, "N", "maximum number of open sessions"),
    "max_sessions_per_client": (int, 256, "N", "the same of one client (one token)"),
    "threads": (int, 4, "N", "environments that compute at once"),
}
"""Setting -> its type, default, unit and meaning."""


def add_arguments(servers: Any) -> None:
    """Add the command to the subcommands of `srl serve`."""
    parser = add_command(servers, "env", "serve environments over gRPC, until Ctrl-C or SIGTERM")
    parser.add_argument(
        "environments", nargs="+", metavar="NAME",
        help="names of the catalogue, or module:function of your own",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1",
        help="address; one that other machines reach requires --certificate, --key and tokens "
        "(default: 127.0.0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"0 takes a free one (default: {PORT})"
    )
    parser.add_argument(
        "--certificate", type=Path, metavar="PEM", help="certificate chain, for TLS"
    )
    parser.add_argument("--key", type=Path, metavar="PEM", help="private key of the certificate")
    parser.add_argument(
        "--tokens", type=Path, metavar="FILE",
        help="one token per line, one for each client (default: SRL_ENV_TOKEN)",
    )  # fmt: skip
    for name, (kind, default, unit, meaning) in LIMITS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=kind, default=default, metavar=unit,
            help=f"{meaning} (default: {default:g})",
        )  # fmt: skip
    parser.add_argument(
        "--drain", type=float, default=10.0, metavar="SECONDS",
        help="time for open calls at the end (default: 10)",
    )  # fmt: skip
    parser.set_defaults(serve=run)


def run(args: argparse.Namespace) -> int:
    """Serve until the process is interrupted, then print the refusals."""
    with needed_by("`srl serve env`"):
        from srl_extensions.remote.settings import ServerSettings, read_tokens

    within("--drain", args.drain, 0.0, 3600.0)
    settings = ServerSettings(
        environments=args.environments, host=args.host, port=args.port,
        certificate=args.certificate, key=args.key, tokens=read_tokens(args.tokens),
        **{name: getattr(args, name) for name in LIMITS},
    )  # fmt: skip
    asyncio.run(_serve(settings, args.drain))
    return 0


async def _serve(settings: Any, drain: float) -> None:
    from srl_extensions.remote.grpc_server import serving

    over = asyncio.Event()
    for ending in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(ending, over.set)
    async with serving(settings, drain) as running:
        tell(f"serving {', '.join(settings.environments)} at {running.address}")
        tell(f"environment's name for clients: grpc://{running.address}/{settings.environments[0]}")
        tell("Ctrl-C ends it.")
        await over.wait()
        tell(f"ending, within {drain:g} s for open calls")
    for reason, count in sorted(running.refused.items()):
        tell(f"refused: {count} {reason}")
