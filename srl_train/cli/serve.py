"""`srl serve`: model servers and environment servers."""

from __future__ import annotations

import argparse

from srl_envs.tables import Plugin, PluginTable

SERVERS = PluginTable(
    "core_srl.servers",
    {
        "models": Plugin("srl_extensions.vllm.cli"),
        "env": Plugin("srl_extensions.remote.command_env"),
        "openenv": Plugin("srl_extensions.remote.command_openenv"),
    },
)
"""Modules of servers. Each has `add_arguments(subparsers)`, which adds a parser whose default
`serve` is a function of the parsed arguments."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one required subcommand per server in SERVERS, whose modules are imported."""
    servers = parser.add_subparsers(dest="server", required=True, metavar="SERVER")
    for name in SERVERS:
        SERVERS.load(name).add_arguments(servers)


def run(args: argparse.Namespace) -> int:
    """Call `args.serve`, which runs a server until it ends, and return its exit code."""
    status: int = args.serve(args)
    return status
