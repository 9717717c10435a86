"""`srl serve models` and `srl serve status`: model servers of a configuration, and their state."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from srl_agents.errors import BackendError, ServerUnavailable
from srl_envs.untrusted import printable
from srl_envs.validation import is_loopback
from srl_train.cli.notices import tell
from srl_train.cli.options import add_command, add_list, prepare_torch, settings
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_extensions.vllm.command import ServerSpec
    from srl_extensions.vllm.fleet import Fleet

LOOK = 1.0
"""Seconds between two checks for a server that was given up."""
PATIENCE = 10.0
"""Seconds that a server has to complete a token."""


def add_arguments(what: Any) -> None:
    """Declare the arguments of both commands, `what` being the subparsers of `srl serve`."""
    start = add_command(
        what, "models", "start the servers of a configuration, and end them on Ctrl-C or SIGTERM"
    )
    start.add_argument("config", type=Path, help="a run's YAML with the section backend.managed")
    one = "replace one setting, such as backend.managed.base_port=9001"
    add_list(start, "--set", "KEY=VALUE", one, dest="overrides")
    start.add_argument(
        "--logs", type=Path, metavar="FOLDER",
        help="folder of the servers' logs (default: server-logs in the cache folder)",
    )  # fmt: skip
    start.add_argument(
        "--drain", type=float, default=10.0, metavar="SECONDS",
        help="time for open requests at the end (default: 10)",
    )  # fmt: skip
    start.set_defaults(serve=models)
    shown = add_command(what, "status", "list the servers that run on this machine")
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.set_defaults(serve=status)


def models(args: argparse.Namespace) -> int:
    """Start the servers of a configuration and keep them up until an interrupt."""
    from srl_train.config.yaml_file import load

    config = load(args.config, settings(args.overrides))
    # SIGTERM ends the command as Ctrl-C does, also while the servers start.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        fleet = _started(config, args.logs)
        try:
            tell("The servers answer. To train through them, replace backend.managed by:\n")
            tell(f"backend:\n  name: vllm\n  servers: {json.dumps(fleet.urls)}\n")
            tell("Ctrl-C ends them; `srl serve status` lists them.")
            while True:
                fleet.check()
                sleep(LOOK)
        except KeyboardInterrupt:
            tell(f"ending the servers, within {args.drain:g} s for open requests")
        finally:
            fleet.close(args.drain)
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _started(config: Any, logs: Path | None) -> Fleet:
    from srl_extensions.vllm.config import VLLMBackendConfig

    backend = config.backend
    if not isinstance(backend, VLLMBackendConfig) or backend.managed is None:
        raise ConfigError(
            "backend.managed: there is nothing to start, give `backend: {name: vllm, managed: "
            "{python: /opt/vllm/bin/python}}`, by the Python of the environment that has vLLM"
        )
    prepare_torch()
    from srl_extensions.vllm.models import check_python, open_fleet, servable, served_bases
    from srl_train.environment import build_env

    check_python(backend.managed)
    starts = servable(config, partial(build_env, config), config.models.bases)
    sources = served_bases(config, starts)
    for base, source in sources.items():
        tell(f"starting {base} ({source}), which takes a minute")
    return open_fleet(config, backend, sources, logs)


def status(args: argparse.Namespace) -> int:
    """List the servers that run on this machine."""
    from srl_extensions.vllm.server import running_servers

    async def states() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*map(_state, running_servers())))

    servers = asyncio.run(states())
    if args.json:
        tell(json.dumps(servers))
        return 0
    if not servers:
        tell("no model server runs here that was started by `srl serve models` or a run")
    for server in servers:
        shown = {name: printable(value, multiline=False) for name, value in server.items()}
        adapters = f", {len(server['adapters'])} adapters" if server["adapters"] else ""
        tell(f"{shown['url']}  {shown['served_name']}{adapters}  {shown['state']}")
        tell(f"  model {shown['model']}, log {shown['log']}")
    return 0


async def _state(spec: ServerSpec) -> dict[str, Any]:
    """Return the settings of a server and whether it completes a token."""
    from srl_extensions.vllm.client import VLLMClient
    from srl_extensions.vllm.server import log_of

    adapters: list[str] = []
    if spec.key is not None or not is_loopback(spec.host):
        state = "answers its run only, which has the key"
    else:
        client = VLLMClient(spec.url, deadline=PATIENCE)
        try:
            await client.check_ready(spec.served_name, PATIENCE)
            adapters = [name for name in await client.models() if name != spec.served_name]
            state = "ready"
        except ServerUnavailable:
            state = "starting"  # The process runs and does not listen yet.
        except BackendError as error:
            state = f"fails: {error}"
        finally:
            await client.close()
    own = {"url": spec.url, "served_name": spec.served_name, "model": spec.model}
    return {**own, "log": str(log_of(spec)), "adapters": adapters, "state": state}
