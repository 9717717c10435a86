"""`srl serve models`: model servers of a configuration."""

from __future__ import annotations

import argparse
import json
import signal
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from srl_train.cli.notices import tell
from srl_train.cli.options import add_command, add_list, prepare_torch, settings
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_extensions.vllm.fleet import Fleet

LOOK = 1.0
"""Seconds between two checks for a server that failed too often."""


def add_arguments(subparsers: Any) -> None:
    """Add the command `models` to `subparsers`, with the function `models` as `serve`."""
    start = add_command(
        subparsers,
        "models",
        "start the servers of a configuration, and end them on Ctrl-C or SIGTERM",
    )
    start.add_argument("config", type=Path, help="a run's YAML with the section backend.managed")
    one = "replace one setting, such as backend.managed.base_port=9001"
    add_list(start, "--set", "KEY=VALUE", one, dest="overrides")
    start.set_defaults(serve=models)


def models(args: argparse.Namespace) -> int:
    """Run a configuration's servers, print their addresses, return 0 at Ctrl-C or SIGTERM.

    Raise ServingError if a server fails too often.
    """
    from srl_train.config.yaml_file import load

    config = load(args.config, settings(args.overrides))
    # SIGTERM ends the command as Ctrl-C does, also while the servers start.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _started(config) as fleet:
            urls = json.dumps([member.client.url for member in fleet.members])
            tell("The servers are ready. To train with them, replace backend.managed by:\n")
            tell(f"backend:\n  name: vllm\n  servers: {urls}\n")
            tell("Ctrl-C ends them.")
            while True:
                fleet.check()
                sleep(LOOK)
    except KeyboardInterrupt:
        tell("the servers have ended")
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _started(config: Any) -> Fleet:
    from srl_extensions.vllm.config import VLLMBackendConfig

    backend = config.backend
    if not isinstance(backend, VLLMBackendConfig) or backend.managed is None:
        raise ConfigError(
            "backend.managed must be given, such as {python: /opt/vllm/bin/python}, the Python of "
            "an environment with vLLM"
        )
    prepare_torch()
    from srl_extensions.vllm.models import open_fleet, served_bases
    from srl_train.environment import build_env

    _, sources = served_bases(config, partial(build_env, config))
    for base, source in sources.items():
        tell(f"starting {base} ({source}), which takes a minute")
    return open_fleet(config, sources)
