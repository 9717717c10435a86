"""`srl serve env`: environments for clients elsewhere, over gRPC."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srl_train.cli.notices import tell
from srl_train.cli.options import add_command
from srl_train.config.bounds import within

if TYPE_CHECKING:
    from srl_envs.remote.server.settings import ServerSettings

PORT = 50051
LIMITS = {
    "lease": (float, 300.0, "SECONDS", "without a call, after which a session ends"),
    "step_seconds": (float, 30.0, "SECONDS", "that one session's reset or step may take"),
    "max_sessions": (int, 1024, "N", "sessions open at once"),
    "max_sessions_per_client": (int, 256, "N", "of them of one client, which is one token"),
    "threads": (int, 4, "N", "environments that compute at once"),
}
"""Setting of the server -> its type, default, unit and meaning."""


def add_arguments(what: Any) -> None:
    """Declare what the command takes, `what` being the commands of `srl serve`."""
    parser = add_command(what, "env", "serve environments over gRPC, until Ctrl-C or SIGTERM")
    parser.add_argument(
        "environments", nargs="+", metavar="NAME",
        help="what clients may open: names of the catalogue, or module:function of your own",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1",
        help="the address to serve at; others than this machine's own want --certificate, --key "
        "and tokens (default: 127.0.0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"0 takes a free one (default: {PORT})"
    )
    parser.add_argument(
        "--certificate", type=Path, metavar="PEM", help="certificate chain, for TLS"
    )
    parser.add_argument("--key", type=Path, metavar="PEM", help="its private key")
    parser.add_argument(
        "--tokens", type=Path, metavar="FILE",
        help="one token a line, one for each client (default: that of SRL_ENV_TOKEN, if any)",
    )  # fmt: skip
    for name, (kind, default, unit, meaning) in LIMITS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=kind, default=default, metavar=unit,
            help=f"{meaning} (default: {default:g})",
        )  # fmt: skip
    parser.add_argument(
        "--drain", type=float, default=10.0, metavar="SECONDS",
        help="to finish open calls at the end (default: 10)",
    )  # fmt: skip
    parser.set_defaults(serve=run)


def run(args: argparse.Namespace) -> int:
    """Serve until somebody interrupts, then tell what was refused."""
    from srl_envs.loading import needed_by

    with needed_by("`srl serve env`"):
        from srl_envs.remote.server.settings import ServerSettings, read_tokens

    within("--drain", args.drain, 0.0, 3600.0)
    settings = ServerSettings(
        environments=args.environments,
        host=args.host,
        port=args.port,
        certificate=args.certificate,
        key=args.key,
        tokens=read_tokens(args.tokens),
        **{name: getattr(args, name) for name in LIMITS},
    )
    asyncio.run(_serve(settings, args.drain))
    return 0


async def _serve(settings: ServerSettings, drain: float) -> None:
    from srl_agents.scripted.game_player import ScriptedPlayer
    from srl_envs.remote.server.serve import serving

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(ending, over.set)
    async with serving(settings, ScriptedPlayer(), drain) as running:
        tell(f"serving {', '.join(settings.environments)} at {running.address}")
        tell(_for_clients(settings, running.address))
        tell("Ctrl-C ends it.")
        await over.wait()
        tell(f"ending, within {drain:g} s for the calls under way")
    for reason, count in sorted(running.refused.items()):
        tell(f"refused: {count} {reason}")


def _for_clients(settings: ServerSettings, address: str) -> str:
    """How a client names the first environment, and what it needs for it."""
    from srl_envs.remote.connection import CERTIFICATE_VARIABLE, TOKEN_VARIABLE

    if settings.host in ("0.0.0.0", "::", "[::]"):  # all of them, so none to call
        address = f"HOST{address[len(settings.host) :]}"
    needed = [TOKEN_VARIABLE] * bool(settings.tokens)
    needed += [CERTIFICATE_VARIABLE] * (settings.certificate is not None)
    told = f", with {' and '.join(needed)} set" if needed else ""
    return f"a client takes grpc://{address}/{settings.environments[0]} for an environment{told}"
