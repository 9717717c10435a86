"""`srl serve openenv`: an environment by OpenEnv's protocol."""

from __future__ import annotations

import argparse
from typing import Any

from srl_envs.loading import needed_by
from srl_train.cli.notices import tell
from srl_train.cli.options import add_command, add_list, listening, players_of, settings

PORT = 8000


def add_arguments(servers: Any) -> None:
    """Add the command `srl serve openenv`, which calls `run`, to the subparsers `servers`."""
    purpose = "serve an environment by OpenEnv's protocol on this machine, until Ctrl-C"
    parser = add_command(servers, "openenv", purpose)
    parser.add_argument("env", metavar="ENV", help="an environment's name (see `srl info`)")
    option = "an option of the environment, such as max_cycles=10"
    add_list(parser, "--set", "KEY=VALUE", option, dest="options")
    partner = "scripted policy of an agent; clients play the remaining agents"
    add_list(parser, "--partner", "AGENT=POLICY", partner)
    parser.add_argument("--port", type=int, default=PORT, help=f"(default: {PORT})")
    parser.add_argument(
        "--max-sessions", type=int, default=64, metavar="N", help="games at once (default: 64)"
    )
    parser.set_defaults(serve=run)


def run(args: argparse.Namespace) -> int:
    """Print the address and serve ENV until SIGINT or SIGTERM, which is raised again.

    Raises ConfigError for an invalid argument, and EnvError for an ENV that cannot be served.
    """
    from srl_agents.partners import with_scripted
    from srl_train.players import refuse_partners

    with needed_by("`srl serve openenv`"):
        from srl_extensions.remote.openenv_server import ServedGame, create_app, serve

    def with_partners(env: Any) -> Any:
        named = players_of("--partner", args.partner, env.possible_agents)
        refuse_partners(named, (), env)
        return with_scripted(env, named)

    game = ServedGame(args.env, settings(args.options), around=with_partners)
    app = create_app({args.env: game}, max_sessions=args.max_sessions)
    with listening(args.port) as (listener, url):
        tell(f"serving {args.env} at {url}")
        tell(f'a client: srl_extensions.remote.openenv_client.FocalAgent("{url}")')
        tell("Ctrl-C ends it.")
        serve(app, sockets=[listener])
    return 0
