"""`srl serve openenv`: an environment for clients elsewhere, by OpenEnv's protocol."""

from __future__ import annotations

import argparse
from typing import Any

from srl_train.cli.notices import tell
from srl_train.cli.options import add_command, add_list, players_of, settings

PORT = 8000


def add_arguments(what: Any) -> None:
    """Declare what the command takes, `what` being the commands of `srl serve`."""
    purpose = "serve an environment by OpenEnv's protocol on this machine, until Ctrl-C"
    parser = add_command(what, "openenv", purpose)
    parser.add_argument("env", metavar="ENV", help="an environment's name (see `srl info`)")
    option = "an option of the environment, such as max_cycles=10"
    add_list(parser, "--set", "KEY=VALUE", option, dest="options")
    partner = "a scripted policy that plays an agent; clients play those that are left"
    add_list(parser, "--partner", "AGENT=POLICY", partner)
    parser.add_argument(
        "--numbers", action="store_true",
        help="observations as arrays and actions as numbers (default: both in words)",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=PORT, help=f"(default: {PORT})")
    parser.add_argument(
        "--max-sessions", type=int, default=64, metavar="N", help="games at once (default: 64)"
    )
    parser.set_defaults(serve=run)


def run(args: argparse.Namespace) -> int:
    """Serve until somebody interrupts."""
    from srl_envs.loading import needed_by

    with needed_by("`srl serve openenv`"):
        from srl_envs.remote.openenv.server import ServedGame, create_app, serve

    def with_partners(env: Any) -> Any:
        from srl_agents.rollout.partners import WithPartners
        from srl_agents.scripted.registry import classic_policy
        from srl_train.players import refuse_partners

        named = players_of("--partner", args.partner, env.possible_agents)
        refuse_partners(named, (), env)
        return WithPartners(env, {a: classic_policy(who, env) for a, who in named.items()})

    game = ServedGame(args.env, settings(args.options), text=not args.numbers, around=with_partners)
    app = create_app({args.env: game}, max_sessions=args.max_sessions)
    tell(f"serving {args.env} at http://127.0.0.1:{args.port}")
    tell(f'a client: srl_envs.remote.openenv.games.JointGame("http://127.0.0.1:{args.port}")')
    tell("Ctrl-C ends it.")
    serve(app, port=args.port)
    return 0
