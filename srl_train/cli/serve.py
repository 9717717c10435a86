"""The command `srl serve`: model servers and environment servers."""

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
"""Modules of servers. Each has `add_arguments(subparsers)`, whose parsers set the default `serve`
to a function of the parsed arguments."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of all servers."""
    what = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name in SERVERS:
        SERVERS.load(name).add_arguments(what)


def run(args: argparse.Namespace) -> int:
    """Start a server."""
    status: int = args.serve(args)
    return status
