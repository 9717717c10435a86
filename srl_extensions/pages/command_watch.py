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
from srl_train.cli.options import add_list
from srl_train.errors import ConfigError

PORT = 8421
TOKEN_VARIABLE = "SRL_WATCH_TOKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `srl watch`."""
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


def run(args: argparse.Namespace) -> int:
    """Print the live page's address, serve it until Ctrl-C, return 0; ConfigError for --port."""
    with needed_by("`srl watch`"):
        from srl_extensions.pages.live_server import server

    if not 0 <= args.port < 2**16:
        raise ConfigError(f"--port must be 0 to {2**16 - 1}, got {args.port}")
    host, names = args.host, args.name
    if host in ("0.0.0.0", "::"):  # These listen at all addresses.
        names = [*names, socket.gethostname()]
        host = names[0]
    token = os.environ.get(TOKEN_VARIABLE)
    if not token and not is_loopback(args.host):
        token = secrets.token_urlsafe(24)
    served = server(args.folders, host=args.host, port=args.port, token=token or None, names=names)
    with served.config.bind_socket() as listener:
        host = f"[{host}]" if ":" in host else host
        secret = f"#token={quote(token)}" if token else ""
        address = f"http://{host}:{listener.getsockname()[1]}/{secret}"
        tell(f"watching {', '.join(map(str, args.folders))} at {address}")
        tell("Ctrl-C ends it.")
        with suppress(KeyboardInterrupt):
            served.run(sockets=[listener])
    return 0
