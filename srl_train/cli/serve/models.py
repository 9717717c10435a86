"""`srl serve models` and `srl serve status`: model servers of a configuration, and what runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from srl_agents.errors import ServingError
from srl_train.cli.notices import tell
from srl_train.cli.options import add_command, add_list, prepare_torch, settings
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_agents.serving.fleet import Fleet
    from srl_agents.serving.process.records import ServerRecord
    from srl_train.config.run import RunConfig

LOOK = 1.0
"""Seconds between two looks at whether a server was given up."""
PATIENCE = 10.0
"""Seconds that a server has to answer a check."""


def add_arguments(what: Any) -> None:
    """Declare what the two commands take, `what` being the commands of `srl serve`."""
    start = add_command(
        what, "models", "start the servers of a configuration, and end them on Ctrl-C or SIGTERM"
    )
    start.add_argument("config", type=Path, help="a run's YAML with the section backend.managed")
    one = "replace one setting, such as backend.managed.base_port=9001"
    add_list(start, "--set", "KEY=VALUE", one, dest="overrides")
    start.add_argument(
        "--logs", type=Path, metavar="FOLDER",
        help="where the servers' logs are written (default: server-logs in the cache folder)",
    )  # fmt: skip
    start.add_argument(
        "--drain", type=float, default=10.0, metavar="SECONDS",
        help="to finish the answers under way at the end (default: 10)",
    )  # fmt: skip
    shown = add_command(what, "status", "list the servers that run on this machine")
    shown.add_argument("--json", action="store_true", help="as JSON, for programs")


def models(args: argparse.Namespace) -> int:
    """Start the servers of a configuration, and keep them up."""
    from srl_train.config.yaml_file import load

    config = load(args.config, settings(args.overrides))
    # SIGTERM ends it as Ctrl-C does, also while the servers start.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _serve(_started(config, args.logs), args.drain)
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _serve(fleet: Fleet, drain: float) -> None:
    """Keep the servers up until somebody interrupts."""
    try:
        tell("The servers answer. To train through them, give in place of backend.managed:\n")
        tell(f"backend:\n  name: vllm\n  servers: {json.dumps(fleet.urls)}\n")
        tell("Ctrl-C ends them; `srl serve status` lists them.")
        while True:
            fleet.check()
            sleep(LOOK)
    except KeyboardInterrupt:
        tell(f"ending the servers, within {drain:g} s for the answers under way")
    finally:
        fleet.close(drain)


def _started(config: RunConfig, logs: Path | None) -> Fleet:
    from srl_train.config.backend import VLLMBackendConfig

    backend = config.backend
    if not isinstance(backend, VLLMBackendConfig) or (managed := backend.managed) is None:
        raise ConfigError(
            "backend.managed: there is nothing to start, give `backend: {name: vllm, managed: "
            "{python: /opt/vllm/bin/python}}`, by the Python of the environment that has vLLM"
        )
    prepare_torch()
    from srl_agents.serving.fleet import Fleet
    from srl_agents.serving.server import logs_folder
    from srl_train.engine.builders.environment import build_env
    from srl_train.players.served.server_specs import (
        check_python,
        servable,
        served_bases,
        server_specs,
    )

    check_python(managed)
    bases = config.models.bases
    sources = served_bases(config, servable(config, partial(build_env, config), bases))
    specs = server_specs(
        config,
        managed,
        sources,
        keep_versions=backend.keep_versions,
        log_folder=logs or logs_folder(),
    )
    for spec in specs:
        tell(f"starting {spec.served_name} ({spec.model}) at {spec.url}, which takes a minute")
    return Fleet.managed(
        specs,
        concurrency=backend.concurrency,
        deadline=backend.deadline,
        max_restarts=managed.max_restarts,
        start_timeout=managed.start_timeout,
    )


def status(args: argparse.Namespace) -> int:
    """List the servers that run on this machine."""
    from srl_agents.serving.process.records import read_records

    found = list(read_records())
    records = [record for record in found if not isinstance(record, ServingError)]
    servers = asyncio.run(_checked(records))
    if args.json:
        tell(json.dumps(servers))
        return 0
    for error in found:
        if isinstance(error, ServingError):
            tell(f"passed over: {error}")
    if not servers:
        tell("no model server runs here that was started by `srl serve models` or a run")
    for server in servers:
        adapters = f", {len(server['adapters'])} adapters" if server["adapters"] else ""
        tell(f"{server['url']}  {server['served_name']}{adapters}  {server['state']}")
        tell(f"  model {server['model']}, log {server['log']}")
    return 0


async def _checked(records: list[ServerRecord]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*map(_check, records)))


async def _check(record: ServerRecord) -> dict[str, Any]:
    """What the record says, and how the server does: it has to complete a token."""
    from srl_agents.serving.process.loopback import KeyNeeded, complete_one_token, served_models

    adapters: list[str] = []
    try:
        names = await served_models(record.url, PATIENCE)
        adapters = [name for name in names if name != record.served_name]
        await complete_one_token(record.url, record.served_name, PATIENCE)
        state = "ready"
    except ConnectionRefusedError:
        state = "starting"  # its process lives, and does not listen yet
    except KeyNeeded:
        state = "answers its run alone, which has the key"
    except (ServingError, OSError) as error:
        state = f"fails: {error}"
    return {**vars(record), "adapters": adapters, "state": state}
