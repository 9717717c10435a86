"""`srl watch`: the live page of running and finished runs."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from srl_envs.loading import needed_by
from srl_envs.validation import is_loopback
from srl_train.cli.notices import tell
from srl_train.cli.options import add_list, add_trust
from srl_train.errors import ConfigError

PORT = 8421
TOKEN_VARIABLE = "SRL_WATCH_TOKEN"
SHORTEST_TOKEN = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folders", metavar="RUN|FOLDER", nargs="+", type=Path,
        help="folder of a run, or of several runs; it may be created later",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1",
        help="address to serve at; addresses other than loopback require a token "
        "(default: 127.0.0.1)",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=PORT, help=f"0 selects a free port (default: {PORT})"
    )
    names = "host name that browsers may use, in addition to localhost and IP addresses"
    add_list(parser, "--name", "HOST", names)
    add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Serve the live page until interrupted; return 0."""
    with needed_by("`srl watch`"):
        from srl_extensions.pages.live_server import server

    token = os.environ.get(TOKEN_VARIABLE)
    if token is not None and (len(token) < SHORTEST_TOKEN or quote(token, safe="") != token):
        raise ConfigError(
            f"{TOKEN_VARIABLE} must have at least {SHORTEST_TOKEN} letters, digits, - and _, got "
            f"{len(token)} characters"
        )
    if token is None and not is_loopback(args.host):
        token = secrets.token_urlsafe(24)
    with _listening(args.host, args.port) as listener:
        for folder in args.folders:
            if not os.path.exists(folder):
                tell(f"{folder} does not exist yet: its runs appear when they start")
        host = args.host
        if host in ("0.0.0.0", "::"):  # These listen at all addresses.
            host = args.name[0] if args.name else socket.gethostname()
        host = f"[{host}]" if ":" in host else host
        query = f"?token={token}" if token else ""
        address = f"http://{host}:{listener.getsockname()[1]}/{query}"
        tell(f"watching {', '.join(map(str, args.folders))} at {address}")
        tell("Ctrl-C ends it.")
        served = server(args.folders, token=token, names=args.name, trusted=args.trust)
        with suppress(KeyboardInterrupt):
            served.run(sockets=[listener])
    return 0


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot serve at --host {host} and --port {port} ({error}); --port 0 selects a free "
            "port"
        ) from error
